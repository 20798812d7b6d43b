"""What scripts ask a context for: the module, once there is one, and what is written out."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.script_contexts.init_call import Init
from det_compat.migrate.to_lightning.script_contexts.one_place import answered, has_name, ranked
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import bound_in

#: What a module answers as its context did.
_ANSWERED = words(
    """
    get_hparam get_hparams get_global_batch_size distributed.get_rank distributed.rank
    distributed.get_local_rank distributed.local_rank distributed.get_size distributed.size
    models device
    """
)
#: What it answers from the start, too.
_ANSWERED_AT_ONCE = words("get_hparam get_hparams get_global_batch_size models")
_LITERALS = (cst.Integer, cst.Float, cst.SimpleString)


def asking_trained(
    body: Sequence[cst.BaseStatement], context: str, trials: Collection[str], symbols: Symbols
) -> list[cst.BaseStatement]:
    """The statements below ``pytorch.init()`` which ask the trial that is made there.

    Before ``fit()``, a module knows its models and hyperparameters, no rank and no device. What
    asks for something else asks the context. Below it, functions that were handed the context get
    the trial.
    """
    body = _with_trainer_first(body, context, symbols)
    trial, lines, is_trained = "", [*body], False
    for index, line in enumerate(body):
        if not (is_trained and trial.isidentifier()):
            lines[index] = line = ranked(line, context, symbols)
        func = syntax.code(getattr(syntax.call_of(line), "func", cst.Pass()))
        if func.rpartition(".")[2] in trials:
            trial = syntax.target_of(line) or ""
        elif trial.isidentifier():
            answered = _ANSWERED if is_trained else _ANSWERED_AT_ONCE
            lines[index] = line = _asking(line, context, trial, answered, symbols)
            if is_trained:
                lines[index] = _handing(line, context, trial, trials, symbols)
        is_trained = is_trained or func.endswith(".fit")
    return lines


def _with_trainer_first(
    body: Sequence[cst.BaseStatement], context: str, symbols: Symbols
) -> list[cst.BaseStatement]:
    """The statements below ``pytorch.init()`` that ask Lightning's Trainer how many processes run.

    It is made before the first of them, if what it is given is known by then.
    """
    makes = [syntax.code(getattr(syntax.call_of(line), "func", cst.Pass())) for line in body]
    at = makes.index("pl.Trainer") if makes.count("pl.Trainer") == 1 else 0
    name = syntax.target_of(body[at]) or ""
    lines = [answered(line, context, symbols, _SIZES, f"{name}.world_size") for line in body]
    asking = [i for i, line in enumerate(body) if not lines[i].deep_equals(line)]
    if "pl.Trainer" not in makes or not name.isidentifier() or not asking or at in asking:
        return [*body]
    if at < asking[0]:
        return lines
    moved = _with_variables(body, asking[0], at)
    if moved is None:
        return [*body]
    first = asking[0]
    kept = [lines[i] for i in range(first, len(lines)) if i not in moved]
    return [*lines[:first], *(lines[i] for i in moved), *kept]


def _with_variables(body: Sequence[cst.BaseStatement], first: int, at: int) -> list[int] | None:
    """The statement at an index, and those behind ``first`` that set its variables, in order.

    It is None if one of them does more.
    """
    moved, bound = [at], {i: bound_in(body[i]) for i in range(first, at)}
    for index in moved:
        names = syntax.names_in(body[index])
        moved += [i for i in bound if i < index and bound[i] & names and i not in moved]
    is_plain = all(
        isinstance(syntax.simple(body[i]), cst.Assign) and not any(syntax.find(body[i], cst.Call))
        for i in moved[1:]
    )
    others = set[str]().union(*(bound[i] for i in bound.keys() - {*moved}))
    is_free = all(others.isdisjoint(syntax.names_in(body[i])) for i in moved)
    return sorted(moved) if is_plain and is_free else None


#: How many processes there are, as an attribute and as a method of a context.
_SIZES = words("distributed.size distributed.get_size")


def _asking(
    line: cst.BaseStatement,
    context: str,
    trial: str,
    answered: Collection[str],
    symbols: Symbols,
) -> cst.BaseStatement:
    def asked(node: cst.Attribute) -> cst.Attribute:
        member, name = symbols.member(node), node
        while isinstance(name.value, cst.Attribute):
            name = name.value
        symbol = symbols.get(name.value)
        if member is None or symbol is None or member[1] not in answered:
            return node
        if not has_name(member[0], context, symbols):
            return node
        here = cst.Name(trial)
        made = symbols.add(replace(symbol, original=here, module=here))
        return node.with_deep_changes(name, value=made)

    return syntax.each(line, cst.Attribute, asked)


def _handing(
    line: cst.BaseStatement,
    context: str,
    trial: str,
    trials: Collection[str],
    symbols: Symbols,
) -> cst.BaseStatement:
    """A statement that hands functions of the project the trial, which is the module they ask."""

    def handed(call: cst.Call) -> cst.Call:
        is_other = syntax.code(call.func).rpartition(".")[2] in trials
        if is_other or symbols.path(call.func) is not None:
            return call
        args = [
            arg.with_changes(value=cst.Name(trial))
            if isinstance(arg.value, cst.Name)
            and symbols.is_context(arg.value)
            and has_name(arg.value, context, symbols)
            else arg
            for arg in call.args
        ]
        return call.with_changes(args=args)

    return syntax.each(line, cst.Call, handed)


def literals(hparams: str) -> dict[str, cst.BaseExpression]:
    """The hyperparameters of a dict that is written out, in which each has a literal.

    The keys are as they are written, and it has none where one of them is not told.
    """
    given = syntax.expression(hparams) if hparams else None
    elements = given.elements if isinstance(given, cst.Dict) else ()
    values: dict[str, cst.BaseExpression] = {
        syntax.code(each.key): each.value
        for each in elements
        if isinstance(each, cst.DictElement) and isinstance(each.value, _LITERALS)
    }
    # What is unpacked, or stands there twice, may be another value.
    return values if len(values) == len(elements) else {}


def told(call: cst.Call, init: Init, symbols: Symbols) -> cst.BaseExpression:
    """The hyperparameters that a context is asked for, where those of ``init()`` can be named."""
    method = symbols.method(call)
    name = syntax.argument(call, 0, "name") if method == "get_hparam" else None
    written = literals(init.hparams).get(syntax.code(name)) if name is not None else None
    if written is not None or not init.is_named:
        return written or call
    if method == "get_hparams" and not call.args:
        return syntax.expression(init.hparams)
    return syntax.expression(f"{init.hparams}[{syntax.code(name)}]") if name is not None else call
