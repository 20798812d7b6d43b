"""The version of Determined whose behaviour is kept."""

#: The version that the aliased ``determined.__version__`` tells.
DETERMINED_VERSION = "0.38.1"
