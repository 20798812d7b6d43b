from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

EVALUATION = '        return {"error": self.model(batch).sum()}\n'
SCORES = """\
import torch

class Dice(torch.nn.Module):
    def forward(self, batch):
        total = batch.sum().cpu().numpy()
        return batch.sum(), (batch.mean(), total)

class Plain(torch.nn.Module):
    def forward(self, batch):
        return batch.sum()

    def show(self, batch):
        return batch.numpy()

def score(batch):
    found = {}
    found["all"] = batch.detach().numpy()
    return found

def mean(batch):
    total = batch.cpu().numpy()
    return total.mean().item()
"""


def step(tmp_path, lines, init="", helper=""):
    (tmp_path / "scores.py").write_text(SCORES)
    body = "".join(f"        {line}\n" for line in lines)
    text = trial((EVALUATION, body), ("        self.model =", f"{init}        self.model ="))
    text = text.replace("    def train_batch(", f"{helper}    def train_batch(")
    made = rewritten(tmp_path, f"import scores as s\nfrom scores import score, mean\n{text}")
    return " ".join(method(made, "validation_step").split()).replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize("name", ["Dice", "Plain"])
def test_a_part_of_what_a_loss_of_the_project_returns(tmp_path, name):
    init = f"        self.loss = s.{name}()\n"
    made = step(tmp_path, ["e, parts = self.loss(batch)", 'return {"e": parts[-1]}'], init)
    as_one = "float(torch.as_tensor(parts[-1]).float().mean())"
    assert f'self.log("e", {as_one if name == "Dice" else "parts[-1]"}, ' in made


def test_what_a_method_has_of_a_loss_of_the_project(tmp_path):
    init = "        self.loss = s.Dice()\n"
    lines = [
        "e, (found, total) = self.loss(batch)",
        'made = {"e": e, "found": total}',
        "return made",
    ]
    helper = "    def both(self, batch):\n" + "".join(f"        {line}\n" for line in lines) + "\n"
    made = step(tmp_path, ["return self.both(batch)"], init, helper)
    assert 'self.log_dict(numbers_of(self.both(batch), "mean"), ' in made


def test_a_loss_that_is_trained_by_is_no_array(tmp_path):
    (tmp_path / "scores.py").write_text(SCORES)
    text = trial(
        ("self.model(batch).sum()\n", "scores.score(batch)\n"),
        ('return {"loss": loss}', 'return {"loss": loss, "more": scores.score(batch)["all"]}'),
    )
    made = method(rewritten(tmp_path, f"import scores\n{text}"), "training_step")
    assert '"loss": loss,' in made and "return loss" in made


def test_a_part_of_a_part(tmp_path):
    lines = ["e, (_, *others) = self.loss(batch)", 'return {"e": others[0]}']
    made = step(tmp_path, lines, "        self.loss = s.Dice()\n")
    assert 'self.log("e", float(torch.as_tensor(others[0]).float().mean()), ' in made


@pytest.mark.parametrize(
    ("line", "logged"),
    [
        ('return {"e": score(batch)["all"]}', 'numbers_of({"e": score(batch)["all"]}'),
        ("return score(batch)", "numbers_of(score(batch)"),
        ('return {"e": mean(batch)}', 'self.log("e", mean(batch), '),
    ],
)
def test_what_functions_of_the_project_return(tmp_path, line, logged):
    assert logged in step(tmp_path, [line])
