"""What a module has in the place of the hyperparameters that a context gave."""

import keyword
from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import is_init_of_next
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import Arguments
from det_compat.migrate.tree.symbols import Symbols

#: What LightningCLI adds to hyperparameters: a run that goes on makes the module by these.
OF_CLI = ("_class_path", "_instantiator")
_DICT = "hparams"


def plain_dict(hparams: cst.BaseExpression, sections: Collection[str]) -> cst.BaseExpression:
    """The hyperparameters of a module as Determined gave them, where other code gets hold of them.

    A module has them in a subclass of dict, with the sections of the config beside them.
    """
    text = syntax.code(hparams)
    return syntax.expression(_filtered(text, sections) if sections else f"dict({text})")


def _filtered(text: str, sections: Collection[str]) -> str:
    return f"{{{' '.join(_comprehension(text, sections))}}}"


def _comprehension(text: str, sections: Collection[str]) -> tuple[str, str, str]:
    names = [f'"{name}"' for name in sorted(sections)]
    condition = f"!= {names[0]}" if len(names) == 1 else f"not in ({', '.join(names)})"
    return "name: value", f"for name, value in {text}.items()", f"if name {condition}"


def hyperparameters(sections: Collection[str]) -> cst.FunctionDef:
    """The property of a module that has its hyperparameters without the sections of the config."""
    parts = _comprehension("self.hparams", sections)
    made = " ".join(parts) if len(sections) == 1 else "\n        ".join(("", *parts)) + "\n    "
    return syntax.method(f"@property\ndef {HYPERPARAMETERS}(self):\n    return {{{made}}}\n")


#: The name of that property.
HYPERPARAMETERS = "hyperparameters"


#: The methods of a dict that give all that is in it.
OF_ALL = words("copy items keys values")


class WithoutOthers(cst.CSTTransformer):
    """It has code use ``plain`` in the place of its hparams, other than to look one up.

    Where these have attributes, ``wrapper`` makes a dict of ``plain`` that has them, too.
    """

    def __init__(self, plain: cst.BaseExpression, wrapper: str = "") -> None:
        super().__init__()
        self._plain, self._made = plain, plain
        if wrapper:
            self._made = syntax.expression(f"{wrapper}({syntax.code(plain)})")
        self._left, self._bare = set[cst.CSTNode](), set[cst.CSTNode]()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        (self._bare if node.attr.value in OF_ALL else self._left).add(node.value)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        self._left.add(node.value)

    def visit_ComparisonTarget(self, node: cst.ComparisonTarget) -> None:
        if isinstance(node.operator, (cst.In, cst.NotIn)):
            self._left.add(node.comparator)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._left.add(node.target)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.star:
            self._bare.add(node.value)

    def visit_StarredDictElement(self, node: cst.StarredDictElement) -> None:
        self._bare.add(node.value)

    def visit_StarredElement(self, node: cst.StarredElement) -> None:
        self._bare.add(node.value)

    def visit_DictComp(self, node: cst.DictComp) -> bool:
        return syntax.code(node) != syntax.code(self._plain)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        if original_node in self._left or syntax.code(original_node) != "self.hparams":
            return updated_node
        return self._plain if original_node in self._bare else self._made


def of_hyperparameters(module: str, call: cst.Call, *, is_tried: bool) -> cst.BaseExpression:
    """What a module has in the place of ``context.get_hparam(...)``."""
    name = syntax.argument(call, 0, "name")
    if name is None:
        return call
    is_named = isinstance(name, cst.SimpleString) and not is_tried
    text = str(name.evaluated_value) if isinstance(name, cst.SimpleString) else ""
    # A method of dicts has its name first.
    is_named &= text.isidentifier() and not keyword.iskeyword(text) and not hasattr(dict, text)
    if is_named:
        return syntax.expression(f"{module}.hparams.{text}")
    return syntax.expression(f"{module}.hparams[{syntax.code(name)}]")


def takes_dict(arguments: Arguments, names: Collection[str]) -> bool:
    """Whether an ``__init__`` with these parameters takes all hyperparameters in one of them.

    A trial for Determined's Trainer may be given them so, beside the context.
    """
    return arguments.is_open and _DICT in names


def places_of_dict(plan: TrialPlan) -> list[str] | None:
    """The parameters of the next ``__init__`` that takes such a dict; None if it takes none."""
    for each in plan.ancestors[1:]:
        if not each.is_mixin and "__init__" in each.own.methods:
            names = each.own.methods["__init__"][1:]
            return names if takes_dict(each.arguments, names) else None
    return None


def with_dict(call: cst.Call, places: Sequence[str], symbols: Symbols) -> list[cst.Arg]:
    """The arguments for a base that takes hyperparameters in a dict, which all of them are here."""
    args = call.args if is_init_of_next(call) else call.args[1:]
    plain = [arg for arg in args if arg.keyword is None and not arg.star]
    told = {*places[: len(plain)], *(arg.keyword.value for arg in args if arg.keyword is not None)}
    asking = symbols.calls(call, "get_hparams")
    made = [
        arg.with_changes(value=cst.Name(_DICT)) if arg.value in asking else arg
        for arg in call.args
        if not symbols.is_context(arg.value)
    ]
    if _DICT not in told and not any(arg.star for arg in args):
        made.append(cst.Arg(cst.Name(_DICT), cst.Name(_DICT), equal=syntax.EQUAL))
    return syntax.without_commas(made)
