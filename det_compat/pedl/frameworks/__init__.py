"""``pedl.frameworks``."""
