"""Sound beside the picture: a microphone or a file, put where the lips are."""
