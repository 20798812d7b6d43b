"""Whether what is moved to the device is a batch, or what torch has made."""

import libcst as cst

from det_compat.migrate.tree import syntax

_STEPS = ("training_step", "validation_step", "train_batch", "evaluate_batch")


def is_batch(data: cst.BaseExpression, function: cst.FunctionDef | None) -> bool:
    """Whether this is the batch that a step has been given."""
    if function is None or function.name.value not in _STEPS:
        return False
    names = [param.name.value for param in function.params.params]
    return len(names) > 1 and syntax.code(data) == names[1]


def is_tensor(data: cst.BaseExpression, function: cst.FunctionDef | None) -> bool:
    """Whether this is what a function of torch's has returned."""
    if isinstance(data, cst.Name) and function is not None:
        values = [
            a.value
            for a in syntax.find(function, cst.Assign)
            if syntax.code(a.targets[0].target) == data.value
        ]
        return any(isinstance(v, cst.Call) and is_tensor(v, None) for v in values)
    return isinstance(data, cst.Call) and syntax.code(data.func).startswith("torch.")
