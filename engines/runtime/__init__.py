"""How a network runs."""
