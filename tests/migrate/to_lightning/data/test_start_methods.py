from __future__ import annotations

import multiprocessing

import pytest

from det_compat.shared.importing import load_file
from tests.migrate.rewriting import HEADER, rewritten, trial


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("mp.set_start_method('spawn')", "mp.set_start_method('spawn', force=True)"),
        ("torch.multiprocessing.set_start_method(method=HOW)", "(method=HOW, force=True)"),
        ("set_start_method('spawn')", "set_start_method('spawn', force=True)"),
        ("mp.set_start_method('spawn', True)", "('spawn', True)\n"),
        ("mp.set_start_method('spawn', force=False)", "('spawn', force=False)\n"),
        ("self.set_start_method('spawn')", "('spawn')\n"),
        ("try: mp.set_start_method('spawn')\n        except RuntimeError: pass", "('spawn')\n"),
    ],
)
def test_how_processes_start_may_be_said_again(line, after, tmp_path):
    imports = "import torch.multiprocessing as mp\nfrom multiprocessing import set_start_method\n"
    kept = f"self.context = context\n        {line}"
    made = rewritten(tmp_path, trial(("self.context = context", kept), header=imports + HEADER))
    assert after in made


def test_a_second_module_in_a_process_can_be_made(tmp_path):
    kept = "self.context = context\n        mp.set_start_method('spawn')"
    source = trial(
        ("self.context = context", kept), header=f"import multiprocessing as mp\n{HEADER}"
    )
    path = tmp_path / "made.py"
    path.write_text(rewritten(tmp_path, source))
    made = load_file(path).Trial
    before = multiprocessing.get_start_method(allow_none=True)
    try:
        made(global_batch_size=4)
        made(global_batch_size=4)
    finally:
        multiprocessing.set_start_method(before, force=True)
