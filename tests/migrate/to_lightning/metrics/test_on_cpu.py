from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

EVALUATION = '        return {"error": self.model(batch).sum()}\n'


def step(tmp_path, lines, *more):
    body = "".join(f"        {line}\n" for line in lines)
    return method(rewritten(tmp_path, trial((EVALUATION, body), *more)), "validation_step")


def on_one_line(made):
    return " ".join(made.split()).replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["e = self.model(batch).sum().cpu()", 'return {"e": e}'], "float(e)"),
        (["e = torch.tensor(batch.sum().item())", 'return {"e": e}'], "float(e)"),
        (["e = torch.randint(9, (1,))", 'return {"e": e}'], "float(e)"),
        (
            ["e = batch.sum().item()", "p = torch.exp(torch.tensor(e))", 'return {"e": p / 2}'],
            "float(p / 2)",
        ),
        (["e = batch.sum()", "e = e.detach().cpu()", 'return {"e": e}'], "float(e)"),
        (["e = batch.sum()", "e = e.to('cpu')", 'return {"e": e}'], "float(e)"),
        (["e = torch.ones(1)", "a = e", "e = e.to(self.d)", 'return {"e": a + e}'], "float(a + e)"),
        (["e = batch.sum().to('cpu')", 'return {"e": e}'], "float(e)"),
        (["e = F.l1_loss(torch.ones(2), batch)", 'return {"e": e}'], "float(e)"),
        (["e = F.l1_loss(batch, batch.cpu())", 'return {"e": e}'], "float(e)"),
        (['return {"e": [1.0, 2.0]}'], "float(torch.as_tensor([1.0, 2.0]).float().mean())"),
    ],
)
def test_what_is_on_the_cpu_is_averaged_as_a_number(tmp_path, lines, value):
    made = step(tmp_path, lines)
    assert f'self.log("e", {value}, batch_size=1, sync_dist=True)' in on_one_line(made)


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["e = batch.sum()", 'return {"e": e}'], "e"),
        (["e = batch.cpu().sum().item()", 'return {"e": e}'], "e"),
        (["e = torch.tensor(1.0, device=batch.device)", 'return {"e": e}'], "e"),
        (["hit = (batch.argmax(-1) == batch).float()", 'return {"e": hit}'], "hit.mean()"),
        (["e = batch.cpu().sum().to(batch.device)", 'return {"e": e}'], "e"),
        (["e = torch.ones(1)", "e = e.to(batch.device)", 'return {"e": e * 2}'], "e * 2"),
        (["e = torch.ones(1)", "e = self.context.to_device(e)", 'return {"e": e}'], "e"),
        (["e = F.l1_loss(batch, torch.ones(2))", 'return {"e": e}'], "e"),
        (["e = torch.where(batch > 0, batch, torch.ones(1))", 'return {"e": e.sum()}'], "e.sum()"),
    ],
)
def test_what_is_on_the_device_or_a_number_stays(tmp_path, lines, value):
    assert f'self.log("e", {value}, batch_size=1, sync_dist=True)' in step(tmp_path, lines)


def test_metrics_of_variables_and_helpers(tmp_path):
    made = step(tmp_path, ['found = {"e": batch.sum().cpu()}', "return found"])
    each = "{name: float(value) for name, value in found.items()}"
    assert f"self.log_dict({each}, batch_size=1, sync_dist=True)" in on_one_line(made)
    helper = (
        "    def evaluate_batch(self, batch):\n",
        "    def found(self, batch):\n        e = batch.sum().cpu()\n        return {'e': e}\n\n"
        "    def evaluate_batch(self, batch):\n",
    )
    assert "float(value)" in step(tmp_path, ["return self.found(batch)"], helper)


def test_training_metrics_are_not_averaged(tmp_path):
    loss = ('return {"loss": loss}', 'return {"loss": loss, "e": loss.detach().cpu()}')
    made = rewritten(tmp_path, trial(loss))
    assert '"e": loss.detach().cpu()}' in method(made, "training_step")
