"""Where a run meets Lightning: its hooks, loops, strategies and loggers."""
