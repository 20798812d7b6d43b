from __future__ import annotations

import textwrap

import pytest

from det_compat.migrate.tree.marks import count
from tests.migrate.rewriting import HEADER, rewritten, trial


def test_what_is_not_known_stays_below_a_comment(tmp_path):
    change = ('return {"error"', 'x = self.context.get_experiment_id()\n        return {"error"')
    made = rewritten(tmp_path, trial(change))
    assert (
        "        # MIGRATE: the context's get_experiment_id has no counterpart; see MIGRATION.md#"
        in made
    )
    assert "        x = self.context.get_experiment_id()\n" in made
    assert count(made) == 1


def test_its_import_stays(tmp_path):
    change = ('return {"error"', 'to_device(batch)\n        return {"error"')
    made = rewritten(tmp_path, "from determined.pytorch import to_device\n" + trial(change))
    assert "from determined.pytorch import to_device\n" in made
    assert "PyTorchTrial" not in made


def test_a_second_run_changes_nothing(tmp_path):
    change = ('return {"error"', 'x = self.context.get_experiment_id()\n        return {"error"')
    first = rewritten(tmp_path, trial(change))
    assert rewritten(tmp_path, first) == first
    whole = rewritten(tmp_path, trial())
    assert rewritten(tmp_path, whole) == whole


def test_functions_import_what_they_still_need(tmp_path):
    script = (
        "import determined as det\nfrom determined import pytorch\n\n\n"
        "def run() -> det.core.Context:\n"
        '    """Train."""\n'
        "    with pytorch.init() as context:\n"
        "        pytorch.Trainer(Trial(context), context).fit(max_length=unknown(), odd=1)\n\n\n"
        "if __name__ == '__main__':\n"
        "    print(det.get_cluster_info().trial)\n"
        "    run()\n"
    )
    made = rewritten(tmp_path, trial() + "\n\n" + script)
    assert made.count("    from determined import pytorch\n") == 1
    assert "def run() -> Any:\n" in made
    assert '    """Train."""\n    from determined import pytorch\n' in made
    assert "if __name__ == '__main__':\n    import determined as det\n" in made
    top = [line for line in made.splitlines() if line.startswith(("import", "from"))]
    assert not any("determined" in line for line in top)
    # A second run changes nothing.
    assert rewritten(tmp_path, made) == made


def test_a_branch_imports_what_only_it_still_needs(tmp_path):
    before = """\
    def restored(number, model):
        if number > 0:
            found = Determined().get_experiment(number)
            if number > 7:
                found = Determined().get_experiment(7)
            model.load_state_dict(found.top_checkpoint().load().state_dict())
        elif number == 0:
            det.import_from_path(str(number))
        return model


    def listed(number):
        if number > 0:
            det.import_from_path(str(number))
        return det.import_from_path
    """
    header = "import determined as det\nfrom determined.experimental import Determined\n"
    made = rewritten(tmp_path, header + trial() + "\n\n" + textwrap.dedent(before))
    assert "    if number > 0:\n        from determined.experimental import Determined\n" in made
    assert made.count("import Determined\n") == 1
    assert "    elif number == 0:\n        import determined as det\n" in made
    assert "def listed(number):\n    import determined as det\n" in made
    assert made.count("import determined as det\n") == 2
    # Where nothing of Determined is asked for, the file runs without it.
    names: dict[str, object] = {}
    exec(made[made.index("def restored") :], names)
    assert names["restored"](-1, "model") == "model"  # type: ignore[operator]
    assert rewritten(tmp_path, made) == made


def test_what_a_call_returns_that_is_asked_at_once(tmp_path):
    source = """\
    from determined import core
    from determined.experimental import Determined

    def load(number):
        core.init()
        return Determined().get_experiment(number).top_checkpoint()
    """
    made = rewritten(tmp_path, source)
    assert "# MIGRATE: determined.experimental.Determined has no counterpart" in made


def test_older_trials_of_several_files_stay_whole(tmp_path):
    (tmp_path / "base.py").write_text(
        "import torch\nimport determined as det\nfrom determined.pytorch import PyTorchTrial\n\n\n"
        "class Base(PyTorchTrial):\n"
        "    def __init__(self, context: det.TrialContext):\n"
        "        self.context = context\n        self.hp = context.get_hparam\n\n"
        "    def optimizer(self, model):\n"
        "        return torch.optim.SGD(model.parameters(), lr=self.hp('lr'))\n\n"
        "    def train_batch(self, batch, model, epoch_idx, batch_idx):\n"
        "        return {'loss': model(batch).sum()}\n"
    )
    heir = (
        "import torch\nfrom base import Base\nfrom determined.pytorch import DataLoader\n\n\n"
        "class Trial(Base):\n"
        "    def build_model(self):\n        return torch.nn.Linear(self.hp('n'), 1)\n\n"
        "    def build_training_data_loader(self):\n        return DataLoader([])\n\n"
        "    def build_validation_data_loader(self):\n        return DataLoader([])\n\n"
        "    def evaluate_batch(self, batch, model):\n        return {'a': model(batch).sum()}\n\n"
        "    def create_lr_scheduler(self, optimizer):\n"
        "        return super().create_lr_scheduler(optimizer)\n"
    )
    made = rewritten(tmp_path, heir)
    assert "# MIGRATE: Trial calls create_lr_scheduler of its base" in made
    assert "        return torch.nn.Linear(self.hp('n'), 1)\n" in made
    assert rewritten(tmp_path, made) == made
    base = (tmp_path / "base.py").read_text()
    assert "class Base(PyTorchTrial):" in rewritten(tmp_path, base, name="base.py")


def test_what_holds_a_part_of_a_context_is_put_back_as_it_was(tmp_path):
    source = """\
    import determined as det

    def main():
        found = det.core.DistributedContext.from_torch_distributed()
        print(det.pytorch.Batch)
        with det.core.init(distributed=found) as core_context:
            return core_context, found.unknown
    """
    made = rewritten(tmp_path, source)
    assert "det.core.init(distributed=found) as" in made
    assert "return core_context, found.unknown\n" in made
    assert rewritten(tmp_path, made) == made


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [
        ("from library import make", True),
        ("from functools import partial as make", False),
        ("def make(context):\n    return 1", False),
        ("", False),
    ],
)
def test_a_context_that_goes_where_nobody_has_looked(tmp_path, line, is_marked):
    change = ('return {"error"', 'x = make(self.context)\n        return {"error"')
    made = rewritten(tmp_path, trial(change, header=f"{line}\n\n\n{HEADER}"))
    said = "make gets this module for the context, and is in none of these files"
    assert (said in made) == is_marked
    assert "x = make(self)\n" in made


@pytest.mark.parametrize(
    ("settings", "is_marked"),
    [
        (
            "class Settings:\n    @classmethod\n    def of(cls, context):\n        return cls()\n",
            False,
        ),
        (
            "class Base:\n    @staticmethod\n    def of(context):\n        return 1\n\n\n"
            "class Settings(Base):\n    pass\n",
            False,
        ),
        ("class Settings:\n    pass\n", True),
    ],
)
def test_a_context_that_goes_to_a_class_of_another_file(tmp_path, settings, is_marked):
    (tmp_path / "settings.py").write_text(settings)
    change = ('return {"error"', 'x = Settings.of(self.context)\n        return {"error"')
    made = rewritten(tmp_path, trial(change, header=f"from settings import Settings\n{HEADER}"))
    assert ("Settings.of gets this module for the context" in made) == is_marked
