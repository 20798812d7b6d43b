"""The runs and searches that lie in a folder: what they are, how far they came, what they found."""
