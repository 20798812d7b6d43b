"""Processes that begin where another one has imported what they need."""
