"""What is in a picture: faces, landmarks, identities, photos."""
