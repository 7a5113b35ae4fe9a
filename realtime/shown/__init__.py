"""What viewers see when the swap cannot be trusted, and the mark when it can."""
