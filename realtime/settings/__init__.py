"""What a run is asked to do: every option in one table, whichever door it comes in by."""
