"""Callbacks that use what each batch of a validation returned, which Lightning tells one by one."""

import ast
from collections.abc import Iterable, Sequence

import libcst as cst

from det_compat.migrate.line_length import spaced
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.docstrings import with_first

_HOOK = "on_validation_epoch_end"
_START = "on_validation_epoch_start"
_ATTRIBUTE = "validation_outputs"
#: Determined gave NumPy's arrays and numbers, from whichever device.
_BATCH = """\
def on_validation_batch_end(
    self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0
):
    self.validation_outputs.append(
        {
            name: value.cpu().numpy() if isinstance(value, torch.Tensor) else value
            for name, value in outputs.items()
        }
    )
"""
_RESET = f"def {_START}(self, trainer, pl_module):\n    self.{_ATTRIBUTE} = []\n"
#: What changes a list or a dict, which Determined reduced and reported afterwards.
_CHANGING = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update"}


def asks_outputs(nodes: Iterable[ast.ClassDef]) -> bool:
    """Whether any of these callbacks uses what the batches of a validation returned."""
    hooks = (n for node in nodes for n in node.body if isinstance(n, ast.FunctionDef))
    return any(
        isinstance(each, ast.Name) and each.id == hook.args.args[1].arg
        for hook in hooks
        if hook.name == _HOOK and len(hook.args.args) == 2
        for each in ast.walk(ast.Module(hook.body, []))
    )


def using(
    node: cst.ClassDef, others: Sequence[cst.ClassDef], file: LightningFile
) -> tuple[cst.FunctionDef, cst.FunctionDef] | None:
    """The hook of a callback that uses the outputs, and what it is where they are collected.

    None if there is none, or where they cannot be collected as Determined did.
    """
    hook = syntax.methods(node).get(_HOOK)
    if hook is None or len(hook.params.params) != 2 or syntax.has_attribute(node, _ATTRIBUTE):
        return None
    own, given = (param.name.value for param in hook.params.params)
    is_used = given in syntax.names_in(hook.body)
    if not is_used or _changes(hook, given) or any(p.evaluates_whole for p in file.every):
        return None
    # An heir with a hook of its own for the start would not begin anew.
    heirs = [n for n in others if node.name.value in [syntax.code(b.value) for b in n.bases]]
    if any(_START in syntax.methods(heir) for heir in heirs):
        return None
    params = cst.Parameters([hook.params.params[0]])
    outputs = f"{own}.{_ATTRIBUTE}"
    if given in syntax.local_names(hook.with_changes(params=params)):
        made = with_first(hook, f"{given} = {outputs}\n")
    else:
        made = hook.with_changes(body=syntax.replaced(hook.body, given, outputs))
    return hook, made.with_changes(params=params)


def _changes(hook: cst.FunctionDef, given: str) -> bool:
    """Whether a hook may change the outputs, which Determined would have reported so."""
    targets = [target.target for target in syntax.find(hook.body, cst.AssignTarget)]
    targets += [changed.target for changed in syntax.find(hook.body, cst.AugAssign)]
    items = {name for n in syntax.find(hook.body, cst.For) for name in syntax.names_in(n.target)}
    items |= {m for n in syntax.find(hook.body, cst.CompFor) for m in syntax.names_in(n.target)}
    owners = [each.value for each in targets if isinstance(each, cst.Subscript)]
    owners += [
        call.func.value
        for call in syntax.find(hook.body, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CHANGING
    ]
    return any((items | {given}) & syntax.names_in(owner) for owner in owners)


def collecting(node: cst.ClassDef) -> cst.ClassDef:
    """A callback that keeps what the batches of a validation return until its end."""
    own = syntax.methods(node)
    hook = own[_HOOK]
    made = [syntax.method(_BATCH)]
    body: list[cst.BaseStatement] = []
    for line in syntax.body_of(node):
        if line is own.get(_START):
            line = with_first(own[_START], f"{syntax.self_name(own[_START])}.{_ATTRIBUTE} = []\n")
        if line is hook:
            if _START not in own:
                made.insert(0, syntax.method(_RESET))
            body += [syntax.replaced(each, "self", syntax.self_name(hook)) for each in made]
        body.append(line)
    # The blank line above the first method of a class comes with the statement above it.
    return syntax.with_body(node, spaced(body))
