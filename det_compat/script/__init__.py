"""Scripts that run as ``python`` would run them, with ``determined`` aliased."""
