"""Values of the experiment config that code looks up become hyperparameters of their own.

A module whose trial read the number of epochs in its config wants that number, and no config. What
looks up anything else in the config, or hands it on, is given the config itself.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.scopes import Scope
from det_compat.config import ExperimentConfig
from det_compat.config.flat import KNOWN, PLAIN, Path, flat_name
from det_compat.migrate.configs import configs_of
from det_compat.migrate.to_lightning.returned.hoisting import Resolved
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.symbols import Symbols
from det_compat.shared.masking import is_secret_name

_GETTER = "get_experiment_config"
_SEED: Path = ("reproducibility", "experiment_seed")


@dataclass(frozen=True)
class Setting:
    """A value of the config that is looked up.

    Attributes:
        path: its keys.
        fallback: what it is where the config has none, as text; ``""`` if it must be there.
    """

    path: Path
    fallback: str = ""

    def of(self, config: str) -> str:
        """The lookup in a config, as text."""
        if not self.fallback:
            return config + "".join(f'["{key}"]' for key in self.path)
        *sections, last = self.path
        owner = config + "".join(f'.get("{key}", {{}})' for key in sections)
        return f'{owner}.get("{last}", {self.fallback})'

    def value(self, config: ExperimentConfig) -> Any:
        """What a config has; ``...`` for none."""
        found: Any = config.raw
        for key in self.path:
            found = found.get(key, ...) if isinstance(found, Mapping) else ...
        # The master kept null for what is not given.
        return ... if found is None and self.fallback else found


def with_own_hyperparameters(
    files: Sequence[Resolved], analysis: Analysis
) -> tuple[list[Resolved], dict[str, Setting]]:
    """Files that ask for single values of the config by ``get_hparam``, and these by name.

    Where one of the files does more with the config, or such a name is taken, all stay as they are;
    so they do where a trial has bases or heirs, or is made with more than its context.
    """
    if not any(file.symbols.calls(file.tree, _GETTER, "get_trial_seed") for file in files):
        return [*files], {}
    hierarchy = analysis.inference.hierarchy
    trials = [
        (code.module.source.path, scope)
        for code in analysis.inference.codes
        for scope in code.classes
        if hierarchy.is_trial(scope)
    ]
    if not all(_is_alone(scope, hierarchy) for _, scope in trials):
        return [*files], {}
    configs = [config for path, scope in trials for config in configs_of(path, scope.name)]
    found: dict[str, Setting] = {}
    made: list[Resolved] = []
    for file in files:
        lookups = [*_lookups(file)] if len(file.symbols) else []
        if None in lookups:
            return [*files], {}
        known = [each for each in lookups if each is not None]
        for each in known:
            name = flat_name(each.setting.path)
            if found.setdefault(name, each.setting) != each.setting:
                return [*files], {}
        made.append(replace(file, tree=_replaced(file.tree, known)) if known else file)
    taken = {name for config in configs for name in config.hyperparameters.space}
    is_free = taken.isdisjoint(found) and not any(
        _is_used(file, new.tree, found) for file, new in zip(files, made, strict=True)
    )
    is_plain = all(_is_plain(each, configs) for each in found.values())
    return (made, found) if found and is_free and is_plain else ([*files], {})


def _is_alone(scope: Scope, hierarchy: Hierarchy) -> bool:
    """Whether a trial has neither bases nor heirs in the project, and is made with a context."""
    body = scope.node.body if isinstance(scope.node, ast.ClassDef) else []
    inits = (n for n in body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    given = [len((*n.args.args, *n.args.kwonlyargs)) for n in inits]
    return {*hierarchy.relatives(scope)} <= {scope} and all(number <= 2 for number in given)


def _is_plain(setting: Setting, configs: Sequence[ExperimentConfig]) -> bool:
    if any(map(is_secret_name, setting.path)):
        return False
    values = [setting.value(config) for config in configs]
    return all(each in (..., None) or isinstance(each, PLAIN) for each in values) and (
        bool(configs) or flat_name(setting.path) in KNOWN
    )


def _is_used(file: Resolved, new: cst.Module, names: Collection[str]) -> bool:
    """Whether a file may have one of the names for a hyperparameter, too."""
    before, after = (
        [arg.value for call in file.symbols.calls(tree, "get_hparam") for arg in call.args]
        for tree in (file.tree, new)
    )
    asked = {*after} - {*before}
    asked |= {*_inner_keys(new)}
    texts = (text for text in syntax.find(new, cst.SimpleString) if text not in asked)
    attributes = syntax.find(new, cst.Attribute)
    return any(text.evaluated_value in names for text in texts) or any(
        each.attr.value in names and "hparam" in syntax.code(each.value) for each in attributes
    )


def _inner_keys(tree: cst.Module) -> Iterator[cst.BaseExpression]:
    """The keys of sections in configs that are written out, which are no hyperparameters."""
    for section in syntax.find(tree, cst.DictElement):
        if syntax.code(section.key)[1:-1] != "hyperparameters":
            inner = section.value.elements if isinstance(section.value, cst.Dict) else ()
            yield from (each.key for each in inner if isinstance(each, cst.DictElement))


@dataclass(frozen=True)
class _Lookup:
    """A lookup in the config.

    Attributes:
        node: the expression.
        asking: the context.
        setting: what it looks up.
        kept: the statement that keeps the config for it, if one does.
    """

    node: cst.BaseExpression
    asking: cst.Name
    setting: Setting
    kept: cst.BaseStatement | None = None


def _lookups(file: Resolved) -> Iterator[_Lookup | None]:
    """The lookups in the config; None for each other use of it."""
    symbols, tree = file.symbols, file.tree
    if symbols.held("get_trial_seed") or symbols.held(_GETTER):
        yield None
    for call in symbols.calls(tree, "get_trial_seed"):
        context, _ = symbols.called(call) or (None, "")
        yield _Lookup(call, context, Setting(_SEED, "0")) if context is not None else None
    calls = symbols.calls(tree, _GETTER)
    called = {id(call.func) for call in calls}
    for getter in syntax.find(tree, cst.Attribute):
        member = symbols.member(getter)
        if member is not None and member[1] == _GETTER and id(getter) not in called:
            yield None
    if not calls:
        return
    written = {id(each.target) for each in syntax.find(tree, cst.AssignTarget)}
    written |= {id(each.target) for each in syntax.find(tree, cst.Del)}
    written |= {id(each.target) for each in syntax.find(tree, cst.AugAssign)}
    chains = [*_chains(tree)]
    for call in calls:
        context, _ = symbols.called(call) or (None, "")
        bases, kept = _bases(call, tree, symbols)
        for base in bases:
            chain = next((each for each in chains if each[1] is base), None)
            if context is None or chain is None or id(chain[0]) in written:
                yield None
            else:
                yield _Lookup(chain[0], context, Setting(*chain[2:]), kept)


def _bases(
    call: cst.Call, tree: cst.Module, symbols: Symbols
) -> tuple[list[cst.BaseExpression], cst.BaseStatement | None]:
    """The expressions that are the config which a call asks for, and what keeps it, if it does."""
    for function in syntax.find(tree, cst.FunctionDef):
        for line in syntax.find(function, cst.SimpleStatementLine):
            small, target = syntax.simple(line), syntax.target_of(line)
            if getattr(small, "value", None) is not call or not (target or "").isidentifier():
                continue
            names = [each for each in syntax.find(function, cst.Name) if each.value == target]
            # The first is what is set.
            uses = [each for each in names if each is not getattr(_target(small), "target", None)]
            is_one = len(uses) == len(names) - 1 and bool(uses)
            return ([*uses], line) if is_one else ([call], None)
    return [call], None


def _target(small: cst.BaseSmallStatement | None) -> cst.CSTNode | None:
    return small.targets[0] if isinstance(small, cst.Assign) else small


def _chains(
    tree: cst.Module,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression, Path, str]]:
    """Each longest row of lookups: it, what it starts from, its keys, and its default."""
    every: list[cst.BaseExpression] = [
        *syntax.find(tree, cst.Subscript),
        *syntax.find(tree, cst.Call),
    ]
    steps = {id(each): step for each in every if (step := _step(each)) is not None}
    inner = {id(step[0]) for step in steps.values()}
    for each in every:
        if id(each) not in steps or id(each) in inner:
            continue
        base: cst.BaseExpression = each
        path: list[str] = []
        # Whatever may be missing on the way, the last default is what there is then.
        fallback = steps[id(each)][2]
        while id(base) in steps:
            base, key, _ = steps[id(base)]
            path.insert(0, key)
        yield each, base, tuple(path), fallback


def _step(node: cst.BaseExpression) -> tuple[cst.BaseExpression, str, str] | None:
    """What a key is looked up in, the key, and the default, as text."""
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice if len(node.slice) == 1 else None
        key = index.value if isinstance(index, cst.Index) else None
        return (node.value, text, "") if (text := _text(key)) else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    if node.func.attr.value != "get" or not 0 < len(node.args) < 3:
        return None
    key, *rest = (arg.value for arg in node.args)
    default = syntax.code(rest[0]) if rest else "None"
    try:
        ast.literal_eval(default)
    except (ValueError, SyntaxError):
        return None
    return (node.func.value, text, default) if (text := _text(key)) else None


def _text(node: cst.BaseExpression | None) -> str:
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""


def _replaced(tree: cst.Module, lookups: Sequence[_Lookup]) -> cst.Module:
    replacing = _Replacing(lookups)
    return syntax.transformed(tree, replacing)


class _Replacing(cst.CSTTransformer):
    def __init__(self, lookups: Sequence[_Lookup]) -> None:
        super().__init__()
        self._lookups = {each.node: each for each in lookups}
        self._kept = {each.kept for each in lookups if each.kept is not None}

    def leave_Subscript(
        self, original: cst.Subscript, updated: cst.Subscript
    ) -> cst.BaseExpression:
        return self._asked(original, updated)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        return self._asked(original, updated)

    def _asked(
        self, original: cst.BaseExpression, updated: cst.BaseExpression
    ) -> cst.BaseExpression:
        found = self._lookups.get(original)
        if found is None:
            return updated
        getter = cst.Attribute(found.asking.deep_clone(), cst.Name("get_hparam"))
        text = cst.SimpleString(f'"{flat_name(found.setting.path)}"')
        return cst.Call(getter, [cst.Arg(text)])

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        return cst.RemoveFromParent() if original in self._kept else updated
