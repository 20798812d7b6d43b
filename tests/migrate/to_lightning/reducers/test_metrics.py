from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from det_compat.shared.importing import load_file
from tests.migrate.rewriting import HEADER, method, rewritten, trial

MEAN = """\
from determined.pytorch import MetricReducer

class Mean(MetricReducer):
    \"\"\"The mean.\"\"\"

    def __init__(self):
        self.reset()

    def reset(self):
        self.values = []

    def update(self, value):
        self.values.append(value)

    def per_slot_reduce(self):
        return self.values

    def cross_slot_reduce(self, per_slot_metrics):
        values = [v for values in per_slot_metrics for v in values]
        return sum(values) / len(values)


"""
WRAPPED = (
    "lr=0.1))\n        self.mean = context.wrap_reducer(Mean(), name='mean', for_training=False)\n"
)


def test_a_reducer_is_a_torchmetric(tmp_path):
    source = rewritten(tmp_path, MEAN + HEADER)
    (tmp_path / "made.py").write_text(source)
    try:
        mean = load_file(tmp_path / "made.py").Mean()
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["made"]
    for value in (1.0, 2.0, 6.0):
        mean.update(value)
    assert mean.compute() == 3.0
    mean.reset()
    mean.update(5.0)
    assert mean.compute() == pytest.approx(5.0)
    assert isinstance(mean, torch.nn.Module)


def test_it_is_logged_after_a_validation(tmp_path):
    made = rewritten(tmp_path, MEAN + trial(("lr=0.1))\n", WRAPPED)))
    assert "self.mean = Mean()\n" in made
    assert method(made, "on_validation_start").endswith("    self.mean.reset()")
    assert method(made, "on_validation_epoch_end").endswith(
        "    self.log('mean', self.mean.compute())"
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_one_device_counts_where_each_goes_through_all_of_the_data(rank, tmp_path):
    whole = "def evaluate_full_dataset(self, loader):\n        self.mean.update(2)\n"
    source = MEAN + trial(
        ("lr=0.1))\n", WRAPPED),
        ("def evaluate_batch(self, batch):\n", f"{whole}        batch = next(iter(loader))\n"),
    )
    hook = method(rewritten(tmp_path, source), "on_validation_epoch_end")
    done = []
    module = SimpleNamespace(
        global_rank=rank,
        log=lambda name, value: done.append((name, value)),
        mean=SimpleNamespace(reset=lambda: done.append("reset"), compute=lambda: 2),
    )
    namespace: dict[str, Any] = {}
    exec(hook, namespace)
    namespace["on_validation_epoch_end"](module)
    assert done == [*(["reset"] if rank else []), ("mean", 2)]


def test_without_a_name_it_has_several_metrics(tmp_path):
    change = ("lr=0.1))\n", WRAPPED.replace("name='mean', ", ""))
    assert "self.log_dict(self.mean.compute())" in rewritten(tmp_path, MEAN + trial(change))


def test_a_function_of_all_values(tmp_path):
    change = (
        "lr=0.1))\n",
        "lr=0.1))\n        self.n = context.wrap_reducer(len, name='n', for_training=False)\n",
    )
    made = rewritten(tmp_path, trial(change))
    assert "self.n = FunctionMetric(len)\n" in made
    assert made.count("class FunctionMetric(torchmetrics.Metric):") == 1
    assert "self.log('n', self.n.compute())" in made


@pytest.mark.parametrize("function", ["np.mean", "functools.partial(max, default=0)", "mean"])
def test_a_function_of_another_module(function, tmp_path):
    line = f"self.n = context.wrap_reducer({function}, name='n', for_training=False)"
    imports = "import functools\nimport numpy as np\nfrom statistics import mean\n"
    made = rewritten(tmp_path, imports + trial(("lr=0.1))\n", f"lr=0.1))\n        {line}\n")))
    assert f"self.n = FunctionMetric({function})\n" in made


def test_the_reducers_of_a_base_are_reset_and_logged_too(tmp_path):
    heir = """

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.more = context.wrap_reducer(len, name="more", for_training=False)
"""
    made = rewritten(tmp_path, MEAN + trial(("lr=0.1))\n", WRAPPED)) + heir)
    made = made[made.index("class Heir") :]
    for hook in ("on_validation_start", "on_validation_epoch_end"):
        assert f"        super().{hook}()\n        self." in made


@pytest.mark.parametrize("updates", ["base", "heir"])
def test_what_a_family_reduces_of_training_is_marked(updates, tmp_path):
    wrapped = "lr=0.1))\n        self.n = context.wrap_reducer(known, name='n')\n"
    heir = (
        "\n\nclass Heir(Trial):\n    def loss_of(self, batch):\n        self.n.update(1)\n"
        "        return self.model(batch).sum()\n"
    )
    lines = "    def loss_of(self, batch):\n        return 0\n\n    def evaluate_batch"
    changes = [("loss = self.model(batch).sum()", "loss = self.loss_of(batch)")]
    if updates == "base":
        lines = lines.replace("return 0", "self.n.update(1)")
        heir = (
            "\n\nclass Heir(Trial):\n    def __init__(self, context):\n"
            "        super().__init__(context)\n"
            "        self.n = context.wrap_reducer(known, name='n')\n"
        )
        wrapped = "lr=0.1))\n"
    changes += [("lr=0.1))\n", wrapped), ("    def evaluate_batch", lines)]
    made = rewritten(tmp_path, trial(*changes) + heir)
    assert "# MIGRATE: what n reduces of training must be logged" in made


@pytest.mark.parametrize(
    ("options", "is_marked"),
    [
        ("", True),
        (", for_validation=False", False),
        (", for_training=False", False),
        (", for_validation=context is None", True),
    ],
)
def test_what_is_reduced_of_training_is_logged_or_marked(options, is_marked, tmp_path):
    wrapped = f"lr=0.1))\n        self.n = context.wrap_reducer(known, name='n'{options})\n"
    updated = "        loss = self.model(batch).sum()\n        self.n.update(1)\n"
    line = "        loss = self.model(batch).sum()\n"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", wrapped), (line, updated)))
    assert ("# MIGRATE: what n reduces of training must be logged" in made) == is_marked
    assert ("# MIGRATE: whether n reduces training" in made) == ("context" in options)


TRAINED = ("        self.context.backward(loss)\n", "        self.mean.update(loss.item())\n")
EVALUATED = ('        return {"error"', '        self.mean.update(1.0)\n        return {"error"')


def shared(*changes, name=', name="mean"'):
    """A trial with a reducer of training and of validation."""
    wrapped = f"lr=0.1))\n        self.mean = context.wrap_reducer(Mean(){name})\n"
    line, update = TRAINED
    return MEAN + trial(("lr=0.1))\n", wrapped), (line, update + line), EVALUATED, *changes)


@pytest.mark.parametrize(
    ("name", "logged"),
    [
        (', name="mean"', 'self.log("train_mean", self.train_mean.compute())'),
        (
            ', name="mean", for_training=True',
            'self.log("train_mean", self.train_mean.compute())',
        ),
        ("", '{f"train_{name}": value for name, value in self.train_mean.compute().items()}'),
    ],
)
def test_training_gets_a_reducer_of_its_own(name, logged, tmp_path):
    made = rewritten(tmp_path, shared(name=name))
    assert "MIGRATE" not in made
    assert "        self.mean = Mean()\n        self.train_mean = Mean()\n" in made
    assert "self.train_mean.update(loss.item())" in method(made, "training_step")
    assert "self.mean.update(1.0)" in method(made, "validation_step")
    hook = method(made, "on_train_epoch_end")
    assert logged in hook
    assert hook.endswith("self.train_mean.reset()")
    assert "train_mean" not in method(made, "on_validation_start")


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [
        ("        self.mean = None\n        if context.get_hparam('m'):\n    ", "", True),
        (
            "        if context.get_hparam('m'):\n    ",
            "        else:\n            self.mean = None\n",
            True,
        ),
        ("        self.mean = Mean()\n        if context.get_hparam('m'):\n    ", "", False),
        ("        for _ in range(2):\n    ", "", False),
    ],
    ids=["none before", "none else", "another before", "loop"],
)
def test_training_gets_one_where_there_may_be_none(before, after, is_known, tmp_path):
    line = '        self.mean = context.wrap_reducer(Mean(), name="mean")\n'
    update = EVALUATED[1].replace(
        "        self", "        if self.mean is not None:\n            self", 1
    )
    change = (line, f"{before}{line}{after}")
    made = rewritten(tmp_path, shared(change, (EVALUATED[1], update)))
    assert ("MIGRATE" not in made) is is_known
    if is_known:
        assert made.count("            self.train_mean = Mean()\n") == 1
        assert made.count("self.train_mean = None\n") == 1
        hook = method(made, "on_train_epoch_end")
        assert hook.count('if getattr(self, "train_mean", None) is not None:') == 1
        assert hook.endswith("        self.train_mean.reset()")


@pytest.mark.parametrize(
    "reducer", ["len", "sum_of", "np.median", "lambda values: values[0]", "self.most"]
)
def test_a_function_reduces_training_and_validations_apart(reducer, tmp_path):
    functions = "import numpy as np\n\n\ndef sum_of(values):\n    return sum(values)\n\n\n"
    own = "    @staticmethod\n    def most(values):\n        return max(values)\n\n"
    loader = "    def build_training_data_loader"
    made = rewritten(tmp_path, functions + shared(("Mean()", reducer), (loader, own + loader)))
    for name in ("mean", "train_mean"):
        assert f"        self.{name} = FunctionMetric({reducer})\n" in made
    assert "self.train_mean.update(loss.item())" in method(made, "training_step")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("reducer", "made_of"),
    [
        pytest.param("mean", "mean", id="a variable of this file"),
        pytest.param("means.mean", "metric_of(means.mean)", id="a variable of a module"),
        pytest.param("average", "metric_of(average)", id="a variable of another file"),
        pytest.param("means.Mean()", "means.Mean()", id="an object of another file"),
        pytest.param("over(2)", "metric_of(over(2))", id="a function that a function makes"),
        pytest.param("Twice()", "metric_of(Twice())", id="an object that is called"),
        pytest.param("Mean.named('a')", "metric_of(Mean.named('a'))", id="a class method"),
    ],
)
def test_what_may_be_a_function_is_told_from_reducers_at_run_time(reducer, made_of, tmp_path):
    named = "    @classmethod\n    def named(cls, name):\n        return cls()\n"
    held = f"{MEAN.rstrip()}\n\n{named}\n\nmean = Mean()\n\n\n"
    (tmp_path / "means.py").write_text(held)
    imports = "import means\nfrom means import mean as average\n"
    others = """\
def over(n):
    def reduce(values):
        return sum(values) / n

    return reduce


class Twice:
    def __call__(self, values):
        return 2 * sum(values)


"""
    source = imports + held + others + trial(("lr=0.1))\n", WRAPPED.replace("Mean()", reducer)))
    made = rewritten(tmp_path, source)
    assert f"self.mean = {made_of}\n" in made
    assert "MIGRATE" not in made
    assert made.count("def metric_of(") == made_of.startswith("metric_of")
    assert "FunctionMetric(torchmetrics.Metric)" in made or made_of == reducer
    (tmp_path / "means.py").unlink()
    if made_of in ("metric_of(over(2))", "metric_of(Twice())", "metric_of(Mean.named('a'))"):
        (tmp_path / "means.py").write_text("mean = Mean = None\n")
        (tmp_path / "made.py").write_text(made)
        namespace = vars(load_file(tmp_path / "made.py"))
        try:
            metric = eval(made_of, namespace)
        finally:
            sys.path.remove(str(tmp_path))
            del sys.modules["made"], sys.modules["means"]
        for value in (1.0, 5.0):
            metric.update(value)
        assert metric.compute() == {"over": 3.0, "Twic": 12.0, "Mean": 3.0}[reducer[:4]]
        metric.reset()
        metric.update(2.0)
        assert metric.compute() == {"over": 1.0, "Twic": 4.0, "Mean": 2.0}[reducer[:4]]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            (
                "    def train_batch",
                "    def note(self):\n        self.mean\n\n    def train_batch",
            ),
            id="a method that nobody is known to call",
        ),
        pytest.param(("Mean(), name", "Mean(make()), name"), id="what may be another one"),
        pytest.param(
            ("class Trial(", "class Base(PyTorchTrial):\n    ...\n\n\nclass Trial(Base, "),
            id="a base",
        ),
    ],
)
def test_a_reducer_that_others_may_know_is_left_to_the_reader(change, tmp_path):
    made = rewritten(tmp_path, shared(change))
    assert "train_mean" not in made
    assert "# MIGRATE: what mean reduces of training must be logged" in made


def test_update_under_another_name(tmp_path):
    made = rewritten(tmp_path, MEAN.replace("def update(", "def add(") + HEADER)
    assert "    update = add\n" in made
    assert "MIGRATE" not in made


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
@pytest.mark.parametrize("adding", [["add", "more"], []])
def test_values_that_are_not_added_by_update(adding, tmp_path):
    both = "def more(self):\n        pass\n\n    def add("
    source = MEAN.replace("def update(", both if adding else "def _add(")
    source = source.replace("return sum(", "return not values or sum(")
    (tmp_path / "made.py").write_text(rewritten(tmp_path, source + HEADER))
    assert "MIGRATE" not in (tmp_path / "made.py").read_text()
    try:
        mean = load_file(tmp_path / "made.py").Mean()
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["made"]
    for name in adding[:1]:
        getattr(mean, name)(3.0)
    assert mean.compute() == (3.0 if adding else True)


def test_a_base_may_add_the_values(tmp_path):
    source = MEAN.replace("def update(", "def _add(").replace(
        "(MetricReducer)", "(B, MetricReducer)"
    )
    base = "class B:\n    def update(self, value):\n        self._add(value)\n\n\n"
    source = source.replace("class Mean", f"{base}class Mean")
    assert "# MIGRATE: a torchmetrics.Metric needs the method update()" in rewritten(
        tmp_path, source + HEADER
    )


def test_methods_of_the_trial_reduce(tmp_path):
    changes = (
        ("lr=0.1))\n", "lr=0.1))\n        self.all = context.wrap_reducer(self.reduce)\n"),
        (
            "    def evaluate_batch",
            "    def reduce(self, values):\n        return {}\n\n    def evaluate_batch",
        ),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "self.all = FunctionMetric(self.reduce)" in made
    assert method(made, "on_validation_start").endswith("    self.all.reset()")


def test_a_reducer_under_a_condition_may_not_be_there(tmp_path):
    before = """\
lr=0.1))
        if context.get_hparam("f1"):
            self.f1 = context.wrap_reducer(Mean(), name="f1")
"""
    after = """\
def on_validation_epoch_end(self):
    if getattr(self, "f1", None) is not None:
        self.log("f1", self.f1.compute())"""
    made = rewritten(tmp_path, MEAN + trial(("lr=0.1))\n", before)))
    assert method(made, "on_validation_epoch_end") == after


def test_a_reducer_of_a_dict_that_may_lack_is_asked_for_there(tmp_path):
    kept = "lr=0.1))\n        self.all = {}\n        if context.get_hparam('mean'):\n            "
    kept += "self.all['mean'] = context.wrap_reducer(Mean(), name='mean')\n"
    made = rewritten(tmp_path, MEAN + trial(("lr=0.1))\n", kept)))
    reset = "    if 'mean' in self.all:\n        self.all['mean'].reset()"
    assert reset in method(made, "on_validation_start")
    assert "self.log('mean', self.all['mean'].compute())" in made


def test_a_reducer_that_is_not_kept_is_left_to_the_reader(tmp_path):
    kept = "lr=0.1))\n        use(context.wrap_reducer(Mean(), name='mean'))\n"
    made = rewritten(tmp_path, MEAN + trial(("lr=0.1))\n", kept)))
    assert "# MIGRATE: what a reducer computes that no attribute keeps must be logged" in made


@pytest.mark.parametrize(
    ("made", "loop", "name"),
    [
        ("f'n_{i}': WRAP(i), name=f'n_{i}')", "name, reducer in self.many.items()", "name"),
        ("i: WRAP(i), name=f'n_{i}')", "i, reducer in self.many.items()", "f'n_{i}'"),
        (
            "f'{i}': WRAP(i), name=str(i))",
            "(i), reducer in zip(range(3), self.many.values())",
            "str(i)",
        ),
        # Two of them may have one key, and the dict has only one of these then.
        ("i % 2: WRAP(i), name=str(i))", "", ""),
    ],
)
def test_reducers_in_a_dict_that_is_made_in_a_loop(made, loop, name, tmp_path):
    made = made.replace("WRAP(i)", "context.wrap_reducer(top(i), for_training=False")
    line = f"lr=0.1))\n        self.many = {{{made} for i in range(3)}}\n"
    top = "def top(i):\n    return lambda values: max(values, default=i)\n\n\n"
    changed = trial(("lr=0.1))\n", line), ("class Trial(", f"{top}class Trial("))
    result = rewritten(tmp_path, changed)
    assert ("what a reducer computes" in result) is (not loop)
    if loop:
        hook = method(result, "on_validation_epoch_end")
        logged = f"self.log_dict(numbers_of({{{name}: reducer.compute()}}))"
        assert hook.endswith(f"for {loop}:\n        {logged}"), hook
        assert "for reducer in self.many.values():" in method(result, "on_validation_start")


@pytest.mark.parametrize("line", ["self.mean.reset()", "self.context.get_hparams()"])
def test_a_reducer_that_training_resets_is_marked(tmp_path, line):
    changes = (
        (
            "        self.opt =",
            "        self.mean = context.wrap_reducer(Mean(), name='mean')\n        self.opt =",
        ),
        (
            '        return {"loss"',
            f'        self.mean.update(1.0)\n        {line}\n        return {{"loss"',
        ),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert ("# MIGRATE: training resets " in made) == ("reset" in line)


def test_a_reducer_of_a_class_that_nobody_has_read_is_marked(tmp_path):
    imports = "from absent import Mean, over\n"
    made = rewritten(tmp_path, imports + trial(("lr=0.1))\n", WRAPPED)))
    said = "# MIGRATE: Mean is in none of these files, and has to be a torchmetrics.Metric"
    assert said in made
    assert method(made, "__init__").endswith("self.mean = Mean()")
    assert "metric_of" not in made
    held = WRAPPED.replace("self.mean =", "mean = Mean()\n        self.mean =")
    held = held.replace("(Mean()", "(mean")
    made = rewritten(tmp_path, imports + trial(("lr=0.1))\n", held)))
    assert f"        {said}" in made and "self.mean = mean\n" in made
    assert "metric_of" not in made
    made = rewritten(tmp_path, imports + trial(("lr=0.1))\n", WRAPPED.replace("Mean()", "over"))))
    assert "MIGRATE" not in made


@pytest.mark.parametrize("decorator", ["dataclass", "dataclasses.dataclass(repr=False, eq=True)"])
def test_a_reducer_may_be_a_dataclass(decorator, tmp_path):
    reducer = (
        f"@{decorator}\nclass Sums(MetricReducer):\n    scale: float = 1.0\n"
        "    seen: list = dataclasses.field(default_factory=list)\n\n"
        "    def reset(self):\n        self.seen = []\n\n"
        "    def update(self, value):\n        self.seen.append(float(value))\n\n"
        "    def per_slot_reduce(self):\n        return dataclasses.astuple(self)\n\n"
        "    def cross_slot_reduce(self, parts):\n"
        "        return sum(scale * sum(seen) for scale, seen in parts)\n\n\n"
    )
    imports = "import dataclasses\nfrom dataclasses import dataclass\n"
    source = trial(
        ("import DataLoader", "import MetricReducer, DataLoader"),
        ("class Trial(", f"{reducer}class Trial("),
        (
            "lr=0.1))\n",
            "lr=0.1))\n        self.sums = context.wrap_reducer(Sums(scale=2.0), 'sums')\n",
        ),
    )
    made = rewritten(tmp_path, imports + source)
    assert "MIGRATE" not in made
    names: dict[str, Any] = {}
    exec(compile(made, "made", "exec"), names)
    sums = names["Trial"](global_batch_size=4).sums
    assert sums in {sums}
    sums.update(3.0)
    assert sums.compute() == 6.0
    sums.reset()
    sums.update(1.5)
    assert sums.compute() == 3.0
    made = rewritten(
        tmp_path, "import attr\n" + imports + source.replace(f"@{decorator}", "@attr.s")
    )
    assert "# MIGRATE: its decorator makes a class that cannot be a torchmetrics.Metric" in made


_KEYED = "        self.many = {}\n        for name in ('a', 'b'):\n"


@pytest.mark.parametrize(
    ("lines", "logged"),
    [
        (
            ["self.many[name] = context.wrap_reducer(Mean(), name=name)"],
            "log(name, reducer.compute())",
        ),
        (
            ["self.many[name] = context.wrap_reducer(Mean(), None if name == 'a' else name)"],
            "log_dict(numbers_of(reducer.compute() if name == 'a' else {name: reducer.compute()}))",
        ),
        (
            ["self.many[name] = context.wrap_reducer(Mean(), name if name != 'a' else None)"],
            "log_dict(numbers_of({name: reducer.compute()} if name != 'a' else reducer.compute()))",
        ),
        (
            ["self.many[name] = context.wrap_reducer(Mean(), name or None)"],
            "log_dict(numbers_of(reducer.compute() if (name or None) is None"
            " else {name or None: reducer.compute()}))",
        ),
        (["other = name * 2", "self.many[name] = context.wrap_reducer(Mean(), other)"], ""),
        (
            [
                "self.many[name] = context.wrap_reducer(Mean(), name)",
                "self.many[name + 'x'] = context.wrap_reducer(Mean(), name * 2)",
            ],
            "",
        ),
    ],
)
def test_reducers_that_a_loop_puts_into_a_dict_are_logged_by_its_keys(lines, logged, tmp_path):
    made = _KEYED + "".join(f"            {line}\n" for line in lines)
    result = rewritten(tmp_path, MEAN + trial(("lr=0.1))\n", f"lr=0.1))\n{made}")))
    assert ("# MIGRATE: what a reducer computes that no" in result) is (not logged)
    if logged:
        hook = "".join(method(result, "on_validation_epoch_end").split()).replace(",)", ")")
        assert hook.endswith(f"forname,reducerinself.many.items():self.{''.join(logged.split())}")
