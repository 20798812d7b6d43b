"""Loaders and samplers, with what becomes of their batches."""
