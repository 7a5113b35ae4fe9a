"""Who is swapped, and who is covered."""
