"""What puts another face on a face."""
