"""What Lightning does otherwise on several devices, where a config or script asks for them."""

import ast
from collections.abc import Iterator

from det_compat.migrate.configs import configs_of
from det_compat.migrate.results import FileResult, Migration

_ORDER = (
    "Lightning shuffles what this loads on several devices, which are asked for, and "
    "Determined kept its order; see MIGRATION.md#what-migrate-leaves-to-you"
)


def device_notes(migration: Migration) -> Iterator[str]:
    """What is said of the training loaders of trials that train on several devices.

    Nothing is to be changed for one device, nor where the order does not matter.
    """
    for file in migration.files:
        configs = [each for name in file.trials for each in configs_of(file.path, name)]
        is_of_torchrun = b"LOCAL_WORLD_SIZE" in file.after
        if is_of_torchrun or any(each.slots_per_trial > 1 for each in configs):
            yield from (f"{file.path}:{line}: {_ORDER}" for line in _unshuffled(file))


def _unshuffled(file: FileResult) -> list[int]:
    nodes = ast.walk(ast.parse(file.after))
    methods = (n for n in nodes if getattr(n, "name", "") == "train_dataloader")
    calls = (c for method in methods for c in ast.walk(method) if isinstance(c, ast.Call))
    return sorted({call.lineno for call in calls if _keeps_order(call)})


def _keeps_order(call: ast.Call) -> bool:
    """Whether a call makes a loader of torch's in the order of the data."""
    if ast.unparse(call.func).rpartition(".")[2] != "DataLoader":
        return False
    given = {each.arg: each.value for each in call.keywords}
    shuffle = given.get("shuffle", call.args[2] if len(call.args) > 2 else None)
    is_off = shuffle is None or (isinstance(shuffle, ast.Constant) and not shuffle.value)
    return is_off and len(call.args) < 4 and not {"sampler", "batch_sampler", None} & given.keys()
