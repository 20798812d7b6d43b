"""Hyperparameters that a trial changes: Determined gave the one dict that it had."""

import re
from collections.abc import Collection, Mapping, Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import config_use
from det_compat.migrate.tree.symbols import Symbols


def changed_copies(node: cst.ClassDef, symbols: Symbols, texts: Mapping[str, str]) -> list[str]:
    """What to say where a trial changes its hyperparameters, and asks for them elsewhere.

    Determined gave the one dict that it had, a module gives copies.

    Args:
        node: the trial class.
        symbols: of its file.
        texts: of the functions that it may hand them to.
    """
    asked = [syntax.code(call) for call in symbols.calls(node, "get_hparams")]
    if not asked or len(asked) + len(symbols.calls(node, "get_hparam")) < 2:
        return []
    names = _held(node, asked)
    held = "|".join(map(re.escape, {*asked, *names}))
    handed = [
        called
        for call in syntax.find(node, cst.Call)
        if any(syntax.code(arg.value) in {*asked, *names} for arg in call.args)
        and (called := syntax.code(call.func).rpartition(".")[2]) in texts
    ]
    is_handed = any(map(_changes_given, (texts[name] for name in handed)))
    if is_handed or (_changes(node, held) and not _is_one_dict(node, symbols)):
        return [_CHANGED]
    return []


def _changes(node: cst.ClassDef, held: str) -> bool:
    return re.search(_CHANGING.format(rf"(?<!\w)(?:{held})"), syntax.code(node)) is not None


def _is_one_dict(node: cst.ClassDef, symbols: Symbols) -> bool:
    """Whether a trial keeps all hyperparameters where it asks for them: they are the module's.

    It has a copy of them where it does more than to look some up.
    """
    asked = {id(call) for call in symbols.calls(node, "get_hparams")}
    kept = [line for line in syntax.find(node, cst.Assign) if id(line.value) in asked]
    # Others may look one up at once.
    at_once = {id(each.value) for each in syntax.find(node, cst.Attribute)}
    at_once |= {id(each.value) for each in syntax.find(node, cst.Subscript)}
    if not kept or asked - at_once - {id(line.value) for line in kept}:
        return False
    targets = {syntax.code(each.target) for line in kept for each in line.targets}
    return targets == {"self.hparams"} or not config_use(node, symbols).is_open


def changes_the_module(node: cst.ClassDef, symbols: Symbols) -> bool:
    """Whether a trial changes the hyperparameters that its module has, which all of it asks."""
    if not _is_one_dict(node, symbols):
        return False
    asked = [syntax.code(call) for call in symbols.calls(node, "get_hparams")]
    return _changes(node, "|".join(map(re.escape, {*asked, *_held(node, asked)})))


def keeping_given(node: cst.ClassDef, symbols: Symbols) -> cst.FunctionDef | None:
    """The hook that keeps hyperparameters in checkpoints as they were given, where it is needed.

    A module is made anew of what a checkpoint has, and what changed them does so again.
    """
    if not changes_the_module(node, symbols):
        return None
    held = _held(node, [syntax.code(call) for call in symbols.calls(node, "get_hparams")])

    def is_of_held(target: cst.CSTNode) -> bool:
        return isinstance(target, cst.Subscript) and syntax.code(target.value) in held

    sets = [pair for line in syntax.find(node, cst.Assign) for pair in syntax.pairs(line)]
    is_again = any(
        is_of_held(target) and any(syntax.mentions(value, name) for name in held)
        for target, value in sets
    )
    is_again |= any(is_of_held(line.target) for line in syntax.find(node, cst.AugAssign))
    is_again |= any(is_of_held(line.target) for line in syntax.find(node, cst.Del))
    is_again |= any(
        isinstance(call.func, cst.Attribute)
        and syntax.code(call.func.value) in held
        and call.func.attr.value in ("update", "pop", "popitem", "clear")
        for call in syntax.find(node, cst.Call)
    )
    return syntax.method(_KEEPING) if is_again else None


def with_kept(
    made: Sequence[cst.BaseStatement], keeping: cst.FunctionDef | None
) -> list[cst.BaseStatement]:
    """The hooks of a module with this one, which joins another of its name."""
    if keeping is None:
        return [*made]
    is_there = [
        isinstance(each, cst.FunctionDef) and each.name.value == keeping.name.value for each in made
    ]
    if not any(is_there):
        return [*made, keeping]
    joined = ensure_type(made[is_there.index(True)], cst.FunctionDef)
    whole = syntax.with_body(joined, [*syntax.body_of(keeping), *syntax.body_of(joined)])
    return [whole if each is joined else each for each in made]


_KEEPING = """\
def on_save_checkpoint(self, checkpoint):
    # as they were given: a module that is made of them changes them again
    checkpoint["hyper_parameters"] = dict(self.hparams_initial)
"""


def with_copies(node: cst.ClassDef, symbols: Symbols) -> cst.ClassDef:
    """A trial that changes copies of hyperparameters, where Determined's own were changed.

    A module saves its hyperparameters, and one that is made again from a checkpoint needs them as
    they were given.
    """
    calls = {id(call): _CHANGING for call in symbols.calls(node, "get_hparam")}
    # A dict of all hyperparameters is a copy already, but not what it holds.
    calls |= {id(call): _CHANGING_INNER for call in symbols.calls(node, "get_hparams")}
    asked = [syntax.code(call) for call in syntax.find(node, cst.Call) if id(call) in calls]
    text = syntax.code(node) if asked else ""
    for line in [*syntax.find(node, cst.Assign)] if asked else ():
        call, target = line.value, syntax.code(line.targets[0].target)
        if id(call) not in calls or asked.count(syntax.code(call)) > 1:
            continue
        held = "|".join(map(re.escape, {target, *_held(node, [target])}))
        if re.search(calls[id(call)].format(rf"(?<![\w.])(?:{held})"), text):
            made = ensure_type(syntax.expression("copy.deepcopy(x)"), cst.Call)
            copied = made.with_changes(args=[cst.Arg(call)])
            node = syntax.with_node(node, line, line.with_changes(value=copied))
    return node


def _held(node: cst.ClassDef, values: Collection[str]) -> set[str]:
    """What a class keeps these values as, and what it keeps that as in turn."""
    pairs = [pair for line in syntax.find(node, cst.Assign) for pair in syntax.pairs(line)]
    known = [(syntax.code(target), syntax.code(value)) for target, value in pairs]
    found = set[str]()
    while more := {to for to, value in known if value in {*values, *found}} - found:
        found |= more
    return found


def _changes_given(text: str) -> bool:
    """Whether a function changes a dict that it is given."""
    header = re.search(r"\bdef \w+\(([^)]*)\)", text)
    found = re.findall(r"(\w+)\s*(?:[:=,]|$)", header[1] if header else "")
    names = [name for name in found if name != "self"]
    held = "|".join(map(re.escape, names))
    return bool(names) and re.search(_CHANGING.format(rf"(?<![\w.])(?:{held})"), text) is not None


#: What changes a dict.
_CHANGING = (
    r"{0}(\[[^\]\n]*\])+ *(?:[-+*/|]|//|\*\*)?=(?!=)|\bdel {0}\["
    r"|{0}\.(?:update|pop|popitem|setdefault|clear)\("
)
#: What changes a list or dict in a dict.
_CHANGING_INNER = (
    r"{0}\[[^\]\n]*\](?:(?:\[[^\]\n]*\])+ *(?:[-+*/|]|//|\*\*)?=(?!=)"
    r"|\.(?:update|pop|popitem|setdefault|clear|append|extend|insert|remove)\()"
    r"|\bdel {0}\[[^\]\n]*\]\["
)
_CHANGED = (
    "Determined's hyperparameters were one dict, which is changed here: self.hparams stays as it "
    "was, so take what has changed from where it is kept"
)
