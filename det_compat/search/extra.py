"""What a search needs that det_compat itself does not."""

from __future__ import annotations

import importlib.util

_PACKAGES = ("matplotlib", "ray", "rich")
_OF_RAY = ("pandas", "pyarrow", "pydantic", "tensorboardX")


def check_extra() -> None:
    """Make sure that the extra ``search`` is installed.

    Raises:
        ImportError: it is not.
    """
    missing = [name for name in (*_PACKAGES, *_OF_RAY) if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"a hyperparameter search needs {', '.join(missing)}: pip install 'det-compat[search]'"
        )
