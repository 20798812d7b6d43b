"""Reducers of training metrics: apart from those of validations, logged as an epoch ends."""

import builtins
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.optimization.kept import Wrapping
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.to_lightning.reducers.metrics import guarded, log, reset
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.file import Lines
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import VALIDATING, reachable

# The hook that logs them.
_HOOK = "on_train_epoch_end"
_WRAPPING = ("wrap_reducer", "experimental.wrap_reducer")
_PREFIX = "train_"


def apart(
    tree: cst.Module, symbols: Symbols, names: Collection[str], around: Elsewhere
) -> cst.Module:
    """Give training a reducer of its own where one reduces training and validation.

    Determined reset it before each of both. Lightning validates before an epoch of training ends.

    Args:
        tree: the file.
        symbols: its placeholders.
        names: the trial classes from which nothing derives, and which derive from no other.
        around: the code that they import.
    """
    if not symbols.calls(tree, *_WRAPPING):
        return tree
    used = [node.attr.value for node in syntax.find(tree, cst.Attribute)]
    functions = _functions(tree, around)

    def changed(node: cst.ClassDef) -> cst.ClassDef:
        return _apart(node, symbols, used, functions) if node.name.value in names else node

    return syntax.each(tree, cst.ClassDef, changed)


def _functions(tree: cst.Module, around: Elsewhere) -> set[str]:
    """The names that are functions, as those in lower case that are imported mostly are."""
    found = {*dir(builtins), *(node.name.value for node in syntax.find(tree, cst.FunctionDef))}
    for alias in syntax.find(tree, cst.ImportAlias):
        name = alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
        found.update([name] if name.islower() and not around.holds(name) else [])
    return found


def _apart(
    node: cst.ClassDef, symbols: Symbols, used: Sequence[str], functions: Collection[str]
) -> cst.ClassDef:
    own = syntax.methods(node)
    init = own.get("__init__")
    trains, validates = reachable(own, "train_batch"), reachable(own, *VALIDATING)
    made = [*syntax.find(init, cst.SimpleStatementLine)] if init is not None else []
    for line in made:
        call, target = syntax.call_of(line), syntax.target_of(line) or ""
        if init is None or call is None or symbols.method(call) not in _WRAPPING:
            continue
        attribute = target.removeprefix(f"{syntax.self_name(init)}.")
        users = {name for name, method in own.items() if syntax.has_attribute(method, attribute)}
        training = users & {*trains}
        is_shared = bool(training & {*validates}) or not users <= {*trains, *validates, "__init__"}
        # Where it is made under a condition, it may be None before, or else.
        without = [each for each in made if _sets(each, target, "None")]
        # Whatever else knows of it, such as a callback, would know one of the two.
        inside = sum(n.attr.value == attribute for n in syntax.find(node, cst.Attribute))
        here = sum(n.attr.value == attribute for n in syntax.find(init, cst.Attribute))
        is_known = inside == used.count(attribute) and f"{_PREFIX}{attribute}" not in used
        if target == attribute or not training or is_shared or not is_known:
            continue
        methods = {f"{syntax.self_name(init)}.{name}" for name in own}
        lines = _two(line, call, attribute, symbols, {*functions, *methods})
        if lines is None or here != 1 + len(without) or not _is_made_once(init, line):
            continue
        both = {id(line): lines}
        for each in without:
            training_one = syntax.replaced(
                each, target, f"{target[: -len(attribute)]}{_PREFIX}{attribute}"
            )
            both[id(each)] = [each, training_one.with_changes(leading_lines=[])]
        changed = _with_lines(init, both)
        parts = (changed if part is init else part for part in syntax.body_of(node))
        node = syntax.with_body(node, [_training(p, training, attribute) for p in parts])
        return _apart(node, symbols, used, functions)
    return node


def _sets(line: cst.SimpleStatementLine, target: str, value: str) -> bool:
    small = syntax.simple(line)
    if not isinstance(small, cst.Assign) or len(small.targets) > 1:
        return False
    return syntax.target_of(line) == target and syntax.code(small.value) == value


def _is_made_once(init: cst.FunctionDef, line: cst.SimpleStatementLine) -> bool:
    """Whether a statement is one of ``__init__`` itself, or below conditions alone."""
    kinds = (cst.For, cst.While, cst.Try, cst.With, cst.FunctionDef, cst.ClassDef)
    around = (n for kind in kinds for each in syntax.body_of(init) for n in syntax.find(each, kind))
    return all(line is not each for n in around for each in syntax.find(n, cst.SimpleStatementLine))


def _with_lines(
    init: cst.FunctionDef, lines: Mapping[int, Sequence[cst.BaseStatement]]
) -> cst.FunctionDef:
    """The method with some of its statements as others."""

    def made(line: cst.SimpleStatementLine) -> Lines:
        found = lines.get(id(line))
        return line if found is None else cst.FlattenSentinel([*found])

    return syntax.each(init, cst.SimpleStatementLine, made)


def _training(
    line: cst.BaseStatement, methods: Collection[str], attribute: str
) -> cst.BaseStatement:
    if not isinstance(line, cst.FunctionDef) or line.name.value not in methods:
        return line
    me = syntax.self_name(line)
    return syntax.replaced(line, f"{me}.{attribute}", f"{me}.{_PREFIX}{attribute}")


def _two(
    line: cst.BaseStatement,
    call: cst.Call,
    attribute: str,
    symbols: Symbols,
    functions: Collection[str],
) -> list[cst.BaseStatement] | None:
    """The statement for training, and the one for validations; None if nobody can tell them."""
    reducer, name = syntax.argument(call, 0, "reducer"), syntax.argument(call, 1, "name")
    phases = [syntax.argument(call, 2, "for_training"), syntax.argument(call, 3, "for_validation")]
    if reducer is None or {syntax.code(phase) for phase in phases if phase} - {"True"}:
        return None
    # One object cannot reduce both; a function can.
    is_function = isinstance(reducer, cst.Lambda) or (
        isinstance(reducer, (cst.Name, cst.Attribute))
        and not {syntax.code(reducer), syntax.code(reducer).partition(".")[0]}.isdisjoint(functions)
        and syntax.code(reducer).rpartition(".")[2].islower()
    )
    if not isinstance(reducer, cst.Call) and not is_function:
        return None
    inner = (found for arg in getattr(reducer, "args", ()) for found in syntax.find(arg, cst.Call))
    if any(symbols.called(found) is None for found in inner):
        return None  # It may be another one each time.
    text = name.evaluated_value if isinstance(name, cst.SimpleString) else None
    if name is not None and syntax.code(name) != "None" and not isinstance(text, str):
        return None
    training = _only(line.with_changes(leading_lines=[]), call, "for_validation")
    made = syntax.call_of(training)
    if made is not None and text is not None:
        named = syntax.argument(made, 1, "name")
        quoted = json.dumps(f"{_PREFIX}{text!s}", ensure_ascii=False)
        assert named is not None
        training = syntax.with_node(training, named, cst.SimpleString(quoted))
    me = (syntax.target_of(line) or "").removesuffix(attribute)
    training = syntax.replaced(training, f"{me}{attribute}", f"{me}{_PREFIX}{attribute}")
    return [_only(line, call, "for_training"), training]


def _only(line: cst.BaseStatement, call: cst.Call, without: str) -> cst.BaseStatement:
    more = ensure_type(syntax.expression(f"_({without}=False)"), cst.Call)
    # It reduces both if it is told nothing, or that it does.
    given = [arg for arg in call.args if syntax.code(arg.value) != "True"]
    args = [*syntax.without_commas(given), *more.args]
    return syntax.with_node(line, call, call.with_changes(args=args)).deep_clone()


def training_hooks(
    plan: TrialPlan, odd: Collection[str], beside: Iterable[cst.CSTNode]
) -> list[cst.BaseStatement]:
    """The hook that logs what reducers of training metrics alone make of an epoch, if it is free.

    Args:
        plan: of the trial.
        odd: what its reducers are made by of which not every result is a number.
        beside: what else becomes of the trial.
    """
    named = {part.name.value for part in beside if isinstance(part, cst.FunctionDef)}
    if plan.is_mixin or len(plan.ancestors) > 1 or _HOOK in named:
        return []
    both = {reducer.attribute for reducer in plan.own.reducers}
    lines = []
    for reducer in plan.own.training_reducers:
        is_twin = reducer.attribute.removeprefix(_PREFIX) in both and reducer.name is None
        prefix = _PREFIX if is_twin else ""
        logged = log(reducer, reducer.made_by in odd, prefix)
        lines.append(guarded(reducer, f"{logged}\n{reset(reducer)}"))
    text = "\n".join(lines)
    return [syntax.method(f"def {_HOOK}(self):\n{text}\n")] if lines else []


_Methods: TypeAlias = Mapping[str, cst.FunctionDef]


def left_to_log(
    made: cst.ClassDef, wrapped: Iterable[Wrapping], families: Iterable[_Methods]
) -> list[str]:
    """The attributes of reducers of training metrics that the class ``made`` does not log.

    Args:
        made: what has become of the trial.
        wrapped: what the trial wraps.
        families: the methods of the trial, and of each heir, with those of its bases.
    """
    hook = syntax.methods(made).get(_HOOK, cst.Pass())
    used = [own[name] for own in families for name in reachable(own, "train_batch")]
    found = []
    for each in wrapped:
        if each.member not in _WRAPPING:
            continue
        training, validation = (
            syntax.argument(each.call, position, name)
            for position, name in ((2, "for_training"), (3, "for_validation"))
        )
        attribute = each.attribute.partition(".")[0].partition("[")[0]
        is_used = any(syntax.has_attribute(method, attribute) for method in used)
        is_told = validation is not None and syntax.code(validation) == "False"
        is_kept_out = training is not None and syntax.code(training) == "False"
        is_logged = syntax.has_attribute(hook, attribute)
        if not is_kept_out and (is_used or is_told) and not is_logged:
            found.append(attribute)
    return found


def undecided(wrapped: Iterable[Wrapping]) -> list[str]:
    """The attributes of reducers of which the code does not say what metrics they are for."""
    found = []
    for each in wrapped:
        if each.member in _WRAPPING:
            given = (
                syntax.argument(each.call, position, name)
                for position, name in ((2, "for_training"), (3, "for_validation"))
            )
            said = {syntax.code(value) for value in given if value is not None}
            found += [each.attribute] if said - {"True", "False"} else []
    return found


def reset_in_training(
    wrapped: Iterable[Wrapping], own: Mapping[str, cst.FunctionDef]
) -> Iterator[str]:
    """The attributes of reducers that the batches of training reset by themselves."""
    code = "\n".join(syntax.code(own[name]) for name in reachable(own, "train_batch"))
    for each in wrapped:
        if each.member in _WRAPPING and f".{each.attribute}.reset()" in code:
            yield each.attribute
