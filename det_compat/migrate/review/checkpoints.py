"""Code that reads Determined's checkpoints by their layout, which the migrated code's have not."""

import ast
from collections.abc import Iterator

from det_compat.migrate.review.project import Finding, Text

#: What a checkpoint of Determined has the weights of its models in.
_WEIGHTS = "models_state_dict"
_MESSAGE = (
    f"new checkpoints have no {_WEIGHTS}: their state_dict has the weights, named by attributes of"
    " the module"
)


def of_determined(text: Text) -> Iterator[Finding]:
    """The statements that look up in a checkpoint what only one of Determined has."""
    for node in text.nodes:
        if isinstance(node, ast.Constant) and node.value == _WEIGHTS:
            yield Finding(node.lineno, _MESSAGE)
