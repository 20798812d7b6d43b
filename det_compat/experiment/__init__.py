"""``det-compat fit`` without Lightning; only ``checkpoints`` imports torch."""
