"""On which devices scripts train: Lightning has to be told, since by itself it takes all of them.

Determined took one, and on a cluster the slots of a config, whose processes a launcher started.
"""

from collections.abc import Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.scripts.init_call import Init

ONE = "devices=1"


def devices(init: Init, configs: Mapping[str, int]) -> list[str]:
    """The arguments that tell ``pl.Trainer``.

    Args:
        init: what the script gives ``pytorch.init()``.
        configs: how many devices its configs ask for, by their names; the first one counts.
    """
    return [*init.devices] or [f"devices={n}" for n in configs.values()][:1] or [ONE]


def are_one(told: Sequence[str]) -> bool:
    """Whether these arguments are for one device, as far as a script says itself."""
    return told[0] == ONE or told[0].endswith(", 1) or 1")


def others(init: Init, configs: Mapping[str, int]) -> list[cst.EmptyLine]:
    """What is said of the configs of a script that ask for other devices than its first one."""
    first = next(iter(configs.values()), 1)
    said = [f"{n} in {name}" for name, n in configs.items() if n != first and not init.devices]
    text = f"# the number of devices is {' and '.join(said)}"
    return [cst.EmptyLine(comment=cst.Comment(text))] if said else []


def only(inits: Sequence[Init | None]) -> Init:
    """What a Trainer in a helper is told, which sees no ``pytorch.init()``, if all say the same."""
    found = {init.devices if init is not None else () for init in inits}
    return Init(devices=found.pop()) if len(found) == 1 else Init()
