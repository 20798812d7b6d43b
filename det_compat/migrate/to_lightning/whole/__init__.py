"""Validations of a whole data set, as hooks: what is before the loop, in it, and behind it."""
