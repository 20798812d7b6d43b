"""Trials of every generation, brought into the context API."""
