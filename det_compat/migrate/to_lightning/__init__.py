"""Trials of the context API, rewritten as LightningModules."""
