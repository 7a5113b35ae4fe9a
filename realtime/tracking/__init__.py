"""Where the faces are, from frame to frame."""
