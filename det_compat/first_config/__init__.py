"""``det-compat init``: a config and a script for trial classes that are there."""
