"""``det-compat fit``: everything of it that needs neither torch nor Lightning."""
