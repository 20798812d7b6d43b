from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

_AB = (("a", 1), ("b", 2))


@pytest.mark.parametrize(
    ("value", "after"),
    [
        pytest.param(
            "torch.randn(2, 2).to(context.device)",
            'self.register_buffer("kept", torch.randn(2, 2))',
            id="a tensor",
        ),
        pytest.param(
            "context.to_device(torch.ones(2))",
            'self.register_buffer("kept", torch.ones(2), persistent=False)',
            id="a tensor that is handed over",
        ),
        pytest.param(
            "torch.nn.BCELoss(weight=context.to_device(torch.ones(2).mean()))",
            "self.kept = torch.nn.BCELoss(weight=torch.ones(2).mean())",
            id="the weights of a loss",
        ),
        pytest.param(
            "torch.zeros(2, device=context.device).float()",
            'self.register_buffer("kept", torch.zeros(2).float(), persistent=False)',
            id="a tensor that is made there",
        ),
        pytest.param(
            "1 / torch.FloatTensor([1, 2]).to(context.device, non_blocking=True)",
            'self.register_buffer("kept", 1 / torch.FloatTensor([1, 2]), persistent=False)',
            id="what is computed of one",
        ),
        pytest.param(
            "torch.nn.Linear(2, 1).to(context.device)",
            "self.kept = torch.nn.Linear(2, 1)",
            id="a model",
        ),
        pytest.param(
            "torch.nn.CrossEntropyLoss(torch.ones(2).to(context.device))",
            "self.kept = torch.nn.CrossEntropyLoss(torch.ones(2))",
            id="a loss",
        ),
        pytest.param(
            "[context.get_per_slot_batch_size()]",
            "        return [self.hparams.global_batch_size // self.trainer.world_size]",
            id="a list that nobody changes",
        ),
    ],
)
def test_what_is_on_the_device_is_made_once(value, after, tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n        self.kept = {value}\n")))
    assert f"        {after.strip()}\n" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        pytest.param(
            ["at = context.device", "self.kept = torch.ones(2, device=at)"],
            ['self.register_buffer("kept", torch.ones(2), persistent=False)'],
            id="the device",
        ),
        pytest.param(
            ["w = torch.ones(2)", "self.kept = context.to_device(w)"],
            ["w = torch.ones(2)", 'self.register_buffer("kept", w, persistent=False)'],
            id="a tensor",
        ),
        pytest.param(
            ["w = torch.ones(2).to(context.device)", "self.kept = torch.nn.BCELoss(weight=w)"],
            ["w = torch.ones(2)", "self.kept = torch.nn.BCELoss(weight=w)"],
            id="the weights of a loss",
        ),
        pytest.param(
            ["self.net = torch.nn.Linear(2, 1)", "self.net.to(context.device)", "self.kept = 1"],
            ["self.net = torch.nn.Linear(2, 1)", "self.kept = 1"],
            id="a model, in a statement",
        ),
        pytest.param(
            ["w = torch.ones(2)", "self.kept = (w / w.sum()).to(context.device)"],
            ["w = torch.ones(2)", 'self.register_buffer("kept", (w / w.sum()), persistent=False)'],
            id="what is computed of a tensor",
        ),
    ],
)
def test_what_has_a_name_in_init_is_moved_as_what_has_none(lines, after, tmp_path):
    text = "".join(f"        {line}\n" for line in lines)
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n{text}")))
    assert "".join(f"        {line}\n" for line in after) in made
    assert "MIGRATE" not in made and ".device" not in made


def test_a_getter_that_is_kept_is_gone(tmp_path):
    getter = "lr=0.1))\n        self.size = context.get_per_slot_batch_size\n"
    use = ("self.context.get_per_slot_batch_size()", "self.size()")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", getter), use))
    assert "batch_size=self.hparams.global_batch_size // self.trainer.world_size" in made
    assert "size(self)" not in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            [
                'saved = torch.load("a.pt", map_location=context.device)',
                "net.load_state_dict(saved['net'])",
            ],
            ['saved = torch.load("a.pt", map_location="cpu")'],
        ),
        (
            ['if 1 > 0:\n    net.load_state_dict(torch.load("a.pt", map_location=context.device))'],
            ['net.load_state_dict(torch.load("a.pt", map_location="cpu"))'],
        ),
        (
            [
                "at = context.device",
                "self.a, self.b = torch.ones(1).to(at), torch.ones(2, device=at)",
            ],
            [f'self.register_buffer("{n}", torch.ones({i}), persistent=False)' for n, i in _AB],
        ),
        (
            ['saved = torch.load("a.pt", map_location=context.device)', "use(saved)"],
            ['saved = torch.load("a.pt", map_location=device_of_process())'],
        ),
    ],
)
def test_what_is_loaded_and_made_together_is_moved_by_lightning(lines, after, tmp_path):
    text = "".join(f"        {line}\n" for line in "\n".join(lines).split("\n"))
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n{text}")))
    assert all(f"    {line}\n" in made for line in after)
    assert ("device" in made) == any("device" in line for line in after)


def test_a_model_that_is_only_moved_is_not_set_to_itself(tmp_path):
    move = "        self.model = self.model.to(context.device)\n        self.opt ="
    made = rewritten(tmp_path, trial(("        self.opt =", move)))
    assert "self.model = self.model" not in made


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("made()", "        self.kept = self.kept.to(device_of_process())\n"),
        ("self.made()", "        kept = kept.to(device_of_process())\n"),
        ("torch.nn.NLLLoss()", ""),
    ],
)
def test_what_may_be_a_tensor_is_not_left_to_lightning_since_it_has_its_name(value, line, tmp_path):
    made = rewritten(
        tmp_path,
        trial(
            (
                "lr=0.1))\n",
                f"lr=0.1))\n        self.kept = {value}\n"
                "        self.kept = self.kept.to(context.device)\n\n"
                "    def made(self):\n        kept = made()\n"
                "        kept = kept.to(self.context.device)\n        return kept\n",
            ),
            ("class T", "def made():\n    return torch.ones(2)\n\n\nclass T"),
        ),
    )
    assert line in made and (bool(line) or "self.kept = self.kept" not in made)


@pytest.mark.parametrize(
    "lines",
    [
        "self.model = context.wrap_model(make(2).to(context.device))",
        "model = make(2).to(context.device)\n        self.model = context.wrap_model(model)",
    ],
)
def test_models_that_are_wrapped_are_moved_by_lightning(lines, tmp_path):
    wrapped = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
    made = rewritten(tmp_path, trial((wrapped, lines)))
    assert " = make(2)\n" in made
    assert "device" not in made


@pytest.mark.parametrize(
    ("lines", "moves"),
    [
        ("self.old = context.to_device(make(2).eval())", 0),
        ("old = make(2)\n        old.eval()\n        self.old = context.to_device(old)", 0),
        ("self.old = context.to_device(make(2))\n        freeze(self.old.parameters())", 0),
        # What nothing asks for what models have may be a tensor.
        ("self.old = context.to_device(make(2))\n        freeze(self.old)", 1),
    ],
)
def test_models_that_an_attribute_keeps_are_moved_by_lightning(lines, moves, tmp_path):
    optimizer = "        self.opt ="
    made = rewritten(tmp_path, trial((optimizer, f"        {lines}\n{optimizer}")))
    assert made.count("device_of_process(), 0)\n") == moves
    assert ("device" in made) == bool(moves)
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("value", "use"),
    [
        pytest.param("Average(device=context.device)", "pass", id="what asks for the device"),
        pytest.param(
            "torch.ones(2, device=context.device, requires_grad=True)", "pass", id="a parameter"
        ),
        pytest.param("make(context.device)", "pass", id="what another function makes"),
        pytest.param(
            "None\n        self.kept = torch.ones(2).to(context.device)",
            "pass",
            id="what takes another one's place",
        ),
        pytest.param(
            "torch.ones(2, device=context.device).tolist()", "pass", id="what is no tensor"
        ),
        pytest.param("[context.device]", "self.kept.append(1)", id="a list that is changed"),
    ],
)
def test_what_may_be_another_each_time_is_put_where_lightning_trains(value, use, tmp_path):
    source = trial(
        ("lr=0.1))\n", f"lr=0.1))\n        self.kept = {value}\n"),
        ("        loss = ", f"        {use}\n        loss = "),
        ("class Trial", "def make(device):\n    return torch.rand(2)\n\n\nclass Trial"),
    )
    made = rewritten(tmp_path, source)
    assert f"self.kept = {value.replace('context.device', 'device_of_process()')}\n" in made
    assert "def device_of_process():" in made and "import os\n" in made
    assert "MIGRATE" not in made and "def kept" not in made


def test_the_device_of_a_context_is_that_of_the_module(tmp_path):
    made = rewritten(
        tmp_path,
        trial(
            ("lr=0.1))\n", "lr=0.1))\n        self.device = context.device\n"),
            ("self.model(batch).sum()\n", "self.model(batch.to(self.device)).sum()\n"),
        ),
    )
    assert "batch.to(self.device)" in made
    assert "def device" not in made and "self.device = " not in made


def test_what_a_property_calls_is_asked_later(tmp_path):
    """``__init__`` calls the helper no more, so that what it moves is on the module's device."""
    helper = "def mask(self, n):\n        return torch.eye(n).to(self.context.device)\n\n    def tr"
    kept = "lr=0.1))\n        self.kept = self.mask(context.get_per_slot_batch_size())\n"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", kept), ("def tr", helper)))
    assert "        return self.mask(self.hparams.global_batch_size // self.tr" in made
    assert "torch.eye(n).to(self.device)" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("used", "is_left"), [("", True), ("self.add()\n        ", False)], ids=["early", "also later"]
)
def test_helpers_of_init_leave_moving_to_lightning(used, is_left, tmp_path):
    value = "torch.ones(2).to(self.context.device)"
    helper = f"def add(self):\n        self.kept = {value}\n\n    def tr"
    calls = "lr=0.1))\n        self.add()\n"
    step = ("        loss = self", f"        {used}loss = self")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", calls), ("def tr", helper), step))
    buffer = 'self.register_buffer("kept", torch.ones(2), persistent=False)'
    assert (buffer in made) is is_left
    assert ("self.kept = torch.ones(2).to(device_of_process())" in made) is not is_left


def test_a_loader_that_init_makes_is_early(tmp_path):
    calls = "lr=0.1))\n        self.rows = self.build_training_data_loader()\n"
    rows = ("DataLoader([]", "DataLoader(torch.ones(2).to(self.context.device)")
    made = rewritten(tmp_path, trial(("lr=0.1))\n", calls), rows))
    assert "torch.ones(2).to(device_of_process())" in made


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            ["hp = context.get_hparams()", 'self.n = hp["lr"] / context.distributed.size'],
            'self.hparams["lr"] / self.trainer.world_size',
        ),
        (
            [
                "every = context.get_global_batch_size()",
                "self.n = every // context.distributed.size",
            ],
            "self.hparams.global_batch_size // self.trainer.world_size",
        ),
        (
            [
                "hp = context.get_hparams()",
                'hp["lr"] = 1',
                'self.n = hp["lr"] / context.distributed.size',
            ],
            "",
        ),
    ],
)
def test_a_variable_of_init_that_the_context_has_told_is_asked_of_the_module(
    lines, after, tmp_path
):
    text = "".join(f"        {line}\n" for line in lines)
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n{text}")))
    is_property = f"    def n(self):\n        return {after}\n" in made
    assert is_property is bool(after)
    assert ("world_size: int = 1" not in made) is is_property
    # The variable is gone with what used it.
    assert (
        "every" in made or "hp" in made.replace("hparams", "").replace("hyperparameters", "")
    ) is not is_property


def test_an_optimizer_that_is_made_later_asks_lightning_how_many_processes_there_are(tmp_path):
    """Nothing else in ``__init__`` does, so that it takes no number of them."""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", "lr=0.1 * context.distributed.size))\n")))
    assert "lr=0.1 * self.trainer.world_size" in made
    assert "world_size: int = 1" not in made and "def setup" not in made


@pytest.mark.parametrize(
    ("body", "is_property"),
    [
        ("return 2", True),
        ("self.n += 1\n        return self.n", False),
        ("return int(torch.rand(1) * 3) + 1", False),
        ("self.seen.append(1)\n        return len(self.seen)", False),
    ],
)
def test_a_value_is_made_once_where_each_may_be_another(body, is_property, tmp_path):
    size = "self.size = context.get_per_slot_batch_size() // self.share()\n        self.opt ="
    share = f"    def share(self):\n        {body}\n\n    def build_training"
    source = trial(("self.opt =", size), ("    def build_training", share))
    assert ("@property\n    def size(" in rewritten(tmp_path, source)) is is_property
