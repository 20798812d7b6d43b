"""The table of every key that an experiment config may have."""
