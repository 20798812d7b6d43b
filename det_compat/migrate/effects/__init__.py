"""What code changes that is still there afterwards, followed through what it calls."""
