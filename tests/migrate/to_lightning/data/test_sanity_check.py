"""Lightning validates two batches before it trains, which Determined did not."""

from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

REFUSED = "num_sanity_val_steps = 0"
EVALUATES = '        return {"error": self.model(batch).sum()}\n'
LOADER = "        return DataLoader([], batch_size=4)\n"
IN_FILE = "class Trial("


def is_refused(tmp_path, *changes):
    return REFUSED in rewritten(tmp_path, trial(*changes))


@pytest.mark.parametrize(
    "changes",
    [
        (),
        [
            (
                EVALUATES,
                f"        print(1)\n        found = []\n        found.append(2)\n{EVALUATES}",
            )
        ],
        [(LOADER, LOADER.replace("[]", "torch.zeros(4, 2)"))],
        [
            (EVALUATES, '        return {"error": error_of(self.model(batch))}\n'),
            (IN_FILE, "def error_of(found):\n    return found.sum()\n\n\nclass Trial("),
        ],
    ],
)
def test_a_validation_that_leaves_nothing_may_come_first(tmp_path, changes):
    assert not is_refused(tmp_path, *changes)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([(EVALUATES, f"        self.count = 1\n{EVALUATES}")], id="an attribute"),
        pytest.param([(EVALUATES, f"        self.seen[1] = 2\n{EVALUATES}")], id="an item"),
        pytest.param([(EVALUATES, f"        self.meter.update(1)\n{EVALUATES}")], id="a meter"),
        pytest.param(
            [(EVALUATES, f"        global SEEN\n        SEEN = 1\n{EVALUATES}")], id="global"
        ),
        pytest.param([(EVALUATES, f"        torch.save(batch, 'x')\n{EVALUATES}")], id="a file"),
        pytest.param(
            [(EVALUATES, f"        open('x', 'w').write('1')\n{EVALUATES}")], id="a text file"
        ),
        pytest.param(
            [
                (EVALUATES, f"        note(self)\n{EVALUATES}"),
                (IN_FILE, "def note(trial):\n    trial.count = 1\n\n\nclass Trial("),
            ],
            id="a function",
        ),
        pytest.param(
            [
                (
                    IN_FILE,
                    "class Net(torch.nn.Module):\n    def forward(self, x):\n"
                    "        self.calls += 1\n        return x\n\n\nclass Trial(",
                )
            ],
            id="a model that counts",
        ),
        pytest.param(
            [
                (
                    IN_FILE,
                    "class Rows:\n    def __getitem__(self, index):\n"
                    "        self.asked.append(index)\n\n\nclass Trial(",
                )
            ],
            id="data that note what is read",
        ),
        pytest.param(
            [(LOADER, LOADER.replace("[]", "torch.utils.data.random_split([], [0])[0]"))],
            id="random numbers of the loader",
        ),
        pytest.param([(LOADER, LOADER.replace("4)", "4, persistent_workers=True)"))], id="workers"),
        pytest.param(
            [
                (LOADER, LOADER.replace("[]", "unknown.rows()")),
                (IN_FILE, "import unknown\n\n\nclass Trial("),
            ],
            id="data that nobody knows",
        ),
        pytest.param([(LOADER, f"        self.data = []\n{LOADER}")], id="what the loader sets"),
        pytest.param(
            [
                (
                    "    def evaluate_batch",
                    "    def build_callbacks(self):\n        return {}\n\n    def evaluate_batch",
                )
            ],
            id="callbacks",
        ),
    ],
)
def test_a_validation_that_may_leave_something_comes_after_training_has_begun(tmp_path, changes):
    assert is_refused(tmp_path, *changes)
