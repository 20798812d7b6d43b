"""What test_launchers.py trains by a strategy: ``python launched.py STRATEGY DEVICES OUT``."""

from __future__ import annotations

import sys
import warnings

import torch

from det_compat import to_lightning
from tests.adapters.trials import Normed, trainer, weights

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    strategy, devices, out = sys.argv[1:]
    torch.manual_seed(3)
    module = to_lightning(Normed)({"global_batch_size": 4})
    used = trainer(max_epochs=2, strategy=strategy, devices=int(devices))
    used.fit(module)
    if used.global_rank == 0:
        torch.save([weights(module), dict(used.callback_metrics)], out)
