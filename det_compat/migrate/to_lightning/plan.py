"""What is to become of the trial classes of a file, before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from det_compat.migrate.to_lightning.automatic import is_automatic
from det_compat.migrate.to_lightning.batch_transfer import stays_put
from det_compat.migrate.tree.file import Schedule, TrialPlan, WrappedReducer
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import argument, body_of, code, find, methods
from det_compat.migrate.tree.wrapping import Wrapping, wrappings

_ARGUMENTS = {
    "get_data_config": "data_config",
    "get_experiment_config": "experiment_config",
    "get_trial_seed": "experiment_config",
}
_MODES = "det_compat.pytorch.LRScheduler.StepMode."
_BATCH_SIZES = ("get_per_slot_batch_size", "get_global_batch_size")


def plan_of(node: cst.ClassDef, symbols: Symbols) -> TrialPlan:
    """What becomes of a class, but for what depends on other classes."""
    plan = TrialPlan(node.name.value)
    own = methods(node)
    plan.methods = {name: _parameters(method) for name, method in own.items()}
    _add_hparams(node, symbols, plan)
    for method in own.values():
        _add_wrapped(method, symbols, plan)
    plan.calls_init = any(
        "__init__" in code(call.func) for call in find(own.get("__init__", cst.Pass()), cst.Call)
    )
    plan.stays = stays_put(node, symbols)
    plan.early = _reachable(own, "__init__")
    if "train_batch" in own:
        plan.logged = _returned_names(own["train_batch"])
    return plan


def decide(plan: TrialPlan, node: cst.ClassDef, symbols: Symbols, steps_elsewhere: bool) -> None:
    """Decide whether Lightning may step the optimizer, once ``is_whole`` is known."""
    plan.is_automatic = plan.is_whole and not steps_elsewhere and is_automatic(node, symbols, plan)


def _parameters(method: cst.FunctionDef) -> list[str]:
    params = method.params
    named = [*params.posonly_params, *params.params, *params.kwonly_params]
    extra = [f"**{params.star_kwarg.name.value}"] if params.star_kwarg else []
    return [*(p.name.value for p in named), *extra]


def _add_hparams(node: cst.CSTNode, symbols: Symbols, plan: TrialPlan) -> None:
    names, is_open, arguments = hparams_of(node, symbols)
    plan.hparams, plan.is_open, plan.arguments = names, is_open, arguments


def hparams_of(node: cst.CSTNode, symbols: Symbols) -> tuple[list[str], bool, list[str]]:
    """The hyperparameters that code asks for, whether it asks for others, and config sections."""
    names: dict[str, None] = {}
    arguments: dict[str, None] = {}
    is_open = False
    for call in find(node, cst.Call):
        found = symbols.called(call)
        if found is None:
            continue
        member = found[1]
        if member == "get_hparam":
            name = argument(call, 0, "name")
            if isinstance(name, cst.SimpleString):
                names[str(name.evaluated_value)] = None
            else:
                is_open = True
        elif member == "get_hparams":
            is_open = True
        elif member in _BATCH_SIZES:
            names["global_batch_size"] = None
        elif member in _ARGUMENTS:
            arguments[_ARGUMENTS[member]] = None
    # an uncalled `get_hparam`, kept under another name, is resolved where it is called
    return [*names], is_open, [*arguments]


def _add_wrapped(method: cst.FunctionDef, symbols: Symbols, plan: TrialPlan) -> None:
    for found in wrappings(method, symbols):
        attribute = f"*{found.attribute}" if found.is_list else found.attribute
        if found.member == "wrap_optimizer" and attribute not in plan.optimizers:
            plan.optimizers.append(attribute)
        elif found.member == "wrap_lr_scheduler":
            schedule = _schedule(found.call, attribute, symbols)
            plan.schedulers += [schedule] if schedule not in plan.schedulers else []
        elif found.member in ("wrap_reducer", "experimental.wrap_reducer"):
            _add_reducer(found, plan)


def _add_reducer(found: Wrapping, plan: TrialPlan) -> None:
    name = argument(found.call, 1, "name")
    for_validation = argument(found.call, 3, "for_validation")
    if for_validation is not None and code(for_validation) == "False":
        return
    known = code(name) if name is not None and code(name) != "None" else None
    if not found.is_list:
        plan.reducers.append(WrappedReducer(found.attribute, known))
    elif known is None or found.loop:
        plan.reducers.append(WrappedReducer(f"*{found.attribute}", known, found.loop))


def _schedule(call: cst.Call, attribute: str, symbols: Symbols) -> Schedule:
    path = symbols.path(argument(call, 1, "step_mode")) or ""
    frequency = argument(call, 2, "frequency")
    mode = path.removeprefix(_MODES) if path.startswith(_MODES) else ""
    return Schedule(attribute, mode, "1" if frequency is None else code(frequency))


def _reachable(own: dict[str, cst.FunctionDef], start: str) -> set[str]:
    found: list[str] = [start]
    for name in found:
        if name in own:
            found.extend(called for called in _called(own[name], own) if called not in found)
    return set(found)


def _called(method: cst.FunctionDef, own: dict[str, cst.FunctionDef]) -> Iterator[str]:
    for node in find(method, cst.Attribute):
        if isinstance(node.value, cst.Name) and node.attr.value in own:
            yield node.attr.value


def _returned_names(method: cst.FunctionDef) -> set[str]:
    found: set[str] = set()
    for line in body_of(method):
        for given in find(line, cst.Return):
            if isinstance(given.value, cst.Dict):
                keys = (e.key for e in given.value.elements if isinstance(e, cst.DictElement))
                found |= {
                    str(key.evaluated_value) for key in keys if isinstance(key, cst.SimpleString)
                }
    return found
