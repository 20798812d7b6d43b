from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

CREATED = """\
import argparse

import determined as det
from determined import experimental

import model_def

parser = argparse.ArgumentParser()
parser.add_argument("--test", action="store_true")
args = parser.parse_args()
config = {
    "data": {"url": "here"},
    "hyperparameters": {"lr": det.Constant(value=0.1), "global_batch_size": det.Constant(8)},
    "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 20}},
}
# all of it
experimental.create(trial_def=model_def.Trial, config=config, local=True, test=args.test)
"""
WITH = """\
with pytorch.init(hparams=config["hyperparameters"], exp_conf=config) as context:
    trainer = pytorch.Trainer(model_def.Trial(context), context)
"""


def made(tmp_path, source=CREATED, to="context"):
    return rewritten(tmp_path, source, to, "run.py")


def test_an_experiment_is_trained_where_it_was_created(tmp_path):
    after = made(tmp_path)
    assert "import argparse\n\nfrom determined import pytorch\n\nimport model_def\n" in after
    assert f"# all of it\n{WITH}" in after
    assert 'max_length=pytorch.Batch(config["searcher"]["max_length"]["batches"])' in after
    assert "test_mode=args.test" in after
    assert '{"lr": 0.1, "global_batch_size": 8}' in after
    assert "experimental" not in after
    assert "MIGRATE" not in after


def test_lightning_gets_hyperparameters_data_and_length(tmp_path):
    (tmp_path / "model_def.py").write_text(trial(ASKING))
    after = made(tmp_path, to="lightning")
    assert 'max_steps=config["searcher"]["max_length"]["batches"]' in after
    assert "fast_dev_run=args.test" in after
    given = '**config["hyperparameters"], data_config=config["data"]'
    assert f"trainer.fit(model_def.Trial({given}))" in after
    assert "MIGRATE" not in after


ASKING = (
    "self.context = context\n",
    'self.context = context\n        print(context.get_data_config()["url"])\n',
)


@pytest.mark.parametrize(
    ("space", "drawn"),
    [
        ("det.Double(minval=0.2, maxval=0.8)", "random.uniform(0.2, 0.8)"),
        ("det.Int(1, 4)", "random.randint(1, 4)"),
        ("det.Categorical(vals=[1, 2])", "random.choice([1, 2])"),
        ("det.Log(minval=-3.0, maxval=-1.0, base=2)", "2 ** random.uniform(-3.0, -1.0)"),
        ("det.Log(-3, -1)", "10 ** random.uniform(-3, -1)"),
    ],
)
def test_a_single_trial_draws_what_a_search_would_try(tmp_path, space, drawn):
    after = made(tmp_path, CREATED.replace("det.Constant(value=0.1)", space))
    assert f'"lr": {drawn}' in after
    assert "import random\n" in after
    said = "# each process has to draw the same; another number draws others\n"
    assert f"{said}random.seed(0)\nconfig = {{" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"single"', '"adaptive_asha"'),
        ('{"batches": 20}', '{"records": 20}'),
        ('{"batches": 20}', "length"),
        ("config = {", "config = args.config or {"),
        ('"data": {"url": "here"}', '"optimizations": {"mixed_precision": "O1"}'),
        ('"data": {"url": "here"}', '"records_per_epoch": 8'),
        ("trial_def=model_def.Trial, ", ""),
        ("experimental.create(", "exp_id = experimental.create("),
        ("# all", 'config["searcher"]["name"] = "random"\n# all'),
    ],
)
def test_what_no_script_can_do_is_left_and_marked(tmp_path, old, new):
    source = CREATED.replace(old, new) + "print(exp_id)\n" * ("exp_id" in new)
    after = made(tmp_path, source, "lightning")
    assert "experimental.create has no counterpart" in after
    assert "det.Constant(8)" in after


def test_an_entrypoint_says_what_is_trained(tmp_path):
    source = CREATED.replace("trial_def=model_def.Trial, ", "")
    source = source.replace("import model_def\n", "")
    source = source.replace('"data": {"url"', '"entrypoint": "model_def:Trial", "data": {"url"')
    after = made(tmp_path, source)
    assert "from model_def import Trial\n" in after
    assert "pytorch.Trainer(Trial(context), context)" in after


@pytest.mark.parametrize(
    ("mode", "test_mode"),
    [
        ("experimental.Mode(args.mode)", 'test_mode=args.mode in ("local", "test")'),
        ("experimental.Mode.LOCAL", "test_mode=True"),
        ("experimental.Mode.CLUSTER", ""),
    ],
)
def test_modes_of_the_first_versions(tmp_path, mode, test_mode):
    after = made(tmp_path, CREATED.replace("local=True, test=args.test", f"mode={mode}"))
    assert test_mode in after
    assert ("test_mode" in after) == bool(test_mode)


def test_periods_and_aggregation(tmp_path):
    more = '"min_validation_period": {"epochs": 1}, "optimizations": {"aggregation_frequency": 2}, '
    after = made(tmp_path, CREATED.replace('"data": {"url"', f'{more}"data": {{"url"'))
    assert 'validation_period=pytorch.Epoch(config["min_validation_period"]["epochs"])' in after
    assert 'aggregation_frequency=config["optimizations"]["aggregation_frequency"]' in after


@pytest.mark.parametrize(
    ("lines", "is_known"),
    [
        ("config['min_validation_period'] = {'batches': 5}", True),
        ("config['min_validation_period'] = {'records': 5}", False),
        ("if args.test:\n    config['min_validation_period'] = {'batches': 5}", False),
        ("config['optimizations'] = {'aggregation_frequency': 2}", True),
        ("config['optimizations'] = {'mixed_precision': 'O1'}", False),
        ("config['records_per_epoch'] = 32", False),
    ],
)
def test_what_a_config_is_given_by_its_keys(tmp_path, lines, is_known):
    """Nothing of it was seen, and the script trained without."""
    after = made(tmp_path, CREATED.replace("# all of it", lines))
    assert ("experimental.create" not in after) is is_known
    period = 'validation_period=pytorch.Batch(config["min_validation_period"]["batches"])'
    assert (period in after) is (is_known and "period" in lines)
    assert ("aggregation_frequency=" in after) is (is_known and "optim" in lines)


PEDL = """\
import pedl
from model_def import Trial, make_data_loaders

exp = pedl.Experiment(
    context_directory=".",
    trial_def=Trial,
    make_data_loaders_fn=make_data_loaders,
    configuration={
        "hyperparameters": {"lr": pedl.Constant(value=0.1, name="lr")},
        "searcher": {"name": "single", "metric": "loss", "max_steps": 3},
        "min_validation_period": 1,
    },
)
exp.create()
"""


def test_steps_of_pedl_are_batches(tmp_path):
    after = made(tmp_path, PEDL)
    assert 'max_length=pytorch.Batch(100 * config["searcher"]["max_steps"])' in after
    assert 'validation_period=pytorch.Batch(100 * config["min_validation_period"])' in after
    assert '"hyperparameters": {"lr": 0.1}' in after
    assert "pedl" not in after
    said = PEDL.replace('"min_val', '"batches_per_step": 5, "min_val')
    after = "".join(made(tmp_path, said).split())
    assert 'pytorch.Batch(config["batches_per_step"]*config["searcher"]' in after


def test_a_created_experiment_is_seeded_as_it_was(tmp_path):
    said = CREATED.replace(
        '    "data"', '    "reproducibility": {"experiment_seed": 4},\n    "data"'
    )
    for to in ("context", "lightning"):
        (tmp_path / "model_def.py").write_text(trial())
        after = made(tmp_path, said, to)
        for function in ("random.seed", "np.random.seed", "torch.manual_seed"):
            assert f'\n{function}(config["reproducibility"]["experiment_seed"])\n' in after
        assert "\nimport numpy as np\n" in after and "\nimport torch\n" in after
        assert "MIGRATE" not in after
    assert "seed" not in made(tmp_path)


def test_data_functions_of_another_name_are_not_found_later(tmp_path):
    after = made(tmp_path, PEDL.replace("=make_data_loaders", "=loaders_of_mine"))
    assert "pedl.Experiment has no counterpart" in after


@pytest.mark.parametrize(
    ("slots", "given", "devices"),
    [
        ("2", "", 'config["resources"]["slots_per_trial"]'),
        ("args.slots", "", 'config["resources"]["slots_per_trial"]'),
        ("1", "", "1"),
        ("2", "local=True, test=True", "1"),
    ],
)
def test_slots_are_the_devices_of_a_script(tmp_path, slots, given, devices):
    (tmp_path / "model_def.py").write_text(trial())
    source = CREATED.replace("local=True, test=args.test", given)
    source = source.replace('"data": {', f'"resources": {{"slots_per_trial": {slots}}}, "data": {{')
    after = made(tmp_path, source, "lightning")
    assert f"pl.Trainer(devices={devices}, max_steps=" in " ".join(after.split()).replace("( ", "(")
    assert "torchrun" not in after and "MIGRATE" not in after and "# all of it\n" in after
    said = f"# on {devices} devices: torchrun --nproc_per_node\nwith pytorch.init("
    assert (said in made(tmp_path, source)) is (devices != "1")


LATER = """\
if config.keys() & {
    "min_validation_period",
    "min_checkpoint_period",
    "optimizations",
    "records_per_epoch",
}:
"""
ONE = """\
if config["searcher"]["name"] != "single":
    raise ValueError("this trains one trial, and a search several")
"""


@pytest.mark.parametrize(
    ("change", "may_search"),
    [
        ("config.update(json.loads(args.config))", True),
        ('config["searcher"].update(json.loads(args.config))', True),
        ("config |= json.loads(args.config)", True),
        ("for key in args.keys:\n    config[key] = 1", True),
        ("merged(config, args)", True),
        ("other = config", True),
        ("print(json.dumps(config), config.get('data'))", False),
        ('config["hyperparameters"].update(json.loads(args.config))', False),
        ('config["searcher"]["max_length"] = {"batches": 2}', None),
    ],
)
def test_what_may_make_a_config_a_search_is_asked_at_run_time(tmp_path, change, may_search):
    (tmp_path / "model_def.py").write_text(trial())
    for to, made_of in (("context", "pytorch.Trainer("), ("lightning", "pl.Trainer(")):
        source = CREATED.replace("# all", f"{change}\n# all").replace("local=True, ", "")
        after = made(tmp_path, source, to)
        assert (ONE in after) is bool(may_search)
        assert (LATER in after) is bool(may_search)
        assert (made_of in after) is (may_search is not None)
    devices = 'devices=config.get("resources", {}).get("slots_per_trial", 1) or 1'
    assert (devices in after) is bool(may_search)


def test_a_config_that_may_change_the_batches_of_a_step_is_refused(tmp_path):
    counted = CREATED.replace('"max_length": {"batches": 20}', '"max_steps": 20')
    source = counted.replace("# all", "config.update(more())\n# all").replace("local=True, ", "")
    after = made(tmp_path, source, "lightning")
    assert '    "scheduling_unit",\n    "batches_per_step",\n}:\n' in after
    said = source.replace('"data": {', '"batches_per_step": 5, "data": {')
    assert '    "batches_per_step",\n' not in made(tmp_path, said, "lightning")


def test_configs_of_keywords(tmp_path):
    source = CREATED.replace('"searcher": {"name": "single", ', '"searcher": dict(name="single", ')
    source = source.replace('"max_length": {"batches": 20}}', "max_length=dict(batches=20))")
    source = source.replace('"metric": "loss"', 'metric="loss"')
    assert "pytorch.Batch(config" in made(tmp_path, source)
    whole = """\
import determined as det
import model_def
from determined import experimental

config = dict(
    hyperparameters=dict(lr=det.Constant(0.1), global_batch_size=8),
    searcher=dict(name="single", metric="loss", max_length=dict(epochs=2)),
)
experimental.create(trial_def=model_def.Trial, config=config)
experimental.create(trial_def=model_def.Trial, config=dict(config))
"""
    after = made(tmp_path, whole)
    assert 'max_length=pytorch.Epoch(config["searcher"]["max_length"]["epochs"])' in after
    assert "dict(lr=0.1, global_batch_size=8)" in after
    assert "experimental.create(trial_def=model_def.Trial, config=dict(config))" in after


@pytest.mark.parametrize(
    ("option", "more", "stays"),
    [
        ('"--local"', "", False),
        ('"-l", "--run-here", dest="local"', "", False),
        ('"-l", "--local"', "", False),
        ('"--local"', "print(args.local)", True),
        ('"--local"', "print(vars(args))", True),
        # Nothing has ever asked for it.
        ('"--other"', "", True),
    ],
)
def test_an_option_that_only_the_creation_asked_for_goes(tmp_path, option, more, stays):
    adding = f"parser.add_argument({option})\nargs = "
    source = CREATED.replace("args = ", adding).replace("local=True", "local=args.local")
    after = made(tmp_path, f"{source}{more}\n")
    assert (f"parser.add_argument({option})" in after) is stays
    assert 'parser.add_argument("--test", action="store_true")' in after


@pytest.mark.parametrize(
    ("slots", "change", "told"),
    [
        ("2", "", ","),
        ("1", "", None),
        # What the script is told is known at run time.
        ("1", "config.update(more())", ' if (config.get("resources", {'),
    ],
)
def test_one_device_needs_no_strategy_of_several(tmp_path, slots, change, told):
    model = "self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
    step = "self.context.backward(loss)\n"
    changes = [
        (each, f"{each}        {each}".replace("model =", "more =", 1)) for each in (model, step)
    ]
    (tmp_path / "model_def.py").write_text(trial(*changes))
    resources = f'"resources": {{"slots_per_trial": {slots}}}, "data": {{'
    source = CREATED.replace('"data": {', resources).replace("# all", f"{change}\n# all")
    after = made(tmp_path, source.replace("local=True, ", ""), "lightning")
    _, strategy, rest = after.partition('strategy="ddp_find_unused_parameters_true"')
    assert bool(strategy) is (told is not None)
    assert rest.startswith(told or "")
