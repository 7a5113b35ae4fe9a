"""One script for the day a graphics card is at hand; see ``__main__.py``."""
