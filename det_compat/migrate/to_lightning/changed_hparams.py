"""Hyperparameters that a trial changes: Determined gave the one dict that it had."""

import re
from collections.abc import Mapping

import libcst as cst

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
    pairs = [pair for line in syntax.find(node, cst.Assign) for pair in syntax.pairs(line)]
    names = {syntax.code(target) for target, value in pairs if syntax.code(value) in asked}
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
_CHANGED = (
    "Determined's hyperparameters were one dict, which is changed here: self.hparams stays as it "
    "was, so take what has changed from where it is kept"
)
