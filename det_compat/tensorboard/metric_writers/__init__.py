"""Writers of scalar metrics."""
