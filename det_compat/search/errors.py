"""Errors of a search."""


class SearchError(ValueError):
    """A search that cannot be run as it was asked for."""
