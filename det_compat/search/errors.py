"""Errors of a search."""


class SearchError(ValueError):
    """A search that cannot be run as it was asked for."""


class SearchEndedError(SearchError):
    """A search that has ended before its time, and that can be resumed."""
