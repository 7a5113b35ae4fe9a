"""One algorithm, several homes: what is done to pixels."""
