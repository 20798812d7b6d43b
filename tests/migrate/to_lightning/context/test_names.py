from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, method, rewritten, trial

SCRIPT = """\
import det_compat

det_compat.alias_determined()

{0}

def main(config):
    module = det_compat.to_lightning(Trial)({1})
    return module
"""


def test_modules_are_made_without_det_compat(tmp_path):
    made = rewritten(tmp_path, SCRIPT.format(trial(), "config['hyperparameters'], config"))
    assert "    module = Trial(**config['hyperparameters'])\n" in made
    assert "det_compat" not in made
    assert "MIGRATE" not in made


def test_what_the_module_takes_of_the_config(tmp_path):
    change = ("self.context = context", "self.url = context.get_data_config()['url']")
    made = rewritten(tmp_path, SCRIPT.format(trial(change), "hparams={}, exp_conf=config"))
    assert 'Trial(**{}, data_config=config["data"])' in made
    assert "data_config: dict[str, Any]" in method(made, "__init__")


def test_arguments_that_are_not_known_stay(tmp_path):
    made = rewritten(tmp_path, SCRIPT.format(trial(), "aggregation_frequency=2"))
    assert "# MIGRATE: to_lightning has no counterpart" in made
    # the file is imported without
    assert "def main(config):\n    import det_compat\n" in made
    assert not made.startswith("import det_compat")


def test_the_logger_writes(tmp_path):
    source = "from determined.tensorboard.metric_writers.pytorch import TorchWriter\n" + trial(
        ("lr=0.1))\n", "lr=0.1))\n        self.logger = TorchWriter()\n"),
        (
            '        return {"error"',
            "        self.logger.writer.add_scalar('x', 1, 2)\n        return {\"error\"",
        ),
    )
    made = rewritten(tmp_path, source)
    assert "TorchWriter" not in made
    said = "        # pl.Trainer needs a TensorBoardLogger for this\n"
    assert f"{said}        self.logger.experiment.add_scalar('x', 1, 2)" in made
    assert made.count("TensorBoardLogger") == 1


def test_downloads_of_blobs(tmp_path):
    source = """\
    from determined.util import download_gcs_blob_with_backoff

    def text(blob):
        return download_gcs_blob_with_backoff(blob, n_retries=4).decode()
    """
    made = rewritten(tmp_path, source)
    said = "# Google's client tries again by itself, where the error may pass\n"
    assert f"    {said}    return blob.download_as_bytes().decode()" in made
    assert "determined" not in made and "MIGRATE" not in made


WRITER = HEADER + "from determined.tensorboard.metric_writers.pytorch import TorchWriter\n"


def test_a_writer_that_is_kept_is_that_of_the_logger(tmp_path):
    source = trial(
        ("self.context = context\n", "self.board = TorchWriter().writer\n"),
        ("        return {", "        self.board.add_scalar('loss', loss, 1)\n        return {"),
        header=WRITER,
    )
    made = rewritten(tmp_path, source)
    said = "    # pl.Trainer needs a TensorBoardLogger for this\n"
    assert method(made, "board") == f"def board(self):\n{said}    return self.logger.experiment"
    assert "MIGRATE" not in made and "TorchWriter" not in made


def test_a_writer_that_init_needs_is_one_of_torch(tmp_path):
    source = trial(
        (
            "self.context = context\n",
            "self.logger = TorchWriter()\n"
            "        self.logger.writer.add_text('a', 'b')\n"
            "        TorchWriter().writer.add_text('c', 'd')\n"
            "        context.get_tensorboard_writer().add_text('e', 'f')\n",
        ),
        (
            "        return {",
            "        self.logger.writer.add_scalar('l', loss, 1)\n        return {",
        ),
        header=WRITER,
    )
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made and "TorchWriter" not in made
    assert "from torch.utils.tensorboard import SummaryWriter\n" in made
    assert "self.trial_logger = SummaryWriter()\n" in made
    assert "self.trial_logger.add_text('a', 'b')\n" in made
    assert "\n        SummaryWriter().add_text('c', 'd')\n" in made
    assert "\n        SummaryWriter().add_text('e', 'f')\n" in made
    assert "self.trial_logger.add_scalar('l', loss, 1)\n" in made


CALLBACK = """\
from determined.pytorch import PyTorchCallback


class Drawing(PyTorchCallback):
    def __init__(self, trial: "Trial"):
        self.trial = trial

    def {}(self{}):
        self.trial.logger.writer.add_scalar('l', 1, 1)


"""


@pytest.mark.parametrize(
    ("hook", "given", "written", "is_kept"),
    [
        ("on_validation_end", ", metrics", "self.trial.logger.experiment", False),
        ("draw", "", "self.trial.trial_logger", True),
    ],
)
def test_a_writer_of_a_trial_that_a_callback_asks(tmp_path, hook, given, written, is_kept):
    source = trial(
        ("self.context = context\n", "self.logger = TorchWriter()\n"),
        (
            "    def train_batch",
            "    def build_callbacks(self):\n        return {'d': Drawing(self)}\n\n"
            "    def train_batch",
        ),
        header=WRITER + CALLBACK.format(hook, given),
    )
    made = rewritten(tmp_path, source)
    assert f"        {written}.add_scalar('l', 1, 1)\n" in made
    assert ("self.trial_logger = SummaryWriter()" in made) is is_kept
    assert "MIGRATE" not in made and "TorchWriter" not in made


@pytest.mark.parametrize(
    "made",
    [
        "self.logger = TorchWriter() if context.get_hparam('draws') else None\n",
        "self.logger = None\n        if context.get_hparam('draws'):\n"
        "            self.logger = TorchWriter()\n",
    ],
)
def test_a_writer_that_may_be_none_stays_what_it_is(tmp_path, made):
    asks = "        if self.logger is not None:\n            self.logger.writer.flush()\n"
    source = trial(
        ("self.context = context\n", made),
        ('        return {"loss"', f'{asks}        return {{"loss"'),
        header=WRITER + CALLBACK.format("on_validation_end", ", metrics"),
    )
    made = rewritten(tmp_path, source)
    assert "logger.experiment" not in made and "self.trial_logger = SummaryWriter()" in made
    assert "if self.trial_logger is not None:\n" in made
    assert "self.trial.trial_logger.add_scalar('l', 1, 1)\n" in made


def test_a_writer_that_is_handed_on(tmp_path):
    source = trial(
        ("self.context = context\n", "self.board = TorchWriter()\n"),
        ("        return {", "        draw(self.board, loss)\n        return {"),
        header=WRITER
        + "board = TorchWriter()\n\n\n"
        + "def draw(writer: TorchWriter, loss):\n"
        + "    writer.writer.add_scalar('l', loss, 1)\n"
        + "    board.writer.add_scalar('l', loss, 1)\n\n\n",
    )
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made and "TorchWriter" not in made
    assert "\nboard = SummaryWriter()\n" in made
    assert "def draw(writer: SummaryWriter, loss):\n    writer.add_scalar('l', loss, 1)\n" in made
    assert "\n    board.add_scalar('l', loss, 1)\n" in made
    assert "self.board" not in made
    assert "        draw(self.logger.experiment, loss)\n" in made


def test_a_wrapper_of_a_scheduler_that_is_still_made_is_left(tmp_path):
    made = "        print(LRScheduler(self.opt, step_every_epoch=True))\n        self.opt ="
    after = rewritten(tmp_path, trial(("        self.opt =", made)))
    assert "# MIGRATE: pytorch.LRScheduler has no counterpart" in after
    assert "torch.optim.lr_scheduler.LRScheduler(" not in after


def test_a_class_that_derives_from_a_wrapper_of_a_scheduler_is_left(tmp_path):
    before = "class Warm(LRScheduler):\n    pass\n\n\nclass Trial"
    after = rewritten(tmp_path, trial(("class Trial", before)))
    assert "# MIGRATE: pytorch.LRScheduler has no counterpart" in after
    assert "class Warm(LRScheduler):" in after


def test_a_search_is_told_of_what_it_should_leave_out(tmp_path):
    refusing = (
        "self.context = context\n",
        "self.context = context\n"
        "        # too large\n"
        '        if context.get_hparam("n") > 3: raise det.InvalidHP("n")\n'
        '        if context.get_hparam("n") > 2:\n            raise InvalidHP\n'
        '        print(det.InvalidHP)\n        raise ValueError("n")\n',
    )
    header = f"import determined as det\nfrom determined import InvalidHP\n{HEADER}"
    made = rewritten(tmp_path, trial(refusing, header=header))
    said = "# a search should go on with other hyperparameters where this is raised\n"
    assert made.count(said) == 2 and "MIGRATE" not in made
    assert f'            {said}            raise ValueError("n")\n' in made
    assert f"            {said}            raise ValueError\n" in made


def test_what_loads_a_trial_is_told_of_what_loads_a_module(tmp_path):
    script = (
        "\n\nfrom determined import pytorch\n\n\ndef load(path):\n"
        "    return pytorch.load_trial_from_checkpoint_path(path, trial_class=Trial)\n"
    )
    made = rewritten(tmp_path, f"{trial()}{script}")
    assert "    # MIGRATE: the class's load_from_checkpoint() loads Lightning's checkpoints" in made
    assert "    from determined import pytorch\n" in made


def test_what_derives_from_a_mixin_never_comes_behind_it(tmp_path):
    """Its own constructor is not what the mixin hands the context on to."""
    before = """\
class Noisy:
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

    def noisy(self, x):
        return x + torch.rand(1)


class Preview(Noisy):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def show(self):
        return self.noisy(self.rows)


class Trial(Noisy, """
    made = rewritten(tmp_path, trial(("class Trial(", before)))
    assert "        return x + torch.rand(1)\n" in made


def test_heirs_have_constructors_of_their_own(tmp_path):
    """What a mixin's is given where it is called by name does not come to them."""
    before = """\
class Noisy:
    def __init__(self, context):
        self.noise = context.get_hparam("noise")

    def noisy(self, x):
        return x * self.noise


class Preview(Noisy):
    def __init__(self, rows):
        self.rows = rows

    def show(self):
        return self.noisy(self.rows)


class Trial(Noisy, """
    call = "self.context = context\n"
    changes = (("class Trial(", before), (call, f"Noisy.__init__(self, context)\n        {call}"))
    made = rewritten(tmp_path, trial(*changes))
    assert "MIGRATE" not in made
    assert "        return x * self.noise\n" in made


def test_a_module_that_was_a_trial_is_not_given_a_context(tmp_path):
    """A call that was left, and is marked, is seen again by the next run."""
    source = """\
import pytorch_lightning as pl
from determined import pytorch


class Module(pl.LightningModule):
    def __init__(self, conf):
        super().__init__()
        self.conf = conf

    def configure_optimizers(self):
        print(self.conf.get("out"))


def build(conf):
    return lambda context: Module(context, conf)


def main():
    make = build({})
    with pytorch.init() as context:
        trainer = pytorch.Trainer(make(context), context)
        trainer.fit(max_length=pytorch.Epoch(2))
"""
    made = rewritten(tmp_path, source)
    assert "the context's get" not in made
    assert '        print(self.conf.get("out"))\n' in made


def test_what_python_asks_before_a_base_is_not_behind_it(tmp_path):
    """A base hands its context on to Determined's trial, and to no class beside it."""
    mixin = """\
class Scaled:
    def __init__(self, scale):
        self.scale = scale
        super().__init__()

    def scaled(self, x):
        return x * self.scale


class Base("""
    heir = """

class Trial(Scaled, Base):
    def __init__(self, context):
        Base.__init__(self, context)
        self.scale = context.get_hparam("scale")
"""
    source = trial(
        ("class Trial(", mixin),
        (
            "        self.context = context\n",
            "        super().__init__(context)\n        self.context = context\n",
        ),
    )
    made = rewritten(tmp_path, source + heir)
    assert "        return x * self.scale\n" in made
    assert "        self.scale = " in made.partition("class Base")[0]


def test_a_callback_gets_hyperparameters_without_the_number_of_processes(tmp_path):
    callback = """\
class Card(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_validation_end(self, metrics):
        torch.save(dict(self.trial.hparams), "card")


class Trial("""
    source = trial(
        ("import DataLoader", "import PyTorchCallback, DataLoader"),
        ("class Trial(", callback),
        (
            "lr=0.1))\n",
            "lr=0.1))\n        self.hparams = context.get_hparams()\n"
            "        self.card = Card(self)\n"
            "        self.size = context.get_per_slot_batch_size()\n",
        ),
    )
    made = rewritten(tmp_path, source)
    written = " ".join(made.partition("class Trial")[0].split())
    assert "for name, value in self.trial.hparams.items() if name not in (" in written
    assert '"world_size")' in written


@pytest.mark.parametrize(
    ("where", "line", "made"),
    [
        ("train", "rate(self.context)", "for opt in context.trainer.optimizers:"),
        (
            "train",
            "rates(self.context)",
            "[each.scheduler for each in context.trainer.lr_scheduler_configs]",
        ),
        ("init", "rate(context)", "# MIGRATE: the context's optimizers has no counterpart"),
        ("train", "outer(self.context)", "# MIGRATE: the context's optimizers has no counterpart"),
        ("train", "stepped(self.context)", "# MIGRATE: "),
    ],
)
def test_what_is_wrapped_is_the_trainers_for_functions_of_training(where, line, made, tmp_path):
    functions = """\
def rate(context):
    for opt in context.optimizers:
        print(opt)


def rates(context):
    return context.lr_schedulers


def outer(context):
    inner(context)


def inner(context):
    print(context.optimizers)


def stepped(context):
    for opt in context.optimizers:
        context.step_optimizer(opt)
"""
    name = line.partition("(")[0]
    parts = functions.split("\n\n\n")
    kept = [
        p for p in parts if p.startswith(f"def {name}(") or (name == "outer" and "def inner" in p)
    ]
    (tmp_path / "helpers.py").write_text("\n\n\n".join(kept))
    place = "lr=0.1))\n" if where == "init" else "        self.context.backward(loss)\n"
    source = f"from helpers import {name}\n" + trial((place, f"{place}        {line}\n"))
    (tmp_path / "model_def.py").write_text(source)
    found = {
        file.path.name: file.after.decode() for file in migrate([str(tmp_path)], "lightning").files
    }
    assert made in found["helpers.py"]
