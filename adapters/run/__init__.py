"""One run of a trial: what user code sees, in which order. Nothing here knows Lightning."""
