"""The names of ``determined.transformers`` 0.38.1; what is used needs the package transformers."""

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from det_compat.transformers.callback import DetCallback as DetCallback

__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"DetCallback": "det_compat.transformers.callback"}
)
