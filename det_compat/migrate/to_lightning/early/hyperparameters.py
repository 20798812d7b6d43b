"""What a module has in the place of the hyperparameters that a context gave."""

import keyword
from collections.abc import Collection

import libcst as cst

from det_compat.migrate.tree import syntax


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
