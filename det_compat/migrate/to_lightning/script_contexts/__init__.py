"""What scripts make contexts of, give them and ask them for."""
