from __future__ import annotations

import textwrap
from typing import Any

import pytest
import pytorch_lightning as pl

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, method, rewritten, trial


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.context.device", "self.device"),
        ("self.context.distributed.get_rank()", "self.global_rank"),
        ("self.context.distributed.size", "self.trainer.world_size"),
        ("self.context.distributed._hvd_config.use", "(self.trainer.world_size > 1)"),
        ("self.context.current_train_epoch()", "self.current_epoch"),
        ('self.context.get_hparam("lr")', "self.hparams.lr"),
        ("self.context.get_hparam(name)", "self.hparams[name]"),
        ("self.context.get_data_config()", "self.hparams.data"),
        ("self.context.to_device(torch.ones(2))", "torch.ones(2).to(self.device)"),
        ("self.context.to_device(torch.ones(2)).device.index", "self.device.index"),
        (
            "self.context.to_device(batch[0])",
            "self.transfer_batch_to_device(batch[0], self.device, 0)",
        ),
        # Lightning has moved it
        ("self.context.to_device(batch)", 'self.log("error", batch, batch_size=1, sync_dist=True)'),
        ("2 * self.context.get_per_slot_batch_size()", "2 * (self.hparams.global_batch_size // "),
        (
            "not self.context.is_epoch_start()",
            "not (self.trainer.fit_loop.batch_idx == 0)",
        ),
        ("self.context._epoch_len", "self.trainer.num_training_batches"),
        ("self.context.get_trial_seed()", "self.hparams.experiment_seed"),
        (
            "self.context.get_trial_seed() + len(self.context.get_experiment_config())",
            '.experiment_config.get("reproducibility", {}).get("experiment_seed", 0)',
        ),
    ],
)
def test_expressions(tmp_path, old, new):
    made = rewritten(tmp_path, trial(("self.model(batch).sum()}", f"{old}}}")))
    assert new in method(made, "validation_step")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("old", "left_out"),
    [
        ('get_hparam("workers", pin_memory=True)', "pin_memory=True"),
        ('get_hparam("workers", 4, a=1)', "4, a=1"),
        ('get_hparam("workers", **more)', "**more"),
        ("get_per_slot_batch_size(2)", "2"),
        ("distributed.get_rank(2)", "2"),
        ('get_hparam("workers")', ""),
        ('get_hparam(name="workers")', ""),
    ],
)
def test_what_a_getter_never_took_is_not_lost_in_silence(tmp_path, old, left_out):
    made = rewritten(tmp_path, trial(("self.model(batch).sum()}", f"self.context.{old}}}")))
    said = f"never took this, which is left out: {left_out}; see"
    assert (said in made) is bool(left_out)
    assert made.count("MIGRATE") == bool(left_out)
    assert rewritten(tmp_path, made) == made


def test_stopping(tmp_path):
    change = (
        '        return {"error"',
        '        self.context.set_stop_requested(True)\n        return {"error"',
    )
    made = rewritten(tmp_path, trial(change))
    assert "self.trainer.should_stop = True" in made and "ends with this batch" not in made
    made = rewritten(
        tmp_path, trial((change[0].replace("error", "loss"), change[1].replace("error", "loss")))
    )
    assert "training ends with this batch, and not at the next report" in made


KEEPING = "self.move = lambda x: context.to_device([x, context.distributed.get_rank()])\n"
MOVED = "self.transfer_batch_to_device([x, self.global_rank], self.device, 0)"


@pytest.mark.parametrize(
    ("lines", "heir", "is_early"),
    [
        (KEEPING, "self.late = 1", False),
        (f"{KEEPING}        self.kept = self.move(1)\n", "self.late = 1", True),
        (KEEPING, "self.late = self.move(1)", True),
        (KEEPING.replace("x:", "x, y=context.distributed.get_rank():"), "self.late = 1", True),
    ],
)
def test_a_lambda_that_is_kept_runs_when_it_is_called(lines, heir, is_early, tmp_path):
    text = trial(("self.context = context\n", lines))
    made = rewritten(
        tmp_path,
        f"{text}\n\nclass Heir(Trial):\n    def __init__(self, context):\n"
        f"        super().__init__(context)\n        {heir}\n",
    )
    assert ("self.transfer_batch_to_device([x, rank_zero_only.rank], device" in made) == is_early
    assert (f"        self.move = lambda x: {MOVED}\n" in made) is not is_early


def test_before_there_is_a_trainer(tmp_path):
    change = (
        "self.context = context",
        "self.n = context.get_per_slot_batch_size()\n        print(self.n)",
    )
    made = rewritten(tmp_path, trial(change))
    assert "MIGRATE" not in made
    assert "world_size: int = 1" in made
    assert "self.n = self.hparams.global_batch_size // self.hparams.world_size\n" in made
    assert (
        '    if stage == "fit" and self.trainer.world_size != self.hparams.world_size:'
        in method(made, "setup")
    )


def test_what_only_an_optimizer_asks_for_is_asked_of_the_trainer(tmp_path):
    rate = """\
    @property
    def rate(self):
        return 0.1 * self.context.distributed.get_size()

    def build_training_data_loader"""
    made = rewritten(
        tmp_path, trial(("lr=0.1", "lr=self.rate"), ("    def build_training_data_loader", rate))
    )
    assert "return 0.1 * self.trainer.world_size" in method(made, "rate")
    assert "world_size: int" not in made and "def setup" not in made


def test_the_size_is_saved_beside_hyperparameters_that_are_given_as_a_dict(tmp_path):
    before = "use(context.get_hparams(), context.distributed.get_size())"
    change = (
        ("self, context)", "self, context, hparams)"),
        ("self.context = context", before),
        ("self.context.get_per_slot_batch_size()", "4"),
    )
    script = """
with pytorch.init() as context:
    trainer = pytorch.Trainer(Trial(context, hparams={"n": 2}), context)
    trainer.fit(max_length=pytorch.Epoch(1))
"""
    header = f"from determined import pytorch\n{HEADER}"
    made = rewritten(tmp_path, trial(*change, header=header) + script)
    saved = ('self.save_hyperparameters("world_size")', "self.save_hyperparameters(hparams)")
    assert "\n        ".join(saved) in made and "MIGRATE" not in made


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('f"rank{RANK}"', """f"rank{int(os.environ.get('LOCAL_RANK', '0'))}\""""),
        ("f'rank{RANK}'", """f'rank{int(os.environ.get("LOCAL_RANK", "0"))}'"""),
    ],
)
def test_texts_inside_of_texts_have_other_quotes(text, after, tmp_path):
    before = f"self.cache = {text.replace('RANK', 'context.distributed.get_local_rank()')}"
    asking = f"{before}\n        print(self.cache)"
    made = rewritten(tmp_path, trial(("self.context = context", asking)))
    assert f"self.cache = {after}\n" in made


def test_loaders_that_an_heir_makes_before_there_is_a_trainer(tmp_path):
    heir = """

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.length = len(self.build_training_data_loader())
"""
    made = rewritten(tmp_path, trial() + heir)
    size = 'self.hparams.global_batch_size // self.hparams.get("world_size", 1)'
    assert size in method(made.partition("class Heir")[0], "train_dataloader")
    assert "MIGRATE" not in made


def test_a_mixin_that_divides_before_there_is_a_trainer(tmp_path):
    mixin = """class Sized:
    def size(self):
        return self.context.get_per_slot_batch_size()


class Trial(Sized, PyTorchTrial)"""
    change = ("self.context = context\n", "self.context = context\n        print(self.size())\n")
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial)", mixin), change))
    sized, _, module = made.partition("class Trial")
    assert 'self.hparams.get("world_size", 1)' in method(sized, "size")
    assert "raise ValueError" in method(module, "setup")


def test_what_is_wrapped_is_listed(tmp_path):
    heir = """

class Heir(Trial):
    def names(self):
        return [self.context.models, self.context.optimizers, self.context.lr_schedulers]
"""
    made = rewritten(tmp_path, trial() + heir)
    assert "return [[self.model], [self.opt], []]" in made


def test_a_list_that_heirs_make_longer_is_left(tmp_path):
    count = (
        "    def count(self):\n        return len(self.context.models)\n\n    def evaluate_batch"
    )
    heir = """

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.other = context.wrap_model(torch.nn.Linear(1, 1))
"""
    made = rewritten(tmp_path, trial(("    def evaluate_batch", count)) + heir)
    assert "# MIGRATE: the context's models has no counterpart" in made


def test_contexts_by_other_names(tmp_path):
    change = (
        "self.context = context",
        "self.context = self.ctx = context\n        self.hp = context.get_hparam",
    )
    made = rewritten(tmp_path, trial(change, ("self.model(batch).sum()}", 'self.hp("lr")}')))
    assert "self.hparams.lr" in made
    assert "context" not in made


def test_helpers_get_the_module(tmp_path):
    helper = "def scale(ctx: PyTorchTrialContext):\n    return ctx.get_hparam('scale')\n\n\n"
    source = trial(("class Trial", f"{helper}class Trial"), ("lr=0.1", "lr=scale(context)"))
    made = rewritten(tmp_path, source)
    assert "def scale(ctx: pl.LightningModule):\n    return ctx.hparams.scale" in made
    assert "lr=scale(self)" in made
    assert "scale: Any" in method(made, "__init__")


def test_methods_that_are_handed_on_stay(tmp_path):
    change = ("self.context = context", "self.helper.backward = context.backward")
    assert "self.helper.backward = self.manual_backward" in rewritten(tmp_path, trial(change))


def test_what_is_only_known_later_becomes_a_property(tmp_path):
    change = ("self.context = context", "self.n = context.get_per_slot_batch_size()")
    made = rewritten(tmp_path, trial(change))
    assert "MIGRATE" not in made
    assert (
        "    @property\n"
        "    def n(self):\n"
        "        return self.hparams.global_batch_size // self.trainer.world_size\n"
    ) in made
    assert "self.n = " not in made


def test_ranks_before_there_is_a_trainer(tmp_path):
    text = "self.folder = f'/tmp/{context.distributed.get_rank()}'"
    asked = f"{text}\n        print(self.folder)"
    made = rewritten(tmp_path, trial(("self.context = context", asked)))
    assert "self.folder = f'/tmp/{rank_zero_only.rank}'" in made
    assert "from pytorch_lightning.utilities import rank_zero_only\n" in made
    assert "MIGRATE" not in made
    # What forks processes makes the module before, where the rank is the first one's.
    made = rewritten(tmp_path, trial(("self.context = context", text)))
    assert method(made, "folder").endswith("    return f'/tmp/{self.global_rank}'")
    assert "rank_zero_only" not in made and "MIGRATE" not in made


def test_parameters_do_not_hide_what_is_used(tmp_path):
    helper = "def width(n):\n    return n\n\n\nclass Trial"
    model = "torch.nn.Linear(width(context.get_hparam('width')), 1)"
    made = rewritten(tmp_path, trial(("class Trial", helper), ("torch.nn.Linear(2, 1)", model)))
    assert method(made, "__init__").startswith(
        "def __init__(self, *, global_batch_size: int, **hparams: Any):"
    )
    assert "torch.nn.Linear(width(self.hparams.width), 1)" in made


def test_a_variable_with_what_a_context_knows_is_no_context(tmp_path):
    helper = "def warm(epoch_len):\n    return 1 / epoch_len\n\n\nclass Trial"
    change = ("self.model(batch).sum()}", "warm(self.context._epoch_len)}")
    made = rewritten(tmp_path, trial(("class Trial", helper), change))
    assert "    return 1 / epoch_len\n" in made
    assert "warm(self.trainer.num_training_batches)" in made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("make(context.get_hparams())", "make(self.hyperparameters)"),
        ("make(**context.get_hparams())", "make(**self.hyperparameters)"),
        ('context.get_hparams()["lr"]', 'self.hparams["lr"]'),
        ('context.get_hparams().get("lr")', 'self.hparams.get("lr")'),
    ],
)
def test_code_elsewhere_gets_the_plain_dict_that_it_got(before, after, tmp_path):
    changes = ("self.context = context", f"x = {before}"), ("class T", "make = print\n\n\nclass T")
    assert f"        x = {after}\n" in rewritten(tmp_path, trial(*changes))


def test_so_it_does_where_the_trial_keeps_it(tmp_path):
    before = "self.hparams = context.get_hparams()\n        make(self.hparams)"
    after = "        make(self.hyperparameters)\n"
    changes = ("self.context = context", before), ("class T", "make = print\n\n\nclass T")
    assert after in rewritten(tmp_path, trial(*changes))


def test_the_sections_of_the_config_are_no_hyperparameters(tmp_path):
    before = "self.data = context.get_data_config()\n        make(context.get_hparams())"
    after = """\
        self.data = self.hparams.data_config
        make(self.hyperparameters)
"""
    added = """\
    @property
    def hyperparameters(self):
        return {
            name: value
            for name, value in self.hparams.items()
            if name not in ("_class_path", "_instantiator", "data_config")
        }
"""
    changes = ("self.context = context", before), ("class T", "make = print\n\n\nclass T")
    made = rewritten(tmp_path, trial(*changes))
    assert after in made
    assert made.count(added) == 1


def test_how_many_processes_there_are_is_no_hyperparameter(tmp_path):
    before = """\
make(context.get_per_slot_batch_size())
        make(context.get_hparams())"""
    changes = ("self.context = context", before), ("class T", "make = print\n\n\nclass T")
    made = rewritten(tmp_path, trial(*changes))
    assert "        make(self.hyperparameters)\n" in made
    assert 'if name not in ("_class_path", "_instantiator", "world_size")\n' in made


@pytest.mark.parametrize(
    "given",
    [
        "make(**context.get_hparams())",
        "make(**{'width': 1, **context.get_hparams()})",
        "make(**context.get_hparams().copy())",
        "make(**{name: value for name, value in context.get_hparams().items()})",
        "make(**{name: context.get_hparam(name) for name in context.get_hparams()})",
    ],
)
def test_what_is_given_all_hyperparameters_is_given_nothing_else(given, tmp_path):
    before = f"""\
self.data = context.get_data_config()
        self.size = make(context.get_per_slot_batch_size())
        self.made = {given}"""
    make = "def make(*size, **given):\n    return given\n\n\nclass Trial"
    source = trial(("self.context = context", before), ("class Trial", make))
    made = {}
    exec(compile(rewritten(tmp_path, source), "made", "exec"), made)
    module = made["Trial"](global_batch_size=4, width=3, data_config={}, world_size=1)
    assert module.made == {"global_batch_size": 4, "width": 3}


def test_what_copies_a_mapping_is_given_the_modules_own(tmp_path):
    changes = ("self.context = context", "x = AttrDict(context.get_hparams())")
    assert "        x = AttrDict(self.hparams)\n" in rewritten(tmp_path, trial(changes))


def test_a_hyperparameter_that_init_keeps(tmp_path):
    kept = "self.context = context\n        self.lr = context.get_hparam('lr')\n"
    made = rewritten(tmp_path, trial(("self.context = context\n", kept)))
    assert "        self.lr = lr\n" in made


def test_a_callback_has_the_models_of_the_one_trial(tmp_path):
    callback = """\


class Prints(pytorch.PyTorchCallback):
    def __init__(self, context):
        self.model, self.every = context.models[0], context.models
"""
    build = "    def build_callbacks(self):\n        return {'p': Prints(self.context)}\n\n"
    change = ("    def evaluate_batch", f"{build}    def evaluate_batch")
    made = rewritten(tmp_path, f"from determined import pytorch\n{trial(change)}{callback}")
    assert "self.model, self.every = context.model, [context.model]" in made


def test_what_init_asks_in_vain_has_no_name_that_is_gone(tmp_path):
    made = rewritten(tmp_path, trial(("self.context = context", "context.set_profiler(True)")))
    assert "# MIGRATE: the context's set_profiler has no counterpart" in made
    assert "        self.context.set_profiler(True)\n" in made


@pytest.mark.parametrize(
    ("statement", "made"),
    [
        (
            "noise = self.context.to_device(\n            torch.ones(2)\n            .expand(2))",
            "noise = torch.ones(2).expand(2).to(self.device)",
        ),
        ("noise = self.context.to_device(\n            torch.ones(2))", "torch.ones(2).to("),
    ],
)
def test_what_has_several_lines_keeps_its_brackets(tmp_path, statement, made):
    change = ("        loss = self", f"        {statement}\n        loss = self")
    assert made in method(rewritten(tmp_path, trial(change)), "training_step")


def test_names_of_early_releases_mean_those_of_today(tmp_path):
    made = "torch.optim.lr_scheduler.StepLR(self.opt, 1)"
    early = f"self.lrs = context.wrap_lrscheduler({made}, LRScheduler.StepMode.STEP_EVERY_EPOCH)"
    text = f"lr=0.1))\n        self.rank = context.get_rank()\n        {early}"
    made = rewritten(tmp_path, trial(("lr=0.1))", text)))
    assert "def rank(self):\n        return self.global_rank\n" in made and "MIGRATE" not in made
    assert "StepLR(" in method(made, "configure_optimizers")


DATA = """\
from determined import pytorch


class Data:
    def __init__(self, context: pytorch.PyTorchTrialContext):
        self.rows = context.get_data_config()["rows"]
        self.size = context.get_per_slot_batch_size()
        self.noise = context.get_hparam("noise")


def size_of(context):
    return context.get_per_slot_batch_size()
"""


@pytest.mark.parametrize("is_early", [True, False])
def test_what_objects_of_other_files_ask_before_there_is_a_trainer(tmp_path, is_early):
    (tmp_path / "data.py").write_text(DATA)
    early = "self.context = context\n"
    late = "DataLoader([], batch_size=4)"
    change = (early, f"{early}        self.data = Data(context)\n")
    change = change if is_early else (late, late.replace("4", "Data(self.context).size"))
    made = rewritten(tmp_path, trial(change, header=f"from data import Data, size_of\n{HEADER}"))
    (data,) = [f for f in migrate([str(tmp_path)], "lightning").files if f.path.name == "data.py"]
    text = data.after.decode()
    assert "data_config: dict[str, Any]" in made and "noise: Any" in made
    size = "context.hparams.global_batch_size // "
    processes = 'context.hparams.get("world_size", 1)' if is_early else "context.trainer.world_size"
    assert f"self.size = {size}{processes}\n" in text
    # What no __init__ calls may ask the Trainer.
    assert f"    return {size}context.trainer.world_size\n" in text
    assert ("world_size: int = 1" in made) == ("def setup(self, stage):" in made) == is_early


@pytest.mark.parametrize(
    ("use", "kept"),
    [("if {}:", "if {}:"), ("if not {}:", "if not ({}):"), ("if ({}):", "if ({}):")],
)
def test_a_condition_needs_no_parentheses(tmp_path, use, kept):
    asked = use.format("self.context.is_epoch_start()")
    old = "        loss = self.model(batch).sum()"
    made = rewritten(tmp_path, trial((old, f"        {asked}\n            print(1)\n{old}")))
    assert kept.format("batch_idx == 0") in method(made, "training_step")


def test_a_batch_that_has_its_number_in_the_run_asks_for_that_of_the_epoch(tmp_path):
    old = "        loss = self.model(batch).sum()"
    numbers = "batch_idx, -batch_idx, ~batch_idx"
    asked = f"        if self.context.is_epoch_start():\n            print({numbers})\n{old}"
    made = method(rewritten(tmp_path, trial((old, asked))), "training_step")
    assert "    if self.trainer.fit_loop.batch_idx == 0:\n" in made
    # Where only the number in the epoch has the name, it is that.
    asked = asked.replace(numbers, "batch_idx")
    made = method(rewritten(tmp_path, trial((old, asked))), "training_step")
    assert "    if batch_idx == 0:\n        print(self.global_step)\n" in made


def test_whether_there_are_several_processes_before_there_is_a_trainer(tmp_path):
    asked = "self.context = context\n        if context.distributed._hvd_config.use: print(1)"
    made = rewritten(tmp_path, trial(("self.context = context", asked)))
    assert "if (self.hparams.world_size > 1): print(1)" in made
    assert "world_size: int = 1" in made and "MIGRATE" not in made


def test_trials_of_one_name_each_know_what_they_do_before_there_is_a_trainer(tmp_path):
    lines = "def prepare(self):\n        self.size = self.context.get_per_slot_batch_size()\n"
    lines += "        self.rows = [0] * self.size\n\n    "
    source = trial(
        ("self.context = context", "self.context = context\n        self.prepare()"),
        ("    def train_batch", f"    {lines}def train_batch"),
    )
    for name in ("a.py", "z.py"):
        (tmp_path / name).write_text(trial())
    made = rewritten(tmp_path, source)
    assert "self.size = self.hparams.global_batch_size // self.hparams.world_size" in made
    assert "MIGRATE" not in made


def test_a_getter_of_hyperparameters_is_handed_on_as_one(tmp_path):
    helpers = """\
    class Scale:
        def __init__(self, hp):
            self.hp = hp

        def __call__(self, epoch):
            return self.hp("gamma") ** epoch


    def make_net(get, width=1):
        return torch.nn.Linear(get("inputs"), width)


    def make_other(context):
        get = context.get_hparam
        return torch.nn.Linear(get("inputs"), 1)
    """
    (tmp_path / "net.py").write_text(f"import torch\n\n\n{textwrap.dedent(helpers)}")
    changes = [
        ("class Trial(", "from net import *\n\n\nclass Trial("),
        ("context = context\n", "context = context\n        get = context.get_hparam\n"),
        ("torch.nn.Linear(2, 1)", "make_net(get)"),
        (
            "lr=0.1))",
            'lr=get("lr")))\n        self.scale = Scale(get)\n        make_other(context)',
        ),
    ]
    made = rewritten(tmp_path, trial(*changes))
    assert "self.model = make_net(self.hparams.__getitem__)" in made
    assert "self.scale = Scale(self.hparams.__getitem__)" in made
    assert "MIGRATE" not in made
    (net,) = [f for f in migrate([str(tmp_path)], "lightning").files if f.path.stem == "net"]
    after = net.after.decode()
    assert 'torch.nn.Linear(get("inputs"), width)' in after
    assert 'self.hp("gamma") ** epoch' in after
    assert "    get = context.hparams.__getitem__\n" in after
    assert "MIGRATE" not in after


def test_a_getter_that_a_trial_kept_is_asked_of_the_module(tmp_path):
    callback = """\
    class Watch(PyTorchCallback):
        def __init__(self, trial):
            self.trial = trial

        def on_training_start(self):
            print(self.trial.hp("lr"))


    class Trial("""
    built = "def build_callbacks(self):\n        return {'w': Watch(self)}\n\n    def tr"
    changes = [
        ("class Trial(", textwrap.dedent(callback)),
        (
            "self.context = context\n",
            "self.context = context\n        self.hp = context.get_hparam\n",
        ),
        ("def tr", built),
        ("import DataLoader", "import PyTorchCallback, DataLoader"),
    ]
    after = rewritten(tmp_path, trial(*changes))
    assert "print(self.trial.hparams.lr)" in after
    assert "MIGRATE" not in after


LOADER = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
CONFIG = """\
batches_per_step: 2
hyperparameters: {global_batch_size: 2}
searcher: {name: single, metric: error, max_steps: 2}
"""
#: What tells at which batch or step a run begins.
BEGINNING = ["env.first_step", "get_initial_batch"]


def test_where_a_run_that_goes_on_begins_is_told_in_what_makes_loaders(tmp_path):
    """Determined 0.12 counted steps of ``batches_per_step``, from 1 on."""
    (tmp_path / "const.yaml").write_text(CONFIG)
    (tmp_path / "model_def.py").write_text(
        trial(
            (LOADER, "DataLoader(torch.ones(6, 2), batch_size=2)"),
            (
                "    def build_training_data_loader(self):\n",
                "    def begin(self):\n"
                "        if self.context.env.first_step() == 1:\n"
                "            told.append('new')\n"
                "        step = self.context.env.first_step()\n"
                "        told.append((step, self.context.get_initial_batch()))\n"
                "\n    def build_training_data_loader(self):\n        self.begin()\n",
            ),
        )
    )
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert not file.marks
    told: list[object] = []
    names: dict[str, Any] = {"told": told}
    exec(file.after, names)
    flags: dict[str, Any] = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "limit_val_batches": 0,
    }
    trainer = pl.Trainer(max_epochs=1, **flags)
    trainer.fit(names["Trial"](global_batch_size=2))
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    pl.Trainer(max_epochs=2, **flags).fit(
        names["Trial"](global_batch_size=2), ckpt_path=tmp_path / "last.ckpt"
    )
    assert told == ["new", (1, 0), (2, 3)]


@pytest.mark.parametrize("member", BEGINNING)
@pytest.mark.parametrize(
    ("at", "line"),
    [
        ("        self.opt = ", "        self.first = self.context.{}()\n"),
        ("        self.opt = ", "        if self.context.{}() < 2:\n            print('new')\n"),
        ("        loss = ", "        print(self.context.{}())\n"),
    ],
)
def test_where_a_run_began_is_marked_where_a_module_does_not_know_it(member, at, line, tmp_path):
    made = rewritten(tmp_path, trial((at, line.format(member) + at)))
    assert f"# MIGRATE: {member} is that of a new run here" in made


@pytest.mark.parametrize("member", BEGINNING)
def test_where_a_run_began_is_nothing_to_tell_where_each_batch_says_more(member, tmp_path):
    kept = f"        self.at = self.context.{member}()\n"
    counted = "        self.at = batch_idx // 20\n"
    changes = [
        ("        self.opt = ", f"{kept}        self.opt = "),
        ("        loss = ", f"{counted}        loss = "),
    ]
    assert "MIGRATE" not in rewritten(tmp_path, trial(*changes))
