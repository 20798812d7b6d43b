from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrate.rewriting import method
from tests.migrate.to_lightning.whole.test_hooks import SUMS, made

FIRST = '        if self.kind == "a":\n            return self.scored(data_loader)\n'
SCORED = """\

    def scored(self, loader):
        \"""Scores.\"""
        found = []
        with torch.no_grad():
            for batch in loader:
                batch = self.context.to_device(batch)
                found.append(self.model(batch).sum().item())
        return {"error": np.mean(found)}
"""
START = "        total, n = 0.0, 0\n"
INIT = "        self.model = context.wrap_model("


def branching(
    folder: Path, *changes: tuple[str, str], first: str = FIRST, scored: str = SCORED
) -> str:
    evaluation = SUMS.replace(START, f"{first}\n{START}") + scored
    kind = (INIT, f'        self.kind = context.get_hparam("kind")\n{INIT}')
    return made(folder, evaluation, kind, *changes)


def test_one_of_two_validations(tmp_path):
    module = branching(tmp_path)
    assert method(module, "on_validation_epoch_start") == (
        "def on_validation_epoch_start(self):\n"
        '    if self.kind == "a":\n'
        "        # Scores.\n"
        "        self.found = []\n"
        "        return\n"
        "\n"
        "    self.total, self.n = 0.0, 0"
    )
    assert method(module, "validation_step") == (
        "def validation_step(self, batch, batch_idx):\n"
        '    if self.kind == "a":\n'
        "        self.found.append(self.model(batch).sum().item())\n"
        "        return\n"
        "\n"
        "    self.total += self.model(batch).sum().item()\n"
        "    self.n += len(batch)"
    )
    said = "# on several devices, the mean of what each finds in its share of the data\n"
    assert method(module, "on_validation_epoch_end") == (
        "def on_validation_epoch_end(self):\n"
        '    if self.kind == "a":\n'
        f"        {said}"
        '        self.log("error", np.mean(self.found), sync_dist=True)\n'
        "        return\n"
        "\n"
        f"    {said}"
        '    self.log("error", self.total / self.n, sync_dist=True)'
    )
    assert "def scored" not in module and "batch_size=None" not in module


CHAIN = """\
    def evaluate_full_dataset(self, data_loader):
        if self.options.kind == "a":
            metrics = self.scored(data_loader)
        elif not self.options.more:
            metrics = self.rated(data_loader)
        else:
            return None
        return metrics
"""
RATED = SCORED.replace("scored", "rated").replace("np.mean(found)", "sum(found) / 50")


def test_a_chain_of_validations(tmp_path):
    options = (INIT, f"        self.options = Options(context.get_hparams())\n{INIT}")
    module = made(tmp_path, CHAIN + SCORED + RATED, options)
    assert method(module, "on_validation_epoch_end") == (
        "def on_validation_epoch_end(self):\n"
        '    if self.options.kind == "a":\n'
        "        # on several devices, the mean of what each finds in its share of the data\n"
        '        self.log("error", np.mean(self.found), sync_dist=True)\n'
        "    elif not self.options.more:\n"
        "        # on several devices, the sum of what each finds in its share of the data\n"
        '        self.log("error", sum(self.found) / 50, sync_dist=True, reduce_fx="sum")'
    )
    assert "def scored" not in module and "def rated" not in module


ASKED = """\
    def evaluate_full_dataset(self, data_loader):
        is_short = self.options["short"]
        if is_short:
            return self.scored(self.model, data_loader, limit=3)
        return self.rated(data_loader)
"""
TAKES = """\

    @torch.no_grad()
    def scored(self, model, loader, scale=2.0, limit=None):
        found = []
        for batch in loader:
            found.append(model(batch).sum().item() * scale)
        return {"error": np.mean(found[:limit])}
"""


def test_what_a_method_takes_is_set_first(tmp_path):
    options = (INIT, f"        self.options = dict(context.get_hparams())\n{INIT}")
    module = made(tmp_path, ASKED + TAKES + RATED, options)
    assert method(module, "on_validation_epoch_start") == (
        "def on_validation_epoch_start(self):\n"
        '    if self.options["short"]:\n'
        "        self.found = []\n"
        "        return\n"
        "\n"
        "    # Scores.\n"
        "    self.found = []"
    )
    assert method(module, "validation_step") == (
        "def validation_step(self, batch, batch_idx):\n"
        '    if self.options["short"]:\n'
        "        model = self.model\n"
        "        scale = 2.0\n"
        "        self.found.append(model(batch).sum().item() * scale)\n"
        "        return\n"
        "\n"
        "    self.found.append(self.model(batch).sum().item())"
    )
    assert "        limit = 3\n" in method(module, "on_validation_epoch_end")


NONE_LEFT = """\
    def evaluate_full_dataset(self, data_loader):
        self.model.eval()
        kind = self.options.kind
        # the first of all
        if kind == "a":
            return self.scored(data_loader)
        elif kind == "b":
            print("b")
            return self.rated(data_loader)
        else:
            raise ValueError(kind)
"""


def test_what_all_begin_with_and_what_is_no_validation(tmp_path):
    options = (INIT, f"        self.options = Options(context.get_hparams())\n{INIT}")
    module = made(
        tmp_path, NONE_LEFT.replace('            print("b")\n', "") + SCORED + RATED, options
    )
    assert method(module, "on_validation_epoch_start") == (
        "def on_validation_epoch_start(self):\n"
        "    self.model.eval()\n"
        '    if self.options.kind == "a":\n'
        "        # Scores.\n"
        "        self.found = []\n"
        "        return\n"
        '    if self.options.kind == "b":\n'
        "        # Scores.\n"
        "        self.found = []\n"
        "        return\n"
        "\n"
        "    raise ValueError(self.options.kind)"
    )
    assert method(module, "validation_step") == (
        "def validation_step(self, batch, batch_idx):\n"
        "    # the first of all\n"
        '    if self.options.kind == "a":\n'
        "        self.found.append(self.model(batch).sum().item())\n"
        '    elif self.options.kind == "b":\n'
        "        self.found.append(self.model(batch).sum().item())"
    )


def test_a_branch_with_more_than_a_method_stays_one_step(tmp_path):
    options = (INIT, f"        self.options = Options(context.get_hparams())\n{INIT}")
    assert "batch_size=None" in made(tmp_path, NONE_LEFT + SCORED + RATED, options)


STEP = '        return {"loss": loss}'


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        pytest.param(FIRST, [(STEP, f'        self.kind = "b"\n{STEP}')], id="training changes it"),
        pytest.param(
            FIRST.replace("self.kind", "self.options.kind"),
            [("        total, n", "        told(self.options)\n        total, n")],
            id="it is handed on",
        ),
        pytest.param(
            FIRST.replace("self.kind ==", "self.options.kind() =="), [], id="it is called"
        ),
        pytest.param(FIRST.replace("self.kind", "KIND[0]"), [], id="not the module's"),
        pytest.param(
            FIRST.replace("(data_loader)", "(data_loader, scale)"),
            [("def scored(self, loader)", "def scored(self, loader, scale)")],
            id="a method that takes what is named alike",
        ),
        pytest.param(
            FIRST.replace("(data_loader)", "(data_loader, len(data_loader))"),
            [("def scored(self, loader)", "def scored(self, loader, count)")],
            id="a method that takes more of the loader",
        ),
        pytest.param(
            FIRST.replace("data_loader", "self.rows"), [], id="one goes through no loader"
        ),
        pytest.param(
            FIRST, [(STEP, f"        self.scored([])\n{STEP}")], id="a method with two calls"
        ),
        pytest.param(
            FIRST,
            [("class Trial", "def asks(trial):\n    return trial.scored\n\n\nclass Trial")],
            id="a method that others ask for",
        ),
        pytest.param(
            FIRST,
            [("class Trial", 'def sets(trial):\n    trial.kind = "b"\n\n\nclass Trial')],
            id="others change it",
        ),
        pytest.param(
            FIRST,
            [("        found = []\n", "        found = []\n        if not loader: return {}\n")],
            id="a method with two returns",
        ),
    ],
)
def test_what_stays_one_step(tmp_path, first, changes):
    module = branching(tmp_path, *changes, first=first)
    assert "batch_size=None" in method(module, "val_dataloader")
    assert "on_validation_epoch_start" not in module


def test_all_branches_go_through_all_of_the_data_where_one_has_to(tmp_path):
    scored = SCORED.replace("np.mean(found)", "rated(found, self.answers)")
    module = branching(tmp_path, scored=scored)
    assert "num_replicas=1, rank=0" in method(module, "val_dataloader")
    assert "on several devices" not in module
