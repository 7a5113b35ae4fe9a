"""Live streams: a thread encodes, a process of its own connects and sends."""
