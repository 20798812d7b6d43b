from __future__ import annotations

import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, rewritten, trial

WRITER = 'SummaryWriter(log_dir="/tmp/tensorboard")'
IMPORT = "from torch.utils.tensorboard import SummaryWriter\n"
LOADER = "return DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
ROWS = "return DataLoader(torch.ones(8, 2), batch_size=4)"
DATA = (LOADER, ROWS), ("return DataLoader([], batch_size=4)", ROWS)
STEP, INIT = "        loss = self.model(batch).sum()\n", "        self.opt ="


@pytest.mark.parametrize(
    "made",
    [
        WRITER,
        'SummaryWriter("/tmp/tensorboard/")',
        'SummaryWriter("/tmp/tensorboard/extra")',
        "SummaryWriter(str(self.context.get_tensorboard_path()))",
        "SummaryWriter(self.context.get_tensorboard_path())",
        'SummaryWriter(self.context.get_tensorboard_path() / "extra")',
    ],
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_what_a_trial_writes_for_tensorboard_is_beside_what_its_logger_writes(
    made, is_kept, tmp_path
):
    """Nobody looks into Determined's directory any more."""
    adding = "        {0}.add_scalar('seen', 1, batch_idx)\n        {0}.flush()\n"
    if is_kept:
        changes = ((INIT, f"        self.writer = {made}\n{INIT}"),)
        changes += ((STEP, adding.format("self.writer") + STEP),)
    else:
        changes = ((STEP, f"        w = {made}\n{adding.format('w')}{STEP}"),)
    found = rewritten(tmp_path, trial(*DATA, *changes, header=IMPORT + HEADER))
    if is_kept and "path() /" in made:
        # It has to be told where, before there is a Trainer.
        assert found.count("MIGRATE") == 1
        return
    assert "MIGRATE" not in found and "/tmp/tensorboard" not in found
    names: dict = {"__name__": "migrated"}
    sys.modules["migrated"] = type(sys)("migrated")
    exec(found, names)
    trainer = pl.Trainer(
        default_root_dir=tmp_path, max_epochs=1, accelerator="cpu", enable_progress_bar=False
    )
    trainer.fit(names["Trial"]())
    folder = f"{trainer.log_dir}/extra" if "extra" in made else trainer.log_dir
    text = b"".join(each.read_bytes() for each in Path(folder).glob("events.*"))
    assert b"seen" in text


@pytest.mark.parametrize(
    "changes",
    [
        # A base, or what is made before there is a Trainer, has nothing to ask.
        (INIT, f"        self.writers = [{WRITER}]\n{INIT}"),
        (INIT, f"        self.writer = {WRITER}\n        self.writer.add_text('a', 'b')\n{INIT}"),
        # All processes ask for the directory, or none.
        (STEP, f"        if self.context.distributed.rank == 0:\n            {WRITER}\n{STEP}"),
    ],
)
def test_a_directory_that_cannot_be_asked_for_is_marked(changes, tmp_path):
    found = rewritten(tmp_path, trial(changes, header=IMPORT + HEADER))
    assert found.count("MIGRATE") == 1 and WRITER in found
    assert rewritten(tmp_path, found) == found


def test_a_file_beside_a_trial_writes_there_no_more_without_a_word(tmp_path):
    (tmp_path / "shown.py").write_text(f"{IMPORT}\n\ndef shown():\n    return {WRITER}\n")
    (tmp_path / "model_def.py").write_text(f"import shown\n{trial()}")
    found = {file.path.name: file.after for file in migrate([str(tmp_path)], "lightning").files}
    assert b"    # MIGRATE: Determined looked for TensorBoard's files in" in found["shown.py"]
