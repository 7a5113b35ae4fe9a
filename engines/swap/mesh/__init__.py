"""The embedded swapper: a photo painted over a tracked mesh."""
