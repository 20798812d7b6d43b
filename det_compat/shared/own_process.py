"""Whether this process was started for det_compat, or det_compat is a guest in it.

What concerns the process as a whole, such as how its memory is managed, is det_compat's to choose
only in the first case: in a notebook, a server or a script, others live there too.
"""

_is_ours = False


def claim_process() -> None:
    """Note that this process was started for det_compat, and ends with what it runs."""
    global _is_ours
    _is_ours = True


def process_is_ours() -> bool:
    """Whether this process was started for det_compat."""
    return _is_ours
