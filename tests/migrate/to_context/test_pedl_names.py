from __future__ import annotations

import pytest
import torch

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import method, rewritten

STANDARD = """\
import pedl
import torch
from pedl.frameworks.pytorch import PyTorchTrial
from pedl.frameworks.pytorch.data import DataLoader
from pedl.frameworks.pytorch.util import error_rate


def rows():
    return torch.load(pedl.get_download_data_dir() + "/rows.pt")


def make_data_loaders(experiment_config, hparams):
    return DataLoader(rows(), batch_size=4), DataLoader(rows(), batch_size=4)


def download_data(experiment_config, hparams):
    return "/tmp"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(2, pedl.get_hyperparameter("width"))

    def forward(self, x):
        return self.body(x) * pedl.get_hyperparameter("scale")


class Trial(PyTorchTrial):
    def build_model(self, hparams):
        return Net()

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=pedl.get_hyperparameter("lr"))

    def batch_size(self):
        return 4

    def losses(self, predictions, labels):
        return torch.nn.functional.nll_loss(predictions, labels)

    def validation_metrics(self, predictions, labels, losses):
        return {"error": error_rate(predictions, labels)}
"""


def init_of_trial(made):
    return method(made.partition("class Trial")[2], "__init__")


def test_members_of_the_context_api(tmp_path):
    made = rewritten(tmp_path, STANDARD, "context")
    assert init_of_trial(made) == (
        "def __init__(self, context):\n"
        "    self.context = context\n"
        "    self.model = context.wrap_model(self.build_model(context.get_hparams()))\n"
        "    self.opt = context.wrap_optimizer(self.optimizer(self.model))"
    )
    assert made.count("@functools.cached_property") == 2
    assert method(made, "download_data_dir") == (
        "def download_data_dir(self):\n"
        "    return download_data(\n"
        "        self.context.get_experiment_config(), self.context.get_hparams()\n"
        "    )"
    )
    assert method(made, "loaders") == (
        "def loaders(self):\n"
        "    return make_data_loaders(\n"
        "        self.context.get_experiment_config(),\n"
        "        self.context.get_hparams(),\n"
        "        self.download_data_dir,\n"
        "    )"
    )
    assert method(made, "build_training_data_loader").endswith("return self.loaders[0]")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    return "/tmp"', '    torch.rand(2)\n    return "/tmp"'),
        ("return Net()", 'return torch.load("/tmp/net.pt")'),
        ("super().__init__()", 'super().__init__()\n        self.words = open("/tmp/words")'),
    ],
    ids=["random numbers", "a model of a file", "a file of the model's"],
)
def test_a_download_that_others_may_need_comes_first(old, new, tmp_path):
    made = rewritten(tmp_path, STANDARD.replace(old, new), "context")
    assert "    self.download_data_dir = download_data(\n" in init_of_trial(made)
    assert made.count("@functools.cached_property") == 1


def test_a_download_is_made_where_nobody_asks_for_its_place(tmp_path):
    own = STANDARD.replace('pedl.get_download_data_dir() + "/rows.pt"', '"rows.pt"')
    made = rewritten(tmp_path, own, "context")
    assert method(made, "loaders") == (
        "def loaders(self):\n"
        "    download_data(self.context.get_experiment_config(), self.context.get_hparams())\n"
        "    return make_data_loaders(\n"
        "        self.context.get_experiment_config(), self.context.get_hparams()\n"
        "    )"
    )
    assert "download_data_dir" not in made
    asked = own.replace("return Net()", "return Net(pedl.get_download_data_dir())")
    made = rewritten(tmp_path, asked, "context")
    assert "    self.download_data_dir = download_data(\n" in init_of_trial(made)


def test_data_are_made_once_and_for_those_who_ask(tmp_path, monkeypatch):
    made, loaded = {}, []
    exec(compile(rewritten(tmp_path, STANDARD), "made", "exec"), made)
    monkeypatch.setattr(torch, "load", lambda path: loaded.append(path) or [path] * 8)
    module = made["Trial"](lr=0.1, width=3, scale=2, experiment_config={})
    assert not loaded
    training, validation = module.train_dataloader(), module.val_dataloader()
    assert loaded == ["/tmp/rows.pt"] * 2
    assert (next(iter(training)), len(validation)) == (["/tmp/rows.pt"] * 4, 2)


def test_what_pedl_was_asked_for_is_handed_on(tmp_path):
    made = rewritten(tmp_path, STANDARD, "context")
    assert "pedl" not in made
    assert "def rows(download_data_dir):" in made
    assert "def make_data_loaders(experiment_config, hparams, download_data_dir):" in made
    assert "DataLoader(rows(download_data_dir=download_data_dir), batch_size=4)" in made
    assert "    def __init__(self, hparams):\n        super().__init__()\n" in made
    assert "        self.hparams = hparams\n" in made
    assert 'torch.nn.Linear(2, hparams["width"])' in made
    assert 'self.body(x) * self.hparams["scale"]' in made
    assert "return Net(hparams=hparams)" in made
    assert 'lr=self.context.get_hparam("lr")' in made
    # Another base than a module may call what asks, from its own __init__.
    made = rewritten(tmp_path, STANDARD.replace("class Net(torch.nn.Module)", "class Net(Base)"))
    first = "    def __init__(self, hparams):\n        self.hparams = hparams\n        super()."
    assert first in made


ASKS = "pedl.get_hyperparameter has no counterpart"


@pytest.mark.parametrize("asked", ["Net()", 'pedl.get_hyperparameter("width")'])
def test_a_class_that_makes_itself_is_left_to_ask(asked, tmp_path):
    header = "class Net(torch.nn.Module):\n"
    once = f"{header}    @staticmethod\n    def get():\n        return {asked}\n\n"
    made = rewritten(tmp_path, STANDARD.replace(header, once), "context")
    assert f"        return {asked}\n" in made
    assert 'torch.nn.Linear(2, pedl.get_hyperparameter("width"))' in made
    assert "hparams=" not in made
    # The trial is none of PEDL's any more, so that nothing answers.
    assert f"        # MIGRATE: {ASKS}; see" in made
    again = rewritten(tmp_path, made, "context")
    assert again == made


@pytest.mark.parametrize("package", ["layers", "elsewhere.layers"])
def test_what_is_called_by_the_name_of_a_package_that_is_not_there_is_left_to_ask(
    package, tmp_path
):
    """Those who call it are not known to, as in a package that lies in a folder of another name."""
    layers, trial = tmp_path / "layers.py", tmp_path / "model_def.py"
    asked = 'pedl.get_hyperparameter("width")'
    layers.write_text(
        f"import pedl\nimport torch\n\n\ndef body():\n    return torch.nn.Linear(2, {asked})\n"
    )
    trial.write_text(
        f"from {package} import body\n{STANDARD}".replace("return Net()", "return body()")
    )
    found = {file.path.name: file.after.decode() for file in migrate([tmp_path], "context").files}
    is_known = package == "layers"
    assert ("body(hparams=hparams)" in found["model_def.py"]) is is_known
    assert ("def body(hparams):" in found["layers.py"]) is is_known
    assert (f"# MIGRATE: {ASKS}" in found["layers.py"]) is not is_known


def test_a_script_that_creates_its_experiment_is_marked(tmp_path):
    assert "MIGRATE" not in rewritten(tmp_path, STANDARD, "context")
    created = "pedl.Experiment(Trial, make_data_loaders, {}).create()\n"
    made = rewritten(tmp_path, f"{STANDARD}\n\n{created}", "context")
    left = made.partition("# MIGRATE: pedl.Experiment has no counterpart; see ")[2]
    assert left.partition("\n")[2] == created


def test_batch_methods(tmp_path):
    made = rewritten(tmp_path, STANDARD, "context")
    assert method(made, "train_batch") == (
        "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "    inputs, labels = batch\n"
        "    predictions = self.model(inputs)\n"
        "    loss = self.losses(predictions, labels)\n"
        "    self.context.backward(loss)\n"
        "    self.context.step_optimizer(self.opt)\n"
        '    return {"loss": loss}'
    )
    assert "return self.validation_metrics(predictions, labels, loss)" in method(
        made, "evaluate_batch"
    )
    assert "def batch_size" not in made
    assert "def error_rate(" in made


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ('{"loss": predictions.sum()}', '    loss = losses["loss"]\n'),
        ("self.some(predictions)", "losses if isinstance(losses, dict) else"),
    ],
)
def test_losses_of_other_kinds(tmp_path, losses, expected):
    source = STANDARD.replace("torch.nn.functional.nll_loss(predictions, labels)", losses)
    assert expected in method(rewritten(tmp_path, source, "context"), "train_batch")


def test_metrics_of_each_row_become_numbers(tmp_path):
    source = STANDARD.replace("error_rate(predictions, labels)", "predictions.argmax(1) != labels")
    assert "torch.as_tensor(value).float().mean()" in method(
        rewritten(tmp_path, source, "context"), "evaluate_batch"
    )


def test_on_to_lightning(tmp_path):
    made = rewritten(tmp_path, STANDARD)
    assert "determined" not in made
    assert "pedl" not in made
    assert "MIGRATE" not in made
    validation = " ".join(method(made, "validation_step").split())
    assert (
        "validation_metrics(predictions, labels, loss), batch_size=1, sync_dist=True" in validation
    )
    assert method(made, "train_dataloader").endswith("return self.loaders[0]")


def test_functions_of_another_file(tmp_path):
    """The experiment config says which; they are imported."""
    (tmp_path / "data.py").write_text(
        "from pedl.frameworks.pytorch.data import DataLoader\n"
        "def make_two(experiment_config, hparams):\n"
        "    return DataLoader([], 4), DataLoader([], 4)\n"
    )
    (tmp_path / "const.yaml").write_text(
        "hyperparameters: {lr: 0.1, width: 3, scale: 2, clip_grad_val: 0.5}\n"
        "searcher: {name: single, metric: error, max_steps: 1}\n"
        "entrypoints: {trial_class: 'model_def:Trial', data_loaders_function: 'data:make_two'}\n"
    )
    made = rewritten(tmp_path, STANDARD.replace("def make_data_loaders(", "def unused("))
    assert "from data import make_two\n" in made
    assert "make_two(" in method(made, "loaders")
    assert "clip_grad_value_(params, self.hparams.clip_grad_val)" in made
    (data,) = [f for f in migrate([str(tmp_path)], "lightning").files if f.path.name == "data.py"]
    assert data.after.decode().startswith("from torch.utils.data import DataLoader\n")


@pytest.mark.parametrize(
    ("function", "package", "statement"),
    [
        ("net:make_data_loaders", "from .data import make_data_loaders\n", "from .data import"),
        ("net.data:make_data_loaders", "", "from .data import"),
        ("net.trial:make_data_loaders", "", ""),
        ("loaders:make_two", "", "from loaders import make_two\n"),
        ("net.deep.data:make_two", "", "from net.deep.data import make_two\n"),
        ("net:make_data_loaders", "def make_data_loaders(c, h): ...\n", None),
        ("net:make_data_loaders", "", None),
    ],
)
def test_functions_that_a_config_names_in_a_package(function, package, statement, tmp_path):
    net = tmp_path / "net"
    (net / "deep").mkdir(parents=True)
    data, model = STANDARD.split("class Net(")
    (net / "data.py").write_text(data)
    (net / "losses.py").write_text("SCALE = 1\n")
    (net / "__init__.py").write_text(f"{package}from .trial import Trial\n")
    two = data.replace("make_data_loaders", "make_two")
    (tmp_path / "loaders.py").write_text(two)
    (net / "deep/data.py").write_text(two)
    (tmp_path / "look.py").write_text("import loaders\nimport net\nimport net.deep.data\n")
    header = "import pedl\nimport torch\nfrom pedl.frameworks.pytorch import PyTorchTrial\n"
    header = data if statement == "" else header
    trial = f"{header}from .losses import SCALE\n\n\nclass Net({model}"
    (net / "trial.py").write_text(trial.replace("error_rate(predictions, labels)", "SCALE"))
    (tmp_path / "const.yaml").write_text(
        "hyperparameters: {lr: 0.1, width: 3, scale: 2}\n"
        "searcher: {name: single, metric: error, max_steps: 1}\n"
        f"entrypoints: {{trial_class: 'net:Trial', data_loaders_function: '{function}'}}\n"
    )
    files = {file.path: file for file in migrate([str(tmp_path)], "lightning").files}
    made = files[net / "trial.py"].after.decode()
    assert ("# MIGRATE: it has no data" in made) is (statement is None)
    if statement is not None:
        name = function.partition(":")[2]
        assert statement in made and f"{name}(" in method(made, "loaders")


def test_data_that_the_trials_file_has_from_another(tmp_path):
    text = "from pedl.frameworks.pytorch.data import DataLoader\n\n\ndef make(c, h):\n"
    (tmp_path / "loaders.py").write_text(f"{text}    return DataLoader([]), DataLoader([])\n")
    imported = "from loaders import make as make_data_loaders\n\n\nclass Trial("
    source = STANDARD.replace("def make_data_loaders(", "def unused(").replace(
        "class Trial(", imported
    )
    assert "make_data_loaders(" in method(rewritten(tmp_path, source), "loaders")


def test_without_data(tmp_path):
    source = STANDARD.replace("def make_data_loaders(", "def unused(")
    # A package imports the trial, so that the trial's file could not import it.
    (tmp_path / "__init__.py").write_text(
        "from model_def import Trial\ndef make_data_loaders(experiment_config, hparams): ...\n"
    )
    made = rewritten(tmp_path, source, "context")
    assert "# MIGRATE: it has no data: there is no make_data_loaders beside it" in made


def test_annotations_and_spread_parameters(tmp_path):
    source = STANDARD.replace(
        "def make_data_loaders(experiment_config, hparams):",
        "def make_data_loaders(\n    experiment_config: dict, hparams: dict\n) -> tuple:",
    )
    made = rewritten(tmp_path, source, "context")
    header = "    experiment_config: dict, hparams: dict, download_data_dir: str\n) -> tuple:"
    assert header in made


def test_a_data_function_that_is_imported_is_not_imported_twice(tmp_path):
    """A folder need not have the name here by which its files import one another."""
    data, model = STANDARD.split("class Net(")
    (tmp_path / "data.py").write_text(data)
    header = "import pedl\nimport torch\nfrom pedl.frameworks.pytorch import PyTorchTrial\n"
    source = f"{header}from package.data import make_data_loaders\n\n\nclass Net({model}"
    made = rewritten(tmp_path, source.replace("error_rate(predictions, labels)", "0.0"), "context")
    assert made.count("import make_data_loaders") == 1
    assert "make_data_loaders(" in method(made, "loaders")


def test_a_variable_of_the_parameters_name_is_not_set_to_itself(tmp_path):
    asked = "    download_data_dir = pedl.get_download_data_dir()\n"
    lines = f"{asked}    return torch.load(download_data_dir)"
    source = STANDARD.replace(
        '    return torch.load(pedl.get_download_data_dir() + "/rows.pt")', lines
    )
    assert source != STANDARD
    made = rewritten(tmp_path, source, "context")
    assert "download_data_dir = download_data_dir" not in made
    assert "def rows(download_data_dir):\n    return torch.load(download_data_dir)\n" in made


@pytest.mark.parametrize(
    ("package", "own", "imported"),
    [
        (None, "", "from data import download_data, make_data_loaders"),
        ("", "", "from data import download_data, make_data_loaders"),
        ("from .model_def import Net\n", "", "from .data import download_data, make_data_loaders"),
        (None, "from .other import net\n", "from .data import download_data, make_data_loaders"),
        (
            "from .model_def import Net\n",
            "import other\n",
            "from data import download_data, make_data_loaders",
        ),
    ],
)
def test_a_data_function_is_imported_as_the_files_of_a_folder_import_one_another(
    tmp_path, package, own, imported
):
    data, model = STANDARD.split("class Net(")
    (tmp_path / "data.py").write_text(data)
    (tmp_path / "other.py").write_text("net = 1\n")
    if package is not None:
        (tmp_path / "__init__.py").write_text(package)
    header = f"import pedl\nimport torch\n{own}from pedl.frameworks.pytorch import PyTorchTrial\n"
    source = f"{header}\n\nclass Net({model}".replace("error_rate(predictions, labels)", "0.0")
    assert f"\n{imported}\n" in rewritten(tmp_path, source, "context")


SCHEDULED = """
    def create_lr_scheduler(self, optimizer):
        return Wrapper(torch.optim.lr_scheduler.StepLR(optimizer, 2), {0})
"""
WRAPPER = "from pedl.frameworks.pytorch import LRScheduler as Wrapper\n"


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ("True", "STEP_EVERY_BATCH"),
        ("False, True", "STEP_EVERY_EPOCH"),
        ("False, step_every_epoch=True", "STEP_EVERY_EPOCH"),
        ("False", "MANUAL_STEP"),
        # Whatever it is, it is true.
        ("Wrapper.StepMode.STEP_EVERY_EPOCH", "STEP_EVERY_BATCH"),
    ],
)
def test_flags_of_a_scheduler_are_told_by_their_place(flags, mode, tmp_path):
    source = f"{WRAPPER}{STANDARD}{SCHEDULED.format(flags)}"
    made = rewritten(tmp_path, source, "context")
    assert f"step_mode=Wrapper.StepMode.{mode}" in init_of_trial(made)


@pytest.mark.parametrize("options", ["MODES[name]", "options"])
def test_flags_of_a_scheduler_may_be_in_a_dict(options, tmp_path):
    modes = 'MODES = {"rare": {"step_every_epoch": True}, "often": dict(step_every_batch=True)}\n'
    method = (
        "\n    def create_lr_scheduler(self, optimizer):\n"
        '        name = pedl.get_hyperparameter("decay")\n        options = MODES[name]\n'
        "        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n"
        f"        return Wrapper(scheduler, **{options})\n"
    )
    source = f"{WRAPPER}{modes}{STANDARD}{method}"
    made = rewritten(tmp_path, source, "context")
    assert '.get("step_every_batch")' in made
    assert "MIGRATE" not in made and "MIGRATE" not in rewritten(tmp_path, source)
    # Determined had step modes, too, so that these may be meant.
    other = source.replace("MODES = {", 'OTHER = {"step_mode": 1}\nMODES = {')
    assert "# MIGRATE: its LR scheduler is made in a way" in rewritten(tmp_path, other, "context")
    called = source.replace(f"**{options}", "**print(name)")
    assert "# MIGRATE: its LR scheduler is made in a way" in rewritten(tmp_path, called, "context")


@pytest.mark.parametrize("indent", ["", "    "])
def test_its_module_of_loaders_is_determineds_own(indent, tmp_path):
    line = "from pedl.frameworks.pytorch import data as pdata\n"
    start, made = (line, "") if not indent else ("", f"    {line}")
    source = f"{start}def make(rows):\n{made}    return pdata.DataLoader(rows, batch_size=4)\n"
    for to, loaded in (("context", "pdata.DataLoader"), ("lightning", "DataLoader")):
        after = rewritten(tmp_path, source, to)
        assert f"return {loaded}(rows, batch_size=4)\n" in after
        assert "MIGRATE" not in after
        found = "determined import pytorch as pdata" if to == "context" else "torch.utils.data"
        assert found in after
        assert "pedl" not in after


def test_where_no_trial_goes_further_all_files_stay_as_they_were(tmp_path):
    data, _, model = STANDARD.partition("class Net(")
    top = f"import pedl\nimport torch\n{WRAPPER}from data import make_data_loaders\n"
    top += "from pedl.frameworks.pytorch import PyTorchTrial\n\n\nclass Net("
    unknown = SCHEDULED.format("**print()")
    (tmp_path / "data.py").write_text(data)
    (tmp_path / "model_def.py").write_text(top + model + unknown)
    for to in ("context", "lightning"):
        migration = migrate([str(tmp_path)], to)
        for file in migration.files:
            # What nobody uses is imported no longer.
            kept, was = (
                [
                    line
                    for line in text.splitlines()
                    if b"# MIGRATE" not in line and b"import" not in line
                ]
                for text in (file.after, file.before)
            )
            assert kept == was
            assert not file.trials
        assert migration.marks
    # Another one that goes further takes its files with it.
    (tmp_path / "other.py").write_text(
        STANDARD.replace("class Net(", "import data\n\n\nclass Net(")
    )
    migration = migrate([str(tmp_path)], "context")
    assert "other.py" in {file.path.name for file in migration.files if file.trials}
