from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

STEP = "        self.context.step_optimizer(self.opt)\n"
DEFINED = """\
        def clip(params):
            torch.nn.utils.clip_grad_norm_(params, 1.0)

        self.context.step_optimizer(self.opt, clip)
"""


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        pytest.param(DEFINED, "    clip(params)\n", id="a function is called"),
        pytest.param(
            '        clip = CLIPS[self.context.get_hparam("clip")]\n'
            "        self.context.step_optimizer(self.opt, clip)\n",
            "    if clip is not None:\n        clip(params)\n",
            id="a variable may be None",
        ),
        pytest.param(
            f'        clip = CLIPS[self.context.get_hparam("clip")]\n{STEP[:-2]}, clip)\n'
            "\n    def other(self):\n        def clip(params):\n            pass\n",
            "    if clip is not None:\n        clip(params)\n",
            id="what is a function elsewhere may be None",
        ),
    ],
)
def test_clipping_is_written_out(tmp_path, step, lines):
    made = rewritten(tmp_path, trial((STEP, step)))
    assert lines in method(made, "training_step")
