"""Scripts that make a trial, its context and its Trainer in several places, as those of one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Lines
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import values_of

INIT, TRAINER = "det_compat.pytorch.init", "det_compat.pytorch.Trainer"
#: What made a context to call a trial by hand.
BY_HAND = "det_compat.pytorch.PyTorchTrialContext.from_config"
_RANKS = ("distributed.rank", "distributed.get_rank")
#: The rank of a process in which there is no Trainer yet.
RANK = "rank_zero_only.rank"
IMPORT = "from pytorch_lightning.utilities import rank_zero_only"
_Asking = TypeVar("_Asking", cst.BaseStatement, cst.FunctionDef)
_SIMPLE = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Float)


def in_one_place(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The script with its trial made below ``pytorch.init()``, and no context in its helpers."""
    symbols = file.symbols
    dicts = {n: v[0] for n, v in values_of(tree).items() if len(v) == 1 and type(v[0]) is cst.Dict}
    tree = syntax.transformed(tree, _Entered(symbols, dicts))
    tree = tree.with_changes(body=_entered_at_once(tree.body, symbols, dicts))
    # A helper that other files import stays what it is for them.
    functions = [line.name.value for line in tree.body if isinstance(line, cst.FunctionDef)]
    for name in functions if "*" not in file.asked else ():
        if name in file.asked:
            continue
        tree = _without_factory(tree, name, symbols)
        tree = _without_context(tree, name, file)
    if RANK in tree.code:
        file.imports.new.add(IMPORT)
    return tree


class _Entered(cst.CSTTransformer):
    """Enters each context at once, and leaves out the stacks that nothing else is put on."""

    def __init__(self, symbols: Symbols, dicts: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self._symbols, self._dicts = symbols, dicts

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated.with_changes(body=_entered_at_once(updated.body, self._symbols, self._dicts))

    def leave_With(self, original: cst.With, updated: cst.With) -> Lines:
        updated, name = self._apart(updated), updated.items[0].asname
        is_lone = len(updated.items) == 1 and name is not None
        is_stack = syntax.code(updated.items[0].item).endswith("ExitStack()")
        if name is None or not (is_lone and is_stack):
            return updated
        stack = syntax.code(name.name)
        is_left = stack in syntax.names_in(updated.body)
        if is_left or stack not in syntax.names_in(original.body):
            return updated
        first, *rest = syntax.body_of(updated)
        return cst.FlattenSentinel([above(first, updated.leading_lines), *rest])

    def _apart(self, block: cst.With) -> cst.With:
        """A block of several contexts with that of ``init()`` as one of its own."""
        inits = [i for i, item in enumerate(block.items) if as_init(item.item, self._symbols)]
        if len(inits) != 1 or len(block.items) == 1:
            return block
        cuts, body = [0, inits[0], inits[0] + 1, len(block.items)], block.body
        parts = [block.items[start:end] for start, end in pairwise(cuts) if start < end]
        for part in reversed(parts[1:]):
            body = cst.IndentedBlock([cst.With(syntax.without_commas(part), body)])
        return block.with_changes(items=syntax.without_commas(parts[0]), body=body)


def _text(node: cst.CSTNode, symbols: Symbols) -> str:
    """A name as it stood in the file."""
    symbol = symbols.get(node)
    return syntax.code(node if symbol is None else symbol.original)


def uses_of(node: cst.CSTNode, name: str, symbols: Symbols) -> list[cst.Name]:
    """The names below ``node`` that are this one, or stand for an expression with it."""
    others = [arg.keyword for arg in syntax.find(node, cst.Arg)]
    others += [attribute.attr for attribute in syntax.find(node, cst.Attribute)]
    names = {*syntax.find(node, cst.Name)}.difference(other for other in others if other)
    return [each for each in names if has_name(each, name, symbols)]


def as_init(node: cst.BaseExpression | None, symbols: Symbols) -> cst.Call | None:
    """The expression, if it is a call of ``pytorch.init()``, or of what is entered like it."""
    is_it = isinstance(node, cst.Call) and symbols.path(node.func) in (INIT, BY_HAND)
    return node if is_it and isinstance(node, cst.Call) else None


def has_name(node: cst.Name, name: str, symbols: Symbols) -> bool:
    """Whether a name is this one, or stands for an expression with it."""
    symbol = symbols.get(node)
    return node.value == name if symbol is None else name in syntax.names_in(symbol.original)


def ranked(line: _Asking, context: str, symbols: Symbols) -> _Asking:
    """What asks Lightning for the rank, where no module knows it."""
    return answered(line, context, symbols, _RANKS, RANK)


def answered(
    line: _Asking, context: str, symbols: Symbols, members: Collection[str], text: str
) -> _Asking:
    """What asks for one of these members of a context, as methods, too, with this in its place."""

    def is_asked(node: cst.BaseExpression) -> bool:
        member = symbols.member(node)
        is_it = member is not None and has_name(member[0], context, symbols)
        return is_it and member is not None and member[1] in members

    def asked(node: cst.BaseExpression) -> cst.BaseExpression:
        # Of each there is a method, too, and what it calls has been replaced by then.
        is_called = isinstance(node, cst.Call) and not node.args and syntax.code(node.func) == text
        is_it = isinstance(node, cst.Attribute) and is_asked(node)
        return syntax.expression(text) if is_called or is_it else node

    return syntax.each(syntax.each(line, cst.Attribute, asked), cst.Call, asked)


def given_contexts(tree: cst.Module, symbols: Symbols) -> set[str]:
    """The functions that get a context which stays, below ``with pytorch.init()``."""
    blocks = [
        block
        for block in syntax.find(tree, cst.With)
        if any(as_init(item.item, symbols) for item in block.items)
    ]
    calls = (call for block in blocks for call in syntax.find(block, cst.Call))
    given = (c for c in calls if any(symbols.is_context(arg.value) for arg in c.args))
    return {syntax.code(call.func) for call in given}


def _entered_at_once(
    body: Sequence[cst.BaseStatement], symbols: Symbols, dicts: Mapping[str, cst.BaseExpression]
) -> list[cst.BaseStatement]:
    """``context = init()`` and ``with context as c`` as ``with init() as c``.

    So is a context that is entered for the rest of a block, by an ExitStack, and one that was made
    of a config to call a trial by hand.

    Args:
        body: the statements of a block.
        symbols: of the file.
        dicts: the variables of the file that are set once, to a dict that is written out.
    """
    lines = [*body]
    for index, made in enumerate(lines):
        call, target = _entering(made, symbols), getattr(syntax.simple(made), "targets", [])
        call = call or _made_by_hand(made, lines[index + 1 :], symbols, dicts)
        if call is not None and len(target) == 1:
            rest = cst.IndentedBlock(_entered_at_once(lines[index + 1 :], symbols, dicts))
            item = cst.WithItem(call, cst.AsName(target[0].target))
            comments = getattr(made, "leading_lines", ())
            return [*lines[:index], cst.With([item], rest, leading_lines=comments)]
    for made in body:
        small, call = syntax.simple(made), syntax.call_of(made)
        targets = [t.target for t in small.targets] if isinstance(small, cst.Assign) else []
        name = _text(targets[0], symbols) if len(targets) == 1 else ""
        if call is None or symbols.path(call.func) != INIT or not name.isidentifier():
            continue
        uses = [line for line in lines[lines.index(made) + 1 :] if uses_of(line, name, symbols)]
        entered = uses[0] if len(uses) == 1 else None
        if not isinstance(entered, cst.With) or len(entered.items) != 1:
            continue
        (item,) = entered.items
        is_other = item.asname is not None and _text(item.asname.name, symbols) != name
        if _text(item.item, symbols) == name and not (
            is_other and uses_of(entered.body, name, symbols)
        ):
            given = item.asname or cst.AsName(cst.Name(name))
            changed = entered.with_changes(items=[cst.WithItem(call, given)])
            lines[lines.index(entered)] = changed
            lines.remove(made)
    return lines


def _entering(line: cst.BaseStatement, symbols: Symbols) -> cst.Call | None:
    """The call of ``init()`` in ``context = stack.enter_context(init())``."""
    call = syntax.call_of(line)
    if call is None or len(call.args) != 1 or not syntax.code(call.func).endswith(".enter_context"):
        return None
    return as_init(call.args[0].value, symbols)


def _made_by_hand(
    line: cst.BaseStatement,
    rest: Sequence[cst.BaseStatement],
    symbols: Symbols,
    dicts: Mapping[str, cst.BaseExpression],
) -> cst.Call | None:
    """The call that makes a context of known hyperparameters, which is only handed to calls."""
    call = syntax.call_of(line)
    if call is None or symbols.path(call.func) != BY_HAND:
        return None
    small, config = syntax.simple(line), syntax.argument(call, 0, "config")
    targets = small.targets if isinstance(small, cst.Assign) else ()
    name = _text(targets[0].target, symbols) if len(targets) == 1 else ""
    found = entries(dicts.get(syntax.code(config), config)) if config is not None else {}
    hparams = found.get("hyperparameters")
    hparams = dicts.get(syntax.code(hparams), hparams) if hparams is not None else None
    given = {arg.value for each in rest for arg in syntax.find(each, cst.Arg)}
    uses = {use for each in rest for use in uses_of(each, name, symbols)}
    # A dict among the hyperparameters may be what they were drawn from.
    is_known = isinstance(hparams, cst.Dict) and len([*syntax.find(hparams, cst.Dict)]) == 1
    is_known &= name.isidentifier()
    return call if is_known and "optimizations" not in found and uses <= given else None


def put_back_by_hand(block: cst.With) -> cst.FlattenSentinel[cst.BaseStatement]:
    """The statements that make a context and use it, of a block that has entered it."""
    (item,) = block.items
    name = syntax.code(item.asname.name) if item.asname is not None else ""
    made = syntax.statement(f"{name} = {syntax.code(item.item)}")
    return cst.FlattenSentinel([above(made, block.leading_lines), *syntax.body_of(block)])


def entries(config: cst.BaseExpression) -> dict[str, cst.BaseExpression]:
    """What a dict has that is written out; nothing if it may have more."""
    elements = config.elements if isinstance(config, cst.Dict) else ()
    found = {
        str(each.key.evaluated_value): each.value
        for each in elements
        if isinstance(each, cst.DictElement) and isinstance(each.key, cst.SimpleString)
    }
    return found if len(found) == len(elements) else {}


def _function(tree: cst.Module, name: str) -> cst.FunctionDef | None:
    """The function of this name, if it is called by it alone, with arguments that are all seen."""
    found = [f for f in syntax.find(tree, cst.FunctionDef) if f.name.value == name]
    # What an object has under this name is another.
    others = {id(each.attr) for each in syntax.find(tree, cst.Attribute)}
    uses = [n for n in syntax.find(tree, cst.Name) if n.value == name and id(n) not in others]
    calls = [*_calls(tree, name)]
    is_plain = len(found) == 1 and len(uses) == 1 + len(calls) and not found[0].decorators
    if not is_plain or any(arg.star for call in calls for arg in call.args):
        return None
    params = found[0].params
    plain = cst.Parameters(params=params.params)
    return found[0] if calls and params.deep_equals(plain) else None


def _calls(tree: cst.CSTNode, name: str) -> Iterator[cst.Call]:
    calls = syntax.find(tree, cst.Call)
    return (call for call in calls if isinstance(call.func, cst.Name) and call.func.value == name)


def values_in(tree: cst.Module, asked: Collection[str]) -> dict[str, list[cst.BaseExpression]]:
    """What the variables of a script are set to, with the parameters of its own functions.

    Whatever calls a function that other files have ``asked`` for is not known.
    """
    values = values_of(tree)
    for line in syntax.find(tree, cst.AnnAssign):
        values.setdefault(syntax.code(line.target), []).extend([line.value] if line.value else [])
    for loop in syntax.find(tree, cst.For):
        values.setdefault(syntax.code(loop.target), []).extend(_gone_through(loop.iter))
    every = [param.name.value for param in syntax.find(tree, cst.Param)]
    for node in tree.body if "*" not in asked else ():
        name = node.name.value if isinstance(node, cst.FunctionDef) else ""
        function = _function(tree, name) if name and name not in asked else None
        for index, param in enumerate(function.params.params if function is not None else ()):
            own = param.name.value
            given = [syntax.argument(c, index, own) or param.default for c in _calls(tree, name)]
            known = [value for value in given if value is not None]
            is_one = every.count(own) == 1 and own not in values
            if is_one and len(known) == len(given):
                values[own] = known
    return values


def _gone_through(values: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a loop gives its variable, one after the other; or what it goes through."""
    if isinstance(values, (cst.Tuple, cst.List)):
        return [each.value for each in values.elements]
    owner, _, name = syntax.code(values).rpartition(".")
    return [syntax.expression(f"{owner}[0]") if owner and name == "values()" else values]


def _without_factory(tree: cst.Module, name: str, symbols: Symbols) -> cst.Module:
    """The script with a trial made where a function was called that only makes it."""
    function, calls = _function(tree, name), [*_calls(tree, name)]
    body = syntax.body_of(function) if function is not None else ()
    made = getattr(syntax.simple(body[-1]), "value", None) if body else None
    is_lone = len(body) == 1 + syntax.has_docstring(body) and isinstance(
        syntax.simple(body[-1]), cst.Return
    )
    has_context = len(calls) == 1 and any(symbols.is_context(arg.value) for arg in calls[0].args)
    if function is None or not is_lone or not isinstance(made, cst.Call) or not has_context:
        return tree
    given: dict[str, cst.BaseExpression] = {}
    for index, param in enumerate(function.params.params):
        value = syntax.argument(calls[0], index, param.name.value) or param.default
        uses = uses_of(made, param.name.value, symbols)
        if value is None or (len(uses) != 1 and not isinstance(value, _SIMPLE)):
            return tree
        for use in uses:
            if _text(use, symbols) != param.name.value:
                return tree
            given[use.value] = value
    functions = syntax.find(tree, cst.FunctionDef)
    local = {each for other in functions for each in syntax.local_names(other) | _first(other)}
    if (syntax.names_in(made.func) - {*given}) & local:
        return tree
    # In two steps, since an argument may be called as another parameter.
    for index, old in enumerate(given):
        made = syntax.replaced(made, old, f"__given_{index}__")
    for index, value in enumerate(given.values()):
        made = syntax.replaced(made, f"__given_{index}__", syntax.code(value))
    return _without(syntax.with_node(tree, calls[0], made), name)


def _first(function: cst.FunctionDef) -> set[str]:
    return {param.name.value for param in function.params.params[:1]}


def _without(tree: cst.Module, name: str) -> cst.Module:
    """The file without a function of it."""
    lines = [
        line
        for line in tree.body
        if not (isinstance(line, cst.FunctionDef) and line.name.value == name)
    ]
    return tree.with_changes(body=lines)


def _without_context(tree: cst.Module, name: str, file: LightningFile) -> cst.Module:
    """The script with a function that takes no context, which it only gave to a Trainer or a trial.

    It may ask for the rank, too, of which Lightning is asked.
    """
    symbols, function, calls = file.symbols, _function(tree, name), [*_calls(tree, name)]
    inits = [c for c in syntax.find(tree, cst.Call) if symbols.path(c.func) == INIT]
    # The Trainer must be told of it, and would not know it in a function.
    if function is None or any("aggregation_frequency" in syntax.code(each) for each in inits):
        return tree
    trainers = [c for c in syntax.find(function, cst.Call) if symbols.path(c.func) == TRAINER]
    given = [syntax.argument(c, 1, "context") for c in trainers]
    to_trials = [*_given_alone(function, file)]
    for index, param in enumerate(function.params.params):
        uses = uses_of(function.body, param.name.value, symbols)
        args = [syntax.argument(call, index, param.name.value) for call in calls]
        asking = ranked(function, param.name.value, symbols)
        is_given = sum(any(use is each for each in (*given, *to_trials)) for use in uses)
        is_left = len(uses_of(asking.body, param.name.value, symbols)) > is_given
        if uses and not is_left and all(map(symbols.is_context, args)):
            dropped = [arg for arg in (*args, *(u for u in uses if u in to_trials)) if arg]
            left = _Dropping(param, dropped)
            tree = syntax.transformed(tree, left)
            (old,) = (f for f in syntax.find(tree, cst.FunctionDef) if f.name.value == name)
            tree = syntax.with_node(tree, old.body, syntax.transformed(asking.body, left))
            return _without_context(tree, name, file)
    return tree


def _given_alone(function: cst.FunctionDef, file: LightningFile) -> Iterator[cst.Name]:
    """The contexts that a function gives trials which ask them for no hyperparameters."""
    for call in syntax.find(function, cst.Call):
        plan = file.trials.get(syntax.code(call.func))
        first = call.args[0].value if call.args else None
        if plan is None or not isinstance(first, cst.Name) or len(call.args) == 1:
            continue
        asked = plan.arguments
        needs = asked.types or asked.asks or asked.sections or asked.settings or asked.is_open
        if not needs and plan.accumulation is None and not call.args[0].star:
            yield first


class _Dropping(cst.CSTTransformer):
    """Leaves out a parameter, and the values that it is given."""

    def __init__(self, param: cst.Param, values: Sequence[cst.BaseExpression]) -> None:
        super().__init__()
        self._param = param
        self._values = values

    def leave_Parameters(self, original: cst.Parameters, updated: cst.Parameters) -> cst.Parameters:
        kept = [param for param in updated.params if param is not self._param]
        if len(kept) == len(updated.params):
            return updated
        return updated.with_changes(params=syntax.without_commas(kept))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        kept = [a for a in updated.args if not any(a.value is value for value in self._values)]
        if len(kept) == len(updated.args):
            return updated
        return updated.with_changes(args=syntax.without_commas(kept))
