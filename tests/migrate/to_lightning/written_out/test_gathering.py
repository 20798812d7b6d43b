from __future__ import annotations

import pytest
import torch.distributed

from det_compat.migrate.to_lightning.written_out.gathering import DEFINITIONS, GATHERING
from tests.migrate.rewriting import rewritten, trial

RETURN = '        return {"loss": loss}'


@pytest.mark.parametrize("member", sorted(GATHERING))
def test_what_processes_tell_each_other(tmp_path, member):
    change = (RETURN, f"        every = self.context.{member}(loss.item())\n{RETURN}")
    made = rewritten(tmp_path, trial(change))
    assert f"        every = {GATHERING[member]}(loss.item())\n" in made
    assert "MIGRATE" not in made and f"def {GATHERING[member]}(value):" in made
    assert rewritten(tmp_path, made) == made
    # Before there is a Trainer, there may be no other process yet.
    init = "self.context = context\n"
    early = (init, f"{init}        self.every = context.{member}(1)\n")
    made = rewritten(tmp_path, trial(early))
    assert f"# MIGRATE: {member} is that of one device here" in made


def test_the_functions(monkeypatch):
    names: dict[str, object] = {"torch": torch}
    for each in DEFINITIONS.values():
        exec(each.text, names)
    broadcast, every, chief = (names[name] for name in GATHERING.values())
    assert callable(broadcast) and callable(every) and callable(chief)
    assert (broadcast(3), every(3), chief(3)) == (3, [3], [3])
    # The second of two processes, of which the first gives one less.
    fake = {
        "is_initialized": lambda: True,
        "get_world_size": lambda: 2,
        "get_rank": lambda: 1,
        "all_gather_object": lambda found, value: found.__setitem__(
            slice(None), [value - 1, value]
        ),
        "broadcast_object_list": lambda found, src: found.__setitem__(0, found[0] - 1),
    }
    for name, function in fake.items():
        monkeypatch.setattr(torch.distributed, name, function)
    assert (broadcast(3), every(3), chief(3)) == (2, [2, 3], None)
