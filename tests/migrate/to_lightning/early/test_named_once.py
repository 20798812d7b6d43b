from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

MODEL = "        self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
TWICE = """\
        self.net = torch.nn.Linear(2, 1)
        torch.nn.init.zeros_(self.net.bias)
        self.model = context.wrap_model(self.net)
"""
USED = ("        loss = ", "        print(self.net.weight)\n        loss = ")
SOURCE = trial((MODEL, TWICE), USED)


def test_a_model_that_is_kept_twice_has_one_name(tmp_path):
    made = rewritten(tmp_path, SOURCE)
    assert "self.net" not in made
    assert method(made, "__init__").splitlines()[-2:] == [
        "    self.model = torch.nn.Linear(2, 1)",
        "    torch.nn.init.zeros_(self.model.bias)",
    ]
    assert "print(self.model.weight)" in made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # it becomes another one
        ("        loss = ", "        self.net = None\n        loss = "),
        # it may be only one of two
        (
            "        self.net = torch.nn.Linear(2, 1)\n",
            "        if 1 > 0:\n            self.net = 1\n",
        ),
        # something else may ask for it
        ("class Trial", "def look(module):\n    return module.net\n\n\nclass Trial"),
        ("        loss = ", '        getattr(self, "net")\n        loss = '),
        # models are known by the order in which they are wrapped
        (
            "        torch.nn.init",
            "        self.other = context.wrap_model(torch.nn.Linear(1, 1))\n        torch.nn.init",
        ),
    ],
)
def test_others_keep_their_names(tmp_path, old, new):
    assert old in SOURCE
    assert "self.model = self.net" in rewritten(tmp_path, SOURCE.replace(old, new))


def test_an_heir_may_ask_for_a_model_of_its_base(tmp_path):
    heir = "\n\nclass Heir(Trial):\n    def look(self):\n        return self.net\n"
    assert "self.model = self.net" in rewritten(tmp_path, SOURCE + heir)


def test_a_variable_is_no_other_name(tmp_path):
    made = rewritten(tmp_path, trial((MODEL, TWICE.replace("self.net", "net"))))
    assert "        self.model = net" in made
