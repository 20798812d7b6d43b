"""The trial's loaders, as Determined iterated over them."""
