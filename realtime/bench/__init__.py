"""Latency on this machine, from the terminal."""
