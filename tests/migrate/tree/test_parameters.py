from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.migrate.rewriting import method, rewritten, trial

CONFIG = """\
entrypoint: model_def:Trial
searcher: {{name: single, metric: loss, max_length: {{batches: 1}}}}
hyperparameters: {{{}}}
"""
#: The trial asks for one hyperparameter by name and for the size of batches.
ASKS_FOR_LR = trial(("lr=0.1", 'lr=context.get_hparam("lr")'))
#: The trial looks whether a hyperparameter is there.
LOOKS = trial(("lr=0.1", 'lr=context.get_hparams().get("lr", 0.1)'))


def signature(folder: Path, source: str, **configs: str) -> str:
    """The first lines of ``__init__``, given the hyperparameters of the configs by name."""
    for name, hparams in configs.items():
        (folder / f"{name}.yaml").write_text(CONFIG.format(hparams))
    return method(rewritten(folder, source), "__init__").partition("\n    super")[0]


@pytest.mark.parametrize(
    ("more", "is_open"), [("", False), ("\n        self.made = make(get)", True)]
)
def test_a_getter_that_is_only_called_asks_for_what_it_names(more, is_open, tmp_path):
    kept = f"self.context = context\n        get = context.get_hparam{more}"
    source = trial(("self.context = context", kept), ("lr=0.1", 'lr=get("lr")'))
    configs = {"const": "lr: 1.0, global_batch_size: 4", "other": "global_batch_size: 4"}
    made = signature(tmp_path, source, **configs)
    assert ("lr: float | None = None" in made) is is_open
    assert ("lr: float = 1.0" in made) is not is_open


@pytest.mark.parametrize(
    ("asks", "is_open"),
    [
        ('given.get("depth", 1)', True),
        ('given["depth"] if "depth" in given else 1', True),
        ('given.get("lr", 1)', False),
    ],
)
def test_a_function_may_look_for_more_than_a_config_has(asks, is_open, tmp_path):
    helper = f"def build(given):\n    return {asks}\n\n\nclass Trial"
    kept = "self.context = context\n        self.built = build(context.get_hparams())"
    source = trial(("class Trial", helper), ("self.context = context", kept))
    made = signature(tmp_path, source, const="lr: 1.0, global_batch_size: 4")
    assert ("depth: Any = None" in made) is is_open


@pytest.mark.parametrize(
    ("source", "const", "distributed", "after"),
    [
        pytest.param(
            ASKS_FOR_LR,
            "lr: 1, global_batch_size: 4",
            "lr: 0.5, global_batch_size: 8",
            "def __init__(self, *, lr: float = 1, global_batch_size: int = 4):",
            id="the types are those of all configs, the values those of const.yaml",
        ),
        pytest.param(
            ASKS_FOR_LR,
            "lr: 1, global_batch_size: 4",
            "lr: 1, global_batch_size: 8, warmup: 5",
            "def __init__(self, *, lr: float = 1, global_batch_size: int = 4, warmup: int = 5):",
            id="what only another config has is taken",
        ),
        pytest.param(
            ASKS_FOR_LR,
            "global_batch_size: 4",
            "global_batch_size: 8, lr: 0.5",
            "def __init__(self, *, global_batch_size: int = 4, lr: float = 0.5):",
            id="what the code needs and const.yaml lacks is taken, and not required",
        ),
        pytest.param(
            LOOKS,
            "global_batch_size: 4, lr: 0.5",
            "global_batch_size: 8",
            "def __init__(self, *, global_batch_size: int = 4, lr: float | None = None):",
            id="a default would be there where the code looks whether it is",
        ),
        pytest.param(
            ASKS_FOR_LR,
            "global_batch_size: 4, lr: {type: log, minval: -3, maxval: -1, base: 10}",
            "global_batch_size: {type: categorical, vals: [4, auto]}, lr: 1",
            "def __init__(self, *, lr: float, global_batch_size: Any = 4):",
            id="a range has the type of its values",
        ),
        pytest.param(
            ASKS_FOR_LR,
            "global_batch_size: 4, lr: {type: log, minval: -3, maxval: -1, base: 10}",
            "global_batch_size: 4",
            "def __init__(self, *, global_batch_size: int = 4, lr: float | None = None):",
            id="what is searched has no default, and another config may lack it",
        ),
        pytest.param(
            ASKS_FOR_LR,
            "global_batch_size: 4, lr: {a: 1}",
            "global_batch_size: 4, lr: null",
            "def __init__(self, *, lr: Any = None, global_batch_size: int = 4):",
            id="nothing is no value for LightningCLI, which must not miss it",
        ),
    ],
)
def test_a_module_takes_what_its_configs_have(
    source: str, const: str, distributed: str, after: str, tmp_path: Path
) -> None:
    # The name `const-distributed.yaml` sorts before `const.yaml`, which wins all the same.
    configs = {"const": const, "const-distributed": distributed}
    assert signature(tmp_path, source, **configs) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'hparams = context.get_hparams()\n        self.lr = hparams["lr"]',
            "def __init__(self, *, global_batch_size: int, lr: Any):",
        ),
        (
            'self.h = context.get_hparams()\n        self.lr = self.h["lr"]',
            "def __init__(self, *, global_batch_size: int, lr: Any):",
        ),
        (
            'hparams = context.get_hparams()\n        self.lr = hparams.get("lr")',
            "def __init__(self, *, global_batch_size: int, **hparams: Any):",
        ),
        (
            'hparams = context.get_hparams()\n        hparams["lr"] = 1',
            "def __init__(self, *, global_batch_size: int, **hparams: Any):",
        ),
    ],
)
def test_names_are_read_in_the_dict_of_hyperparameters(
    before: str, after: str, tmp_path: Path
) -> None:
    source = trial(("self.context = context", f"self.context = context\n        {before}"))
    assert signature(tmp_path, source) == after


@pytest.mark.parametrize(
    ("lines", "rest"),
    [
        ("self.args.width", ", width: Any = None"),
        ('self.args["width"]', ", width: Any = None"),
        ("self.args.lr", ""),
        ("self.args.keys()", ""),
        ("self.args.width = 2\n        print(self.args.width)", ""),
    ],
)
def test_what_is_read_and_in_no_config_is_taken(lines: str, rest: str, tmp_path: Path) -> None:
    """Another config may have it, which lies elsewhere."""
    kept = f"self.args = AttrDict(context.get_hparams())\n        {lines}"
    source = trial(("self.context = context", f"self.context = context\n        {kept}"))
    made = signature(tmp_path, source, const="global_batch_size: 4, lr: 0.5")
    assert f"*, global_batch_size: int = 4, lr: float = 0.5{rest}):" in made


@pytest.mark.parametrize(
    ("lines", "rest"),
    [
        ('hp = context.get_hparams()\n        print(hp.get("start"))', ", start: Any = None"),
        (
            'self.hp = context.get_hparams()\n        print("start" in self.hp)',
            ", start: Any = None",
        ),
        ('print(context.get_hparams().get("start"))', ", start: Any = None"),
        ('print(context.get_hparams().get("lr"))', ""),
    ],
)
def test_what_is_looked_for_and_in_no_config_is_taken(
    lines: str, rest: str, tmp_path: Path
) -> None:
    source = trial(("self.context = context", f"self.context = context\n        {lines}"))
    made = signature(tmp_path, source, const="global_batch_size: 4, lr: 0.5")
    assert f"global_batch_size: int = 4, lr: float = 0.5{rest}):" in made


def test_a_config_without_an_entrypoint_is_of_the_trial_beside_it(tmp_path: Path) -> None:
    text = CONFIG.format("lr: 0.5, global_batch_size: 4").partition("\n")[2]
    (tmp_path / "const.yaml").write_text(text)
    made = signature(tmp_path, ASKS_FOR_LR)
    assert made == "def __init__(self, *, lr: float = 0.5, global_batch_size: int = 4):"


def test_hyperparameters_may_come_as_one_dict(tmp_path: Path) -> None:
    source = trial(
        ("__init__(self, context)", "__init__(self, context, hparams)"),
        ("self.context.get_per_slot_batch_size()", "4"),
    )
    after = "def __init__(self, hparams):"
    assert signature(tmp_path, source, const="lr: 0.5, global_batch_size: 4") == after
    assert "MIGRATE" not in rewritten(tmp_path, source)


def test_what_is_only_tried_need_not_be_there(tmp_path):
    tried = (
        "        try:\n            self.decay = context.get_hparam('decay')\n"
        "        except ValueError:\n            self.decay = 0.0\n"
    )
    context = "        self.context = context\n"
    source = trial((context, context + tried))
    made = signature(tmp_path, source, const="decay: 0.5", other="lr: 1")
    assert "decay: float | None = None" in made
    init = method(rewritten(tmp_path, source), "__init__")
    assert "absent = [name for name, value in given.items() if value is None]" in init
    assert "self.decay = self.hparams['decay']" in init
    assert "except (KeyError, ValueError):" in init


@pytest.mark.parametrize(
    ("lines", "is_marked"),
    [
        (
            "hp = context.get_hparams()\n        hp['lr'] *= 2\n        f(context.get_hparams())",
            True,
        ),
        ("hp = context.get_hparams()\n        hp['lr'] *= 2", False),
        ("twice(context.get_hparams())", True),
        ("hp = context.get_hparams()\n        twice(hp)", True),
        (
            "hp = context.get_hparams()\n        self.hp = hp\n"
            "        again = self.hp\n        again['lr'] = 2",
            True,
        ),
        ("hp = dict(context.get_hparams())\n        hp['lr'] *= 2", False),
        ("hp = context.get_hparams()\n        self.lr = hp['lr'] == 2", False),
        ("shown(context.get_hparams())", False),
        ("self.args = Given(context.get_hparams())", False),
        ("made = {}\n        made['lr'] = 2", False),
    ],
)
def test_hyperparameters_that_are_changed_in_a_copy(tmp_path, lines, is_marked):
    functions = (
        "def twice(hparams, *, by=2):\n    hparams['lr'] = hparams['lr'] * by\n\n\n"
        "class Given(dict):\n    def __init__(self, given):\n"
        "        for name in given:\n            self[name] = given[name]\n\n\n"
        "def shown(hparams):\n    made = {}\n    made['lr'] = hparams['lr']\n\n\n"
    )
    source = ASKS_FOR_LR.replace(
        "self.context = context\n", f"self.context = context\n        {lines}\n"
    )
    made = rewritten(tmp_path, functions + source)
    assert ("Determined's hyperparameters were one dict" in made) == is_marked


@pytest.mark.parametrize(
    ("lines", "changed", "is_kept"),
    [
        ("hp = context.get_hparams()\n        hp['lr'] *= 2", 1.0, True),
        ("self.hp = context.get_hparams()\n        self.hp['lr'] *= 2", 1.0, True),
        ("self.hparams = context.get_hparams()\n        self.hparams.update(lr=1.0)", 1.0, True),
        (
            "self.hp = context.get_hparams()\n        self.hp['lr'] *= 2\n"
            "        self.rate = context.get_hparams()['lr']",
            1.0,
            True,
        ),
        (
            "self.hparams = context.get_hparams()\n        self.hparams.setdefault('x', 1)",
            0.5,
            False,
        ),
    ],
)
def test_checkpoints_have_changed_hyperparameters_as_they_were_given(
    tmp_path, lines, changed, is_kept
):
    """A module that is made of those in a checkpoint changes them again."""
    signature(tmp_path, ASKS_FOR_LR, const="lr: 0.5, global_batch_size: 4")
    after = f"self.context = context\n        {lines}\n"
    made = rewritten(tmp_path, ASKS_FOR_LR.replace("self.context = context\n", after))
    assert "MIGRATE" not in made
    space: dict[str, Any] = {"__name__": "made"}
    exec(made, space)
    module = space["Trial"](lr=0.5)
    (group,) = module.configure_optimizers().param_groups
    assert group["lr"] == changed
    assert ("on_save_checkpoint" in vars(space["Trial"])) is is_kept
    if is_kept:
        checkpoint: dict[str, Any] = {"hyper_parameters": dict(module.hparams)}
        module.on_save_checkpoint(checkpoint)
        assert checkpoint["hyper_parameters"] == {"lr": 0.5, "global_batch_size": 4}


def test_hyperparameters_as_they_were_given_are_kept_beside_a_scaler(tmp_path):
    lines = "hp = context.get_hparams()\n        hp['lr'] *= 2\n"
    lines += "        self.scaler = context.wrap_scaler(torch.cuda.amp.GradScaler())\n"
    made = rewritten(
        tmp_path,
        ASKS_FOR_LR.replace("self.context = context\n", f"self.context = context\n        {lines}"),
    )
    saving = method(made, "on_save_checkpoint")
    assert "hparams_initial" in saving and "self.scaler.state_dict()" in saving


@pytest.mark.parametrize(
    ("lines", "is_copied"),
    [
        ("opt = context.get_hparam('opt')\n        self.kind = opt.pop('name')", True),
        ("self.opt = context.get_hparam('opt')\n        self.opt['lr'] = 1", True),
        ("opt = context.get_hparam('opt')\n        self.kind = opt['name']", False),
        ("hp = context.get_hparams()\n        self.kind = hp['opt'].pop('name')", True),
        ("hp = context.get_hparams()\n        del hp['opt']['name']", True),
        ("hp = context.get_hparams()\n        self.kind = hp.pop('opt')", False),
    ],
)
def test_what_a_trial_changes_is_not_what_checkpoints_keep(tmp_path, lines, is_copied):
    kept = "self.context = context\n"
    made = rewritten(tmp_path, trial((kept, f"{kept}        {lines}\n")))
    assert ("copy.deepcopy(" in made) is is_copied
    assert ("import copy\n" in made) is is_copied


def test_another_trial_of_the_file_has_hyperparameters_of_its_own(tmp_path):
    reads = 'def helper(context):\n    return context.get_hparam("seed")\n\n\nclass Trial('
    source = ASKS_FOR_LR.replace("class Trial(", reads)
    other = source[source.index("class Trial(") :].replace("class Trial(", "class Other(")
    made = rewritten(tmp_path, f"{source}\n\n{other.replace('lr', 'rate')}")
    first = "def __init__(self, *, lr: Any, global_batch_size: int, seed: Any):"
    assert first in made
    assert first.replace("lr", "rate") in made


def test_a_getter_that_is_handed_on_may_ask_for_anything(tmp_path):
    handed = ("self.context = context\n", "self.context = context\n        f(context.get_hparam)\n")
    made = rewritten(tmp_path, trial(handed))
    assert "**hparams: Any" in made
    assert "f(self.hparams.__getitem__)" in made


@pytest.mark.parametrize(("data", "is_optional"), [("", True), ("data: {url: x}\n", False)])
def test_a_section_that_a_config_lacks_is_empty(data, is_optional, tmp_path):
    for name, more in (("const", "data: {url: x}\n"), ("other", data)):
        (tmp_path / f"{name}.yaml").write_text(CONFIG.format("global_batch_size: 2") + more)
    asks = ("self.context = context\n", "self.data = context.get_data_config()\n")
    made = rewritten(tmp_path, trial(asks))
    assert ("data_config: dict[str, Any] | None = None" in made) is is_optional
    assert ("        data_config = data_config or {}\n" in made) is is_optional
    assert is_optional or "data_config: dict[str, Any]," in made
