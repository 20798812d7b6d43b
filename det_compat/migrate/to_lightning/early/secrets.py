"""Passwords and tokens that a module is given: no checkpoint, and no logger, is to have them.

Which these are is told from their names.
"""

from collections.abc import Iterator

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.parameters import DATA
from det_compat.shared.masking import is_secret_name

_SAVE = "save_hyperparameters"
_SAID = "# checkpoints and loggers get what is secret among these: {}"

_KEPT = "# no checkpoint has what may be secret: load_from_checkpoint() has to be given it\n"


def without_secrets(node: cst.ClassDef, plan: TrialPlan, file: LightningFile) -> cst.ClassDef:
    """A module that saves no secrets with its hyperparameters, where it can do without.

    Args:
        node: the class, as it is in the end.
        plan: what has become of it.
        file: that it is in.
    """
    own = syntax.methods(node)
    init = own.get("__init__")
    names = [*_secrets(node, plan)]
    lines = [] if init is None else [n for n in syntax.body_of(init) if _saves(n)]
    if not names or init is None or len(lines) != 1:
        return node
    if not _is_hidden(node, lines[0], names, file):
        said = cst.EmptyLine(comment=cst.Comment(_SAID.format(", ".join(names))))
        return syntax.with_node(node, lines[0], above(lines[0], [said]))
    me = syntax.self_name(init)
    kept = syntax.statements(_KEPT + "".join(f"{me}.{name} = {name}\n" for name in names))
    body = [
        new
        for line in syntax.body_of(init)
        if syntax.target_of(line) not in {f"{me}.{name}" for name in names}
        for new in ([_without(line, names), *kept] if line is lines[0] else [line])
    ]
    node = syntax.with_node(node, init, syntax.with_body(init, body))

    def asking(attribute: cst.Attribute) -> cst.Attribute:
        owner = attribute.value
        is_one = attribute.attr.value in names and isinstance(owner, cst.Attribute)
        if is_one and isinstance(owner, cst.Attribute) and owner.attr.value == "hparams":
            return attribute.with_changes(value=owner.value)
        return attribute

    return syntax.each(node, cst.Attribute, asking)


def _secrets(node: cst.ClassDef, plan: TrialPlan) -> Iterator[str]:
    """The parameters that are secrets, or a section of the config with some in it."""
    given = plan.arguments
    if not plan.is_single:
        return
    yield from (
        n for n, kind in given.types.items() if kind.startswith("str") and is_secret_name(n)
    )
    texts = (text.evaluated_value for text in syntax.find(node, cst.SimpleString))
    if DATA in given.sections and any(isinstance(t, str) and is_secret_name(t) for t in texts):
        yield DATA


def _saves(line: cst.BaseStatement) -> bool:
    call = syntax.lone_call(line)
    return call is not None and syntax.code(call.func).endswith(f".{_SAVE}")


def _is_hidden(
    node: cst.ClassDef, line: cst.BaseStatement, names: list[str], file: LightningFile
) -> bool:
    """Whether nothing asks the hyperparameters for these but by name, in the class itself."""
    call = syntax.lone_call(line)
    given = [] if call is None else call.args
    is_plain = all(arg.keyword is not None and arg.keyword.value == "ignore" for arg in given)
    asked = [n for n in syntax.find(node, cst.Attribute) if n.attr.value == "hparams"]
    by_name = [n.value for n in syntax.find(node, cst.Attribute) if not hasattr(dict, n.attr.value)]
    is_plain &= all(any(each is other for other in by_name) for each in asked)
    stored = [
        pair
        for found in syntax.find(node, cst.Assign)
        for pair in syntax.pairs(found)
        if isinstance(pair[0], cst.Attribute) and pair[0].attr.value in names
    ]
    is_own = all(
        syntax.code(value) in (to.attr.value, f"{syntax.code(to.value)}.hparams.{to.attr.value}")
        for to, value in stored
        if isinstance(to, cst.Attribute)
    )
    others = (text for name, text in file.elsewhere.texts.items() if name != node.name.value)
    is_asked = any(f'"{n}"' in text or f".{n}" in text for text in others for n in names)
    return is_plain and is_own and not is_asked and not {*names} & {*syntax.methods(node)}


def _without(line: cst.BaseStatement, names: list[str]) -> cst.BaseStatement:
    call = syntax.lone_call(line)
    assert call is not None
    left = [each.value for arg in call.args for each in syntax.find(arg, cst.SimpleString)]
    every = ", ".join([*left, *(f'"{name}"' for name in names)])
    return line.with_deep_changes(
        call,
        args=[
            cst.Arg(syntax.expression(f"[{every}]"), keyword=cst.Name("ignore"), equal=syntax.EQUAL)
        ],
    )
