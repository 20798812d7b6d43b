"""Which generation a trial class belongs to, told from its code.

As ``det_compat.adapters.generations.generation`` tells it from the class itself.
"""

from __future__ import annotations

import ast

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.collect import parameters
from det_compat.analysis.scopes import Scope
from det_compat.catalog.support import home

PEDL_STANDARD = "PEDL's Standard Model Definition"
PEDL = "PEDL"
DETERMINED_0_12 = "Determined 0.12"
CONTEXT = "the context API (Determined 0.13 and later)"
BASE = "a base class of trials"
SCRIPT = "a script with pytorch.init() and pytorch.Trainer"
REFUSED = "not supported"
UNKNOWN = "not known: a base class is not in the tree"

_LOADERS = ("build_training_data_loader", "build_validation_data_loader")
_WRAPPING = {"wrap_model", "wrap_optimizer", "step_optimizer"}
_TRANSITIONAL = {"Model", "Optimizer", "_Model", "_Optimizer", "_step_optimizer"}
_METHODS = {
    PEDL_STANDARD: ("build_model", "losses", "optimizer"),
    PEDL: ("build_model", "optimizer", "train_batch"),
    DETERMINED_0_12: ("build_model", "optimizer", "train_batch", *_LOADERS),
    CONTEXT: ("train_batch", *_LOADERS),
}


class TrialClass:
    """One trial class of the tree, with what it inherits there."""

    def __init__(self, scope: Scope, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._ancestors = hierarchy.ancestors(scope)
        self._scope = scope
        self._bases = hierarchy.determined_bases(scope)

    def defines(self, name: str) -> bool:
        """Whether a method is the user's own."""
        return any(name in ancestor.functions for ancestor in self._ancestors)

    @property
    def generation(self) -> str:
        """One of the constants of this module."""
        if any(home(base) is None for base in self._bases):
            return REFUSED
        if not self._is_whole and self._has_unknown_bases:
            return UNKNOWN
        if not self._is_whole and self._hierarchy.children(self._scope):
            return BASE
        generation = self._by_methods()
        # Determined does not make objects of a class with abstract methods
        is_base = self._missing(generation) and not self._builds_itself(generation)
        return BASE if is_base else generation

    def _by_methods(self) -> str:
        if self.defines("losses") and not self.defines("train_batch"):
            return PEDL_STANDARD
        if not self._is_given_the_model():
            return CONTEXT
        return PEDL if self._is_pedl() else DETERMINED_0_12

    @property
    def problem(self) -> str:
        """What keeps the class from being trained, but for what is refused anyway."""
        generation = self.generation
        if not self.is_known:
            unknown = ", ".join(self._hierarchy.unknown_bases(self._scope))
            return f"its base {unknown} is not in the tree that was read"
        mixed = sorted(self._names_used() & _WRAPPING)
        if generation in (PEDL, DETERMINED_0_12) and mixed and self._is_built():
            return (
                f"mixes generations: build_model, optimizer and a train_batch that is given the "
                f"model are those of Determined 0.12, {', '.join(mixed)} of the context API"
            )
        return ""

    @property
    def is_known(self) -> bool:
        """Whether all that matters of the class is in the tree."""
        return self.generation != UNKNOWN and bool(self._bases)

    @property
    def refused_base(self) -> str | None:
        """The class of Determined it derives from, if that is refused."""
        return next((base for base in self._bases if home(base) is None), None)

    @property
    def _is_whole(self) -> bool:
        return bool(self._train_batches()) or self.defines("losses")

    @property
    def _has_unknown_bases(self) -> bool:
        return bool([*self._hierarchy.unknown_bases(self._scope)])

    def _missing(self, generation: str) -> list[str]:
        names = _METHODS.get(generation, ())
        if generation == DETERMINED_0_12 and not any(map(self.defines, _LOADERS)):
            names = names[:3]
        if self._has_unknown_bases:
            return []
        return [name for name in names if not self.defines(name) and not self._sets(name)]

    def _sets(self, name: str) -> bool:
        return any(
            name in ancestor.variables or name in ancestor.attributes
            for ancestor in self._ancestors
        )

    def _builds_itself(self, generation: str) -> bool:
        some = self.defines("build_model") or self.defines("optimizer")
        used = self._names_used() & (_WRAPPING | _TRANSITIONAL)
        return generation == DETERMINED_0_12 and (not some or bool(used))

    def _train_batches(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        found = (a.functions.get("train_batch") for a in self._ancestors)
        nodes = (scope.node for scope in found if scope is not None)
        return [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def _is_given_the_model(self) -> bool:
        nodes = self._train_batches()
        if not nodes:
            return False
        arguments = nodes[0].args
        positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        required = positional[: len(positional) - len(arguments.defaults)]
        if "model" in (*required, *(a.arg for a in arguments.kwonlyargs)):
            return True
        takes_anything = arguments.kwarg is not None and "epoch_idx" not in positional
        return takes_anything and self._is_built() and not self._names_used() & _WRAPPING

    def _is_built(self) -> bool:
        return self.defines("build_model") and self.defines("optimizer")

    def _is_pedl(self) -> bool:
        if any(base.startswith("pedl.") for base in self._bases):
            return True
        parameter = self._init_parameter()
        if parameter not in (None, "hparams"):
            return False
        return not all(map(self.defines, _LOADERS))

    def _init_parameter(self) -> str | None:
        for ancestor in self._ancestors:
            init = ancestor.functions.get("__init__")
            if init is not None and isinstance(init.node, ast.FunctionDef):
                names = [argument.arg for argument in parameters(init.node)]
                return names[1] if len(names) > 1 else None
        return None

    def _names_used(self) -> set[str]:
        nodes = (n for a in self._ancestors if a.node for n in ast.walk(a.node))
        return {
            n.attr if isinstance(n, ast.Attribute) else n.id
            for n in nodes
            if isinstance(n, (ast.Attribute, ast.Name))
        }


def described(trial: TrialClass) -> str:
    """The generation, and for what is not supported the class it derives from."""
    base = trial.refused_base
    return trial.generation if base is None else f"{base}: {REFUSED}"
