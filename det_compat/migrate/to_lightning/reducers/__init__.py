"""Reducers, as metrics of torchmetrics and as what Lightning logs."""
