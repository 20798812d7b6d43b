"""Hyperparameters that a trial changes: Determined gave the one dict that it had."""

import re
from collections.abc import Collection, Mapping

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
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
    own = _CHANGING.format(rf"(?<!\w)(?:{held})")
    if is_handed or re.search(own, syntax.code(node)):
        return [_CHANGED]
    return []


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
