"""What functions and methods return wrapped: it is wrapped where it is kept."""
