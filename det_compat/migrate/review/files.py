"""Code that reads or writes files as Determined had them, which the migrated code has not."""

import ast
from collections.abc import Iterator

from det_compat.migrate.review.project import Finding, Text

#: What a checkpoint of Determined has the weights of its models in.
_WEIGHTS = "models_state_dict"
_NEW_WEIGHTS = (
    f"new checkpoints have no {_WEIGHTS}: their state_dict has the weights, named by attributes of"
    " the module"
)
#: What was written below it was shown as the run's.
EVENTS = "/tmp/tensorboard"
_NEW_EVENTS = (
    f"Determined looked for TensorBoard's files in {EVENTS}, and Lightning's are in trainer.log_dir"
)


def of_determined(text: Text) -> Iterator[Finding]:
    """The statements that look up in a checkpoint, or write, what only Determined had there."""
    dicts = [node for node in text.nodes if isinstance(node, ast.Dict)]
    # What a project writes itself stays as it was.
    written = {id(key) for each in dicts for key in each.keys}
    for node in text.nodes:
        if not isinstance(node, ast.Constant) or id(node) in written:
            continue
        if node.value == _WEIGHTS:
            yield Finding(node.lineno, _NEW_WEIGHTS)
        elif isinstance(node.value, str) and f"{node.value}/".startswith(f"{EVENTS}/"):
            yield Finding(node.lineno, _NEW_EVENTS)
