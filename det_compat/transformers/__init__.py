"""The names of ``determined.transformers`` 0.38.1; needs the package ``transformers``."""

from det_compat.transformers.callback import DetCallback

__all__ = ["DetCallback"]
