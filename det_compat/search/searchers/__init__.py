"""Determined's searchers: which trials there are, with what values, and how long each trains."""
