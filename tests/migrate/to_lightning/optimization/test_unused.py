from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

SAID = '# several devices need pl.Trainer(strategy="ddp_find_unused_parameters_true")\n'
WRAPS = "        self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
TEACHER = "        self.teacher = torch.nn.Linear(2, 1)\n"
LOSS = "        loss = self.model(batch).sum()\n"
TAUGHT = (LOSS, "        loss = (self.model(batch) - self.teacher(batch)).sum()\n")
NO_GRADIENTS = (
    LOSS,
    "        with torch.no_grad():\n            goal = self.teacher(batch)\n"
    "        loss = (self.model(batch) - goal).sum()\n",
)
WRAPPED = "context.wrap_model(torch.nn.Linear(2, 1))"
LOADS = 'self.teacher.load_state_dict(torch.load("teacher.pt"))'
UPDATED = (LOSS, f"{LOSS}        self.ema.update_parameters(self.model)\n")
BLENDED = (
    LOSS,
    f"{LOSS}        if self.ema is not None:\n            with torch.no_grad():\n"
    "                blend(self.ema, self.model)\n",
)


def _kept(line: str) -> tuple[str, str]:
    return WRAPS, f"{WRAPS}        {line}\n"


@pytest.mark.parametrize(
    ("changes", "is_said"),
    [
        ([_kept("self.teacher = torch.nn.Linear(2, 1)")], True),
        ([_kept("self.teacher = torch.nn.Linear(2, 1)"), NO_GRADIENTS], True),
        ([_kept(f"self.teacher = {WRAPPED}"), NO_GRADIENTS], True),
        ([_kept(f"self.teacher = {WRAPPED}"), TAUGHT], False),
        (
            [
                _kept(f"self.teacher = {WRAPPED}\n        self.teacher.requires_grad_(False)"),
                NO_GRADIENTS,
            ],
            False,
        ),
        ([_kept("self.teacher = torchvision.models.vgg16()")], True),
        ([_kept("self.ema = copy.deepcopy(self.model)")], True),
        ([_kept("self.ema = AveragedModel(self.model)"), UPDATED], True),
        ([_kept("self.ema = copy.deepcopy(self.model) if 1 else None"), BLENDED], True),
        ([_kept("self.teacher = make()")], True),
        ([_kept(f"self.teacher = elsewhere.Teacher()\n        {LOADS}")], True),
        ([_kept(f"self.teacher = elsewhere.Teacher()\n        {LOADS}"), TAUGHT], False),
        # Its parameters get gradients, whoever steps them.
        ([_kept("self.teacher = torch.nn.Linear(2, 1)"), TAUGHT], False),
        ([_kept("self.teacher = torch.nn.Linear(2, 1).requires_grad_(False)")], False),
        ([_kept("self.teacher = make()\n        self.teacher.requires_grad_(False)")], False),
        (
            [
                _kept(
                    "self.teacher = make()\n        for p in self.teacher.parameters():\n"
                    "            p.requires_grad = False"
                )
            ],
            False,
        ),
        (
            [
                _kept(
                    "self.teacher = make()\n        for p in self.teacher.parameters():\n"
                    "            p.detach_()"
                )
            ],
            False,
        ),
        ([_kept("self.error = torch.nn.L1Loss()")], False),
        ([_kept("self.rows = torch.zeros(3)")], False),
        ([_kept("self.net = self.model")], False),
        # What is wrapped is this, or has it in it.
        ([(WRAPS, f"{TEACHER}        self.model = context.wrap_model(self.teacher)\n")], False),
        (
            [
                (
                    WRAPS,
                    f"{TEACHER}        net = torch.nn.Sequential(self.teacher)\n"
                    "        self.model = context.wrap_model(net)\n",
                )
            ],
            False,
        ),
        (
            [
                (
                    WRAPS,
                    "        net = torch.nn.Linear(2, 1)\n        self.net = net\n"
                    "        self.model = context.wrap_model(net)\n",
                )
            ],
            False,
        ),
        (
            [
                (
                    WRAPS,
                    f"{TEACHER}        net = copy.deepcopy(self.teacher)\n"
                    "        self.model = context.wrap_model(net)\n",
                )
            ],
            True,
        ),
    ],
)
def test_parameters_that_no_batch_reaches_are_spoken_of(changes, is_said, tmp_path):
    header = """\
    import copy

    import torch
    import torchvision
    from determined.pytorch import DataLoader, PyTorchTrial
    from torch.optim.swa_utils import AveragedModel

    def make():
        return torch.nn.Linear(2, 1)


    """
    source = trial(*changes, header="".join(line[4:] or "\n" for line in header.splitlines(True)))
    made = rewritten(tmp_path, source)
    assert (SAID in method(made, "__init__")) is is_said
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


@pytest.mark.parametrize(
    ("kept", "is_said"), [("copy.deepcopy(net)", True), ("[net]", False), ("net.weight", False)]
)
def test_a_copy_of_what_a_variable_has_and_is_wrapped(kept, is_said, tmp_path):
    made = "net = torch.nn.Linear(2, 1)\n        self.model = context.wrap_model(net)\n"
    model = "self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
    source = trial((model, f"{made}        self.other = {kept}\n"))
    assert (SAID in rewritten(tmp_path, f"import copy\n{source}")) is is_said


@pytest.mark.parametrize(
    ("key", "is_said"), [('"loss_box_reg"', True), ('"loss"', False), ("0", False)]
)
@pytest.mark.parametrize("has_variable", [True, False])
def test_one_of_several_losses_of_a_model_is_spoken_of(key, is_said, has_variable, tmp_path):
    step = "        self.context.backward(loss)\n"
    lines = f"        losses = self.model(batch)\n        loss = losses[{key}]\n{step}"
    if not has_variable:
        lines = (
            f"        losses = self.model(batch)\n        self.context.backward(losses[{key}])\n"
        )
    source = trial((f"{LOSS}{step}", lines), ('{"loss": loss}', f'{{"loss": losses[{key}]}}'))
    assert (SAID in rewritten(tmp_path, source)) is is_said
