"""Experiment configs, run on Lightning."""
