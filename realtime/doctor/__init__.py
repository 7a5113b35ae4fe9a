"""Every check that explains why it does not work."""
