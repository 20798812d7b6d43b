"""How Python objects travel between ranks."""
