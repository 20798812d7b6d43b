"""On which devices scripts train: Lightning has to be told, since by itself it takes all of them.

Determined took one, and on a cluster the slots of a config, whose processes a launcher started.
"""

from collections.abc import Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.plan import UNUSED
from det_compat.migrate.to_lightning.script_contexts.init_call import Init

ONE = "devices=1"


def devices(init: Init, configs: Mapping[str, int]) -> list[str]:
    """The arguments that tell ``pl.Trainer``.

    Args:
        init: what the script gives ``pytorch.init()``.
        configs: how many devices its configs ask for, by their names; the first one counts.
    """
    return [*init.devices] or [f"devices={n}" for n in configs.values()][:1] or [ONE]


def strategy(told: Sequence[str]) -> list[str]:
    """The argument for several devices of which a batch may leave parameters without gradients.

    Nothing where these arguments are for one device.
    """
    number = told[0].removeprefix("devices=")
    if told[0] == ONE:
        return []
    is_open = told[0].endswith(", 1) or 1")
    return [f'strategy="{UNUSED}"' + (f' if ({number}) > 1 else "auto"' if is_open else "")]


def others(init: Init, configs: Mapping[str, int]) -> list[cst.EmptyLine]:
    """What is said of the configs of a script that ask for other devices than its first one."""
    first = next(iter(configs.values()), 1)
    said = [f"{n} in {name}" for name, n in configs.items() if n != first and not init.devices]
    text = f"# the number of devices is {' and '.join(said)}"
    return [cst.EmptyLine(comment=cst.Comment(text))] if said else []


def seeded(configs: Mapping[str, int]) -> list[cst.EmptyLine]:
    """What is said of the seeds of configs above the Trainer of a script that sets none itself.

    On a cluster ``pytorch.init()`` seeded all that draws; off one, nothing did.
    """
    if not configs:
        return []
    numbers = [*dict.fromkeys(configs.values())]
    said = " and ".join(f"{n} in {name}" for name, n in configs.items())
    text = f"# on a cluster all was seeded, by {said}: pl.seed_everything({numbers[0]})"
    return [cst.EmptyLine(comment=cst.Comment(text))]


def only(inits: Sequence[Init | None]) -> Init:
    """What a Trainer in a helper is told, which sees no ``pytorch.init()``, if all say the same."""
    found = {init.devices if init is not None else () for init in inits}
    return Init(devices=found.pop()) if len(found) == 1 else Init()
