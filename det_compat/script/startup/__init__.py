"""A folder for ``PYTHONPATH``: what ``sitecustomize`` here does, every Python below does first."""
