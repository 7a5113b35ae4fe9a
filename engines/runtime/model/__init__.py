"""Model files, read with suspicion."""
