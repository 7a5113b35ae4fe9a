"""The models that users know: what each is, where it comes from, how it wants its pictures."""
