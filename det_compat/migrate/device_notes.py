"""What Lightning does otherwise on several devices, where a config or script asks for them."""

import re
from collections.abc import Iterator

from det_compat.migrate.configs import configs_of
from det_compat.migrate.results import Migration
from det_compat.migrate.review.process_counts import SEVERAL
from det_compat.migrate.to_lightning.data.shared_out import ORDER, SAMPLES

_NOTES = {
    ORDER: (
        "Lightning shuffles what this loads on several devices, which are asked for, and "
        "Determined kept its order; see MIGRATION.md#what-migrate-leaves-to-you"
    ),
    SAMPLES: (
        "Lightning shares out single samples on several devices, which are asked for, and "
        "Determined whole batches of this sampler; see MIGRATION.md#what-migrate-leaves-to-you"
    ),
}


def device_notes(migration: Migration) -> Iterator[str]:
    """What is said of the training loaders of trials that train on several devices.

    Nothing is to be changed for one device, nor where the order does not matter.
    """
    scripts = [each.after for each in migration.files if SEVERAL.search(each.after)]
    for file in migration.files:
        configs = [each for name in file.trials for each in configs_of(file.path, name)]
        word = re.compile(rf"\b{re.escape(file.path.stem)}\b".encode())
        is_trained = any(each is file.after or word.search(each) for each in scripts)
        if is_trained or any(each.slots_per_trial > 1 for each in configs):
            lines = file.after.decode(errors="replace").splitlines()
            notes = ((at, _NOTES.get(line.strip())) for at, line in enumerate(lines, 2))
            yield from (f"{file.path}:{at}: {note}" for at, note in notes if note)
