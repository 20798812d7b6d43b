"""Trials of PEDL and Determined 0.12, rewritten for the context API."""
