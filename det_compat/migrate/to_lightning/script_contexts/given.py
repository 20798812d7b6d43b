"""What scripts give a trial in place of its context."""

from collections import Counter
from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.migrate.configs import BATCHES
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.to_lightning.script_contexts.asked import literals
from det_compat.migrate.to_lightning.script_contexts.init_call import Init, by_keyword
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import Arguments


def arguments(plan: TrialPlan, init: Init, given: Sequence[cst.Arg]) -> tuple[str, bool]:
    """What a trial is given in place of its context, and whether it may lack some of that."""
    sections, found = plan.arguments.sections, plan.accumulation
    # A trial that is given more than the context is given its hyperparameters, too.
    more = [] if given else by_keyword(init.hparams)
    lacking, is_open = _lacking(plan, init, given)
    more += lacking
    if init.exp_conf and "experiment_config" in sections:
        more.append(f"experiment_config={init.exp_conf}")
    if init.exp_conf:
        more += [f"{name}={of(init.exp_conf)}" for name, of in plan.arguments.settings.items()]
    if init.exp_conf and "data_config" in sections:
        more.append(f'data_config={init.exp_conf}["data"]')
    if found is not None and str(found.batches) != (init.aggregation or "1"):
        more.append(f"{BATCHES}={init.aggregation or 1}")
    return ", ".join([*(syntax.code(arg) for arg in syntax.without_commas(given)), *more]), is_open


def _lacking(plan: TrialPlan, init: Init, given: Sequence[cst.Arg]) -> tuple[list[str], bool]:
    """The hyperparameters that a trial, which is given some of them, got by its context.

    Whether there may be more is the other one of the two.
    """
    by_name = {arg.keyword.value for arg in given if arg.keyword is not None}
    by_place = [arg for arg in given if arg.keyword is None and not arg.star]
    taken = by_name | {*plan.own.methods.get("__init__", [])[2 : 2 + len(by_place)]}
    if _tells_all(given, init.hparams):
        return [], False
    if plan.arguments.is_open and init.hparams and given:
        if "hparams" in (plan.parameters("__init__") or ()):
            return [], False
        if syntax.code(given[-1].value) == init.hparams:
            return [f"**{init.hparams}"], False
        return _all(plan, init.hparams, given)
    values = _needed(plan.arguments, init.hparams, taken) if given else {}
    # What has a default would have that of the config.
    untold = plan.arguments.asks or any(not values.get(n, "0") for n in plan.arguments.defaults)
    is_open = bool(given) and bool(init.hparams) and untold
    return [f"{name}={value}" for name, value in values.items() if value], is_open


def _all(plan: TrialPlan, hparams: str, given: Sequence[cst.Arg]) -> tuple[list[str], bool]:
    """All hyperparameters that a context had, for a trial that takes any, beside what it is given.

    Whether one of them may have the name of what it takes else is the other one of the two.
    """
    named = {arg.keyword.value: syntax.code(arg.value) for arg in given if arg.keyword}
    own = {name for p in plan.ancestors for name in p.own.methods.get("__init__", ())}
    made = by_keyword(hparams)
    if not any(pair.startswith("**") for pair in made):
        pairs = dict(pair.split("=", 1) for pair in made)
        same = {name for name in pairs if named.get(name) == pairs[name]}
        left = [f"{name}={text}" for name, text in pairs.items() if name not in {*own, *named}]
        return left, not (pairs.keys() & {*own, *named}) <= same
    keys, opened = _opened(syntax.expression(hparams))
    are_shared = any(_asks(arg.value, each) for arg in given for each in opened)
    return made, are_shared or not (plan.arguments.needs | keys).isdisjoint({*own, *named})


def _opened(hparams: cst.BaseExpression) -> tuple[set[str], list[cst.BaseExpression]]:
    """The names that a dict surely has, and what else its names come from."""
    keys, opened = set[str](), list[cst.BaseExpression]()
    for element in hparams.elements if isinstance(hparams, cst.Dict) else ():
        key = element.key if isinstance(element, cst.DictElement) else None
        if isinstance(key, cst.SimpleString):
            keys.add(str(key.evaluated_value))
        else:
            opened.append(element.value if key is None else key)
    return keys, opened if isinstance(hparams, cst.Dict) else [hparams]


def _asks(value: cst.BaseExpression, hparams: cst.BaseExpression) -> bool:
    """Whether what a trial is given may be one of the hyperparameters.

    It is none where it has another key in what they are an item of.
    """
    owner, key = _item(hparams)
    if not key:
        return bool(syntax.names_in(hparams) & syntax.names_in(value))
    others = [each for each in syntax.find(value, cst.Subscript) if _item(each)[0] == owner]
    keys = [_item(each)[1] for each in others]
    names = Counter(name.value for name in syntax.find(value, cst.Name))
    known = Counter(name.value for each in others for name in syntax.find(each.value, cst.Name))
    are_other = key not in keys and "" not in keys
    return not are_other or any(names[n] > known[n] for n in syntax.names_in(hparams))


def _item(value: cst.BaseExpression) -> tuple[str, str]:
    """What a value is an item of, and its key, if that is a text; both are empty if it is none."""
    if not isinstance(value, cst.Subscript) or len(value.slice) != 1:
        return "", ""
    index = value.slice[0].slice
    key = index.value if isinstance(index, cst.Index) else None
    text = str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""
    return syntax.code(value.value), text


def _needed(arguments: Arguments, hparams: str, taken: Collection[str]) -> dict[str, str]:
    """The hyperparameters that a trial needs of those that ``init()`` was given, as text.

    It is ``""`` if it is not told.
    """
    names = [
        name
        for name in arguments.types
        if name not in {*taken, *arguments.settings}
        and (name in arguments.needs or name not in arguments.defaults)
    ]
    values = {name: _hyperparameter(hparams, name) for name in names}
    given = syntax.expression(hparams) if hparams else None
    parts = given.elements if isinstance(given, cst.Dict) else None
    if parts is not None and not any(isinstance(p, cst.StarredDictElement) for p in parts):
        # What is not there was not there before.
        values = {name: value for name, value in values.items() if value}
    return values


def _hyperparameter(hparams: str, name: str) -> str:
    """A hyperparameter of those that ``init()`` was given, as text; ``""`` if it is not told."""
    given = syntax.expression(hparams) if hparams else None
    if isinstance(given, (cst.Name, cst.Attribute, cst.Subscript)):
        return f'{hparams}["{name}"]'
    if isinstance(given, cst.Call):
        # ``vars(args)``
        owner = given.args[0].value if len(given.args) == 1 and not given.args[0].star else None
        is_of = syntax.code(given.func) == "vars" and isinstance(owner, cst.Name)
        return f"{syntax.code(owner)}.{name}" if owner is not None and is_of else ""
    elements = given.elements if isinstance(given, cst.Dict) else ()
    for element in reversed(elements):
        if isinstance(element, cst.StarredDictElement):
            # What is unpacked last may lack it, unless nothing before it could have it.
            is_only = element is elements[0]
            return _hyperparameter(syntax.code(element.value), name) if is_only else ""
        key = element.key if isinstance(element, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString):
            return ""
        if key.evaluated_value == name:
            is_called = any(syntax.find(element.value, cst.Call))
            return "" if is_called else syntax.code(element.value)
    return ""


def _tells_all(given: Sequence[cst.Arg], hparams: str) -> bool:
    """Whether a trial is given, as arguments, each hyperparameter that a context is told."""
    values = {arg.keyword.value: syntax.code(arg.value) for arg in given if arg.keyword}
    known = literals(hparams).items()
    is_same = (values.get(key[1:-1]) == syntax.code(value) for key, value in known)
    return bool(known) and all(is_same)
