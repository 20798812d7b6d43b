from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, trial

CORE = """\
import determined as det


def main(core_context):
    for op in core_context.searcher.operations():
        op.report_completed(1.0)


if __name__ == "__main__":
    print(det.LOG_FORMAT, det.get_cluster_info())
    with det.core.init() as core_context:
        main(core_context)
"""
ESTIMATOR = """\
from pedl.frameworks.tensorflow import estimator_wrap


def make(dataset):
    return estimator_wrap.wrap_dataset(dataset)
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [(CORE, "core.init"), (ESTIMATOR, "pedl.frameworks.tensorflow.estimator_wrap")],
)
def test_a_file_of_which_nothing_has_a_counterpart_stays_whole(text, name, tmp_path):
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "uses.py").write_text("import train\n\nprint(train.make(1))\n")
    files = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    assert files["train.py"].problem.startswith(f"it uses {name}")
    assert "see MIGRATION.md#" in files["train.py"].problem
    assert not files["uses.py"].problem


def test_a_trial_beside_it_is_rewritten(tmp_path):
    (tmp_path / "train.py").write_text(HEADER + CORE + trial(header=""))
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert not file.problem
    assert b"pl.LightningModule" in file.after
