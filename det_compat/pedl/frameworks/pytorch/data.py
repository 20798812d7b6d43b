"""``pedl.frameworks.pytorch.data``."""

from det_compat.pytorch import DataLoader, TorchData

__all__ = ["DataLoader", "TorchData"]
