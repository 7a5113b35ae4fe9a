"""Which part of a new face is shown."""
