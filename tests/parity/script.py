"""A user's script, which trains one trial and prints what became of it.

It seeds before it imports anything else: imports must leave the generators alone.
"""

import random
import sys

random.seed(23)

import numpy as np
import torch

np.random.seed(23)
torch.manual_seed(23)

import torch.distributed as dist
from determined import core, pytorch
from trials.endings import Ends

HOW = sys.argv[1]
WHERE = {"invalid": "train_batch", "error": "on_validation_end", "exit": "evaluate_batch"}


def say(*values: object) -> None:
    # In one piece: torchrun's processes are unbuffered and share a pipe.
    sys.stdout.write(" ".join(map(str, values)) + "\n")
    sys.stdout.flush()


def main() -> int:
    hparams = {"global_batch_size": 4, "do": HOW, "at": WHERE.get(HOW)}
    distributed = None
    if HOW == "distributed":
        dist.init_process_group("gloo")
        distributed = core.DistributedContext.from_torch_distributed()
    say(sys.argv[2:], __name__, sys.path[0].endswith("parity"))
    with pytorch.init(hparams=hparams, distributed=distributed) as context:
        trial = Ends(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(2), validation_period=pytorch.Epoch(1))
        rank, size = context.distributed.rank, context.distributed.size
        say(rank, size, [p.double().sum().item() for p in trial.model.parameters()])
        say(rank, random.random(), np.random.rand(), torch.rand(1).item())
    return 4 if HOW == "return" else 0


if __name__ == "__main__":
    sys.exit(main())
