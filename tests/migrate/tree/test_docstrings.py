from __future__ import annotations

import textwrap

import pytest

from det_compat.migrate.tree.docstrings import without
from tests.migrate.rewriting import HEADER, TRIAL, method, rewritten, trial

GOOGLE = """Steps.

        Args:
            context: A context
                of the trial.
            batch (Tuple[int, str]): what is trained on
            *epoch_idx (int, optional) - of the
                epoch

        Returns:
            dictionary of metrics

        Raises:
            ValueError: never
        """
GOOGLES = """Steps.

        Args:
            batch (Tuple[int, str]): what is trained on

        Raises:
            ValueError: never
        """


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(GOOGLE, GOOGLES, id="google"),
        pytest.param("Steps.\n\n    Args:\n        context: c\n    ", "Steps.", id="no entry"),
        pytest.param("Steps.\n\n    Returns: metrics", "Steps.", id="closed behind it"),
        pytest.param("Args:\n        context: c\n\n    More.\n    ", "More.", id="first"),
        pytest.param("Returns: metrics", "", id="one line"),
        pytest.param("\n    Returns: metrics\n    ", "\n    ", id="nothing is left"),
        pytest.param("\n    Returns:\n        m\n\n    More.\n", "\n    More.\n", id="below"),
    ],
)
def test_what_is_gone_is_not_documented(text, left):
    assert without(text, {"context", "epoch_idx"}, returns=False) == left


@pytest.mark.parametrize(
    "text",
    [
        "Returns the metrics of context.",
        "Steps.\n\n    Attributes:\n        context: c\n    ",
        # It cannot be told where these end.
        "Args:\n        context: a context\n        of a trial\n        batch the batch\n    ",
        "Args:\n        context: a context\n    of a trial\n    ",
        "Returns:\n    metrics of\n    all\n    ",
        "Returns: metrics of\n    all\n    ",
        "Steps.\n\n    :param context: a context\n    of a trial\n    ",
    ],
)
def test_what_is_not_clear_stays(text):
    assert without(text, {"context"}, returns=False) == text


def test_docstrings_follow_the_methods_of_a_module(tmp_path):
    made = rewritten(tmp_path, HEADER + DOCUMENTED)
    assert method(made, "__init__").splitlines()[1:3] == [
        '    """A trial."""',
        "    super().__init__()",
    ]
    assert "The context" not in made
    assert '"""Train.\n\n        Args:\n            batch: it' in made
    for gone in ("epoch_idx", "batch_idx: index", "metrics of training", "dictionary"):
        assert gone not in made
    assert "Returns:\n            a loader" in made


DOCUMENTED = (
    TRIAL.replace(
        "class Trial(PyTorchTrial):\n",
        "class Trial(PyTorchTrial):\n"
        '    """Trains.\n\n    Args:\n        context: The context\n    """\n\n',
    )
    .replace(
        "        self.context = context\n",
        '        """A trial.\n\n        Args:\n            context: The context.\n        """\n'
        "        self.context = context\n",
    )
    .replace(
        "        loss =",
        '        """Train.\n\n        Args:\n            batch: it\n'
        "            epoch_idx: of it\n\n"
        '        Returns:\n            metrics of training\n        """\n        loss =',
    )
    .replace(
        '        return {"error"',
        '        """Returns: dictionary"""\n        return {"error"',
    )
    .replace(
        "        return DataLoader([], batch_size=4",
        '        """Build.\n\n        Returns:\n            a loader\n        """\n'
        "        return DataLoader([], batch_size=4",
    )
)


SAID = '''\
"""
This example shows how to interact with the Determined PyTorch interface to
build a network.

In `__init__`, the model and optimizer are wrapped with `wrap_model`
and `wrap_optimizer`. This model is single-input.

The methods `train_batch` and `evaluate_batch` define the
forward pass.
"""
'''
RENEWED = '''\
"""
This example shows how to interact with PyTorch Lightning to
build a network.

This model is single-input.

The methods `training_step` and `validation_step` define the
forward pass.
"""
'''
METHOD = '''\
def evaluate_batch(self, batch):
        """
        Calculate metrics for a batch and return them as a dictionary.{}
        {}This method is not necessary if the user overwrites
        evaluate_full_dataset().{}
        """
'''


@pytest.mark.parametrize(
    ("above", "before", "behind", "left"),
    [
        ("", "", "", ""),
        ("\n", "", "", ""),
        ("", "See above. ", "", "        See above.\n"),
        ("\n", "", " Not so.", "\n        Not so.\n"),
        ("\n", "", "\n\n        Not so.", "\n        Not so.\n"),
    ],
)
def test_docstrings_name_what_there_is(above, before, behind, left, tmp_path):
    said = METHOD.format(above, before, behind)
    made = rewritten(tmp_path, SAID + trial(("def evaluate_batch(self, batch):\n", said)))
    assert made.startswith(RENEWED)
    start = "Calculate metrics for a batch and log them.\n"
    assert f'{start}{left}        """\n' in made


def test_what_there_is_stays_in_docstrings(tmp_path):
    said = "wrap_model = wrap_optimizer = None\n\n\nclass Trial"
    made = rewritten(tmp_path, SAID + trial(("class Trial", said)))
    assert "are wrapped with `wrap_model`\nand `wrap_optimizer`." in made


def test_a_trial_is_a_module_in_docstrings(tmp_path):
    said = 'class Trial(PyTorchTrial):\n    """A PyTorchTrial: our Determined trial."""\n\n'
    made = rewritten(tmp_path, trial(("class Trial(PyTorchTrial):\n", said)))
    assert '"""A LightningModule: our LightningModule."""' in made


def test_what_is_said_of_wrapping_goes_with_it(tmp_path):
    said = """\
    This trains with Determined's PyTorch API.

    The PyTorch API supports several models. They should be created and wrapped in the trial
    class's __init__ method. Then it can train.
"""
    made = rewritten(tmp_path, f'"""\n{textwrap.dedent(said)}"""\n{trial()}')
    assert made.startswith(
        '"""\nThis trains with PyTorch Lightning.\n\n'
        "Lightning supports several models. Then it can train.\n"
    )


def test_what_is_said_of_the_platform_goes_with_it(tmp_path):
    said = """\
    This shows the Determined PyTorch Lightning Adapter
    interface. LightningAdapter uses Determined's PyTorch control loop.

    In the new interface, you make optimizers in __init__. By doing so, you are flexible.
    Returns: Determined scheduler object
    Determined will handle .step() if step_every_batch is True. If both are false, you do.
    The data are the wines.
"""
    made = rewritten(tmp_path, f'"""\n{textwrap.dedent(said)}"""\n{trial()}')
    assert made.startswith('"""\nThis shows PyTorch Lightning.\n\nThe data are the wines.\n"""\n')


@pytest.mark.parametrize("said", ["Returns: a Determined DataLoader", "the PEDL's DataLoaders"])
def test_loaders_are_said_to_be_nobodys_in_files_without_trials(said, tmp_path):
    (tmp_path / "model_def.py").write_text(trial())
    text = f'''\
from determined.pytorch import DataLoader


def load():
    """
    {said}
    """
    return DataLoader([])
'''
    made = rewritten(tmp_path, text, name="data.py")
    for word in ("Determined ", "PEDL's "):
        said = said.replace(word, "")
    assert f'    """\n    {said}\n    """\n' in made
