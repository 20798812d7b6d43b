"""A search on Ray Tune."""
