"""Swap generators: networks of the user's own that make the new face."""
