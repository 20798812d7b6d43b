from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from det_compat.migrate.device_notes import device_notes
from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import rewritten, trial

MAKER = "core.DistributedContext.from_torch_distributed"
DEVICES = 'devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1"))'
NODES = 'num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1"))'
BRANCHES = f"""\
ranks_of: object = None
    if "RANK" in os.environ:
        print("several")
        ranks_of = {MAKER}()"""
CHOICE = f"""\
if int(os.getenv("WORLD_SIZE")) > 1:
        ranks_of = {MAKER}()
    else:
        ranks_of = None"""
TRYING = f"""\
try:
        ranks_of = {MAKER}()
    except KeyError:
        ranks_of = None"""
#: Whose context is asked for more than ranks.
CORE = f"""\
ranks_of = {MAKER}()
    with core.init(distributed=ranks_of) as whole:
        print(whole.train)"""
SCRIPT = """\
import os
import torch.distributed as dist
from determined import core, pytorch


def main(host):
    dist.init_process_group("gloo")
    # what Determined needs
    os.environ["USE_TORCH_DISTRIBUTED"] = "true"
    {before}
    with pytorch.init(hparams={hparams}, distributed={given}) as context:
        trainer = pytorch.Trainer(Trial(context), context)
        trainer.fit(max_length=pytorch.Epoch(2))
    {after}
"""


def source(**given: str) -> str:
    known = {"before": "pass", "after": "pass", "hparams": '{"global_batch_size": 4}', **given}
    return trial() + "\n\n" + SCRIPT.format(**known)


@pytest.mark.parametrize(
    ("before", "given", "flags"),
    [
        ("pass", f"{MAKER}(chief_ip='localhost')", [DEVICES]),
        ("pass", f"{MAKER}()", [DEVICES]),
        ("pass", f"{MAKER}(chief_ip=host)", [DEVICES, NODES]),
        (f"ranks_of = {MAKER}()", "ranks_of", [DEVICES]),
        (f"ranks_of = {MAKER}() if host else None", "ranks_of", [DEVICES]),
        ("pass", f"{MAKER}(host) if host else None", [DEVICES, NODES]),
        (BRANCHES, "ranks_of", [DEVICES]),
        (CHOICE, "ranks_of", [DEVICES]),
        (TRYING, "ranks_of", [DEVICES]),
        ("pass", "None", []),
    ],
)
def test_processes_of_torchrun(before: str, given: str, flags: list[str], tmp_path: Path) -> None:
    """Lightning finds them by itself, and is told how many there are on the machine."""
    made = rewritten(tmp_path, source(before=before, given=given))
    assert "MIGRATE" not in made and "determined" not in made.lower().replace("what det", "")
    assert all(flag in made for flag in flags)
    assert made.count("os.environ.get(") == len(flags)
    assert ("USE_TORCH_DISTRIBUTED" in made) is (not flags)
    assert "ranks_of" not in made and 'WORLD_SIZE")) > 1' not in made
    assert (
        "else:" not in made
        and "try:" not in made
        and made.count('print("several")') == before.count("several")
    )
    notes = [*device_notes(migrate([str(tmp_path)], "lightning"))]
    assert len(notes) == bool(flags)


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ("pass", "core.DistributedContext.from_horovod(host)", "pass"),
        (f"ranks_of = {MAKER}()", "ranks_of", "print(ranks_of.get_rank())"),
        (f"ranks_of = {MAKER}() if host else other()", "ranks_of", "pass"),
        (f"ranks_of = {MAKER}() if host else None", "ranks_of", "print(ranks_of is None)"),
    ],
)
def test_other_processes_are_marked(before: str, given: str, after: str, tmp_path: Path) -> None:
    made = rewritten(tmp_path, source(before=before, given=given, after=after))
    assert "# MIGRATE: pytorch.init has no counterpart" in made


def test_a_context_of_the_core_api_keeps_its_processes(tmp_path: Path) -> None:
    made = rewritten(tmp_path, source(before=CORE, given="ranks_of"))
    assert CORE.partition("\n")[2] in made
    assert "# MIGRATE: core.DistributedContext.from_torch_distributed has no counterpart" in made


@pytest.mark.parametrize(
    ("hparams", "after"),
    [
        ('{"global_batch_size": 2 * 2}', "Trial(global_batch_size=2 * 2)"),
        ('{"global_batch_size": 4, **host}', 'Trial(**{"global_batch_size": 4, **host})'),
        ('{"a b": 4}', 'Trial(**{"a b": 4})'),
        ("host", "Trial(**host)"),
    ],
)
def test_hyperparameters_by_keyword(hparams: str, after: str, tmp_path: Path) -> None:
    assert after in textwrap.dedent(rewritten(tmp_path, source(hparams=hparams, given="None")))
