from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

INIT = "self.context = context\n"


@pytest.mark.parametrize("name", ["items", "values", "copy", "width"])
def test_hyperparameters_are_not_taken_for_methods_of_their_dict(name, tmp_path):
    source = trial((INIT, f'{INIT}        self.given = context.get_hparam("{name}")\n'))
    made = {}
    exec(compile(rewritten(tmp_path, source), "made", "exec"), made)
    assert made["Trial"](**{"global_batch_size": 4, name: 3}).given == 3
