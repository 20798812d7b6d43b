"""Trials whose optimizer Lightning may step by itself, and how that is found out."""
