"""A still picture that moves: its face as a mesh over head, hair and background, posed, bent and painted."""
