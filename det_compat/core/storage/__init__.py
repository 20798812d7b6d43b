"""Where checkpoints are kept: directories of this machine, and whatever fsspec reaches."""
