"""Errors of a search."""


class SearchError(ValueError):
    """A search that cannot be run as it was asked for."""


class SearchEndedError(SearchError):
    """A search that Ray has ended, and that can be resumed."""
