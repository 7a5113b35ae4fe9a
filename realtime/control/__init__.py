"""The control page: what viewers see, and everything that can be changed while they do."""
