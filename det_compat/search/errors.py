"""Errors of a search."""

from __future__ import annotations


class SearchError(ValueError):
    """A search that cannot be run as it was asked for."""
