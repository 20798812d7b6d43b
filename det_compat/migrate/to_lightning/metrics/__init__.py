"""The metrics of migrated trials: how they are reduced, and what callbacks add to them."""
