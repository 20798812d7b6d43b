"""``pedl.frameworks.pytorch.data``."""

from __future__ import annotations

from det_compat.pytorch import DataLoader, TorchData

__all__ = ["DataLoader", "TorchData"]
