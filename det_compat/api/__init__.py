"""What ``det-compat`` does, from Python: ``fit`` trains, ``Run`` is what there is of a run."""
