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
_OLD_WEIGHTS = (
    "a checkpoint of Determined's, which can be read as before; new ones have another form"
)
#: What such a checkpoint is called, and no other.
_NAME = "state_dict.pth"
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
    subscripts = [node for node in text.nodes if isinstance(node, ast.Subscript)]
    old = {id(each.slice) for each in subscripts if _is_of_known_file(each.value, text)}
    for node in text.nodes:
        if not isinstance(node, ast.Constant) or id(node) in written:
            continue
        if node.value == _WEIGHTS:
            is_old = id(node) in old
            said = _OLD_WEIGHTS if is_old else _NEW_WEIGHTS
            yield Finding(node.lineno, said, is_note=is_old)
        elif isinstance(node.value, str) and f"{node.value}/".startswith(f"{EVENTS}/"):
            yield Finding(node.lineno, _NEW_EVENTS)


def _is_of_known_file(node: ast.expr, text: Text) -> bool:
    """Whether something is loaded from a file that is written out, and is Determined's by its name.

    The file stays what it is, whatever new checkpoints are.
    """
    if isinstance(node, ast.Name):
        lines = (line for line in text.nodes if isinstance(line, ast.Assign))
        values = [
            line.value
            for line in lines
            if any(isinstance(to, ast.Name) and to.id == node.id for to in line.targets)
        ]
        return (
            len(values) == 1
            and not isinstance(values[0], ast.Name)
            and (_is_of_known_file(values[0], text))
        )
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("load"):
        return False
    file = node.args[0] if node.args else None
    return isinstance(file, ast.Constant) and str(file.value).endswith(_NAME)
