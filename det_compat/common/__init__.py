"""``determined.common``, as far as trials need it without a cluster."""

import logging
import sys

__all__ = ["set_logger"]


def set_logger(debug_enabled: bool) -> None:
    """Log to standard output in Determined's format, at level DEBUG or INFO.

    Handlers that the root logger has are replaced.
    """
    from det_compat import LOG_FORMAT

    level = logging.DEBUG if debug_enabled else logging.INFO
    logging.basicConfig(stream=sys.stdout, level=level, format=LOG_FORMAT, force=True)
