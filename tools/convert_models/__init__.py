"""Makes the carried networks again from the packages they came from, and checks that they are the same."""
