from __future__ import annotations

import pytest

from det_compat.migrate.tree.docstrings import without
from tests.migrate.rewriting import HEADER, TRIAL, method, rewritten

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
