"""Trials that Determined made of a LightningModule become that module, with their loaders."""
