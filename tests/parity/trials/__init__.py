"""Trials written for determined.pytorch, one concept a file: nothing in here knows det_compat."""
