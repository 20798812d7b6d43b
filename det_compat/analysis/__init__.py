"""What the names of a tree of Python code stand for, found without running it."""
