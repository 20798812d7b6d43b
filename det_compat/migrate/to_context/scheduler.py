"""``create_lr_scheduler``, which returned a wrapper of Determined's."""

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File

_SCHEDULER = "det_compat.pytorch.LRScheduler"


def step_mode(create: cst.FunctionDef | None, file: File) -> str | None:
    """How the scheduler is wrapped; ``""`` if there is none, None if that is not known."""
    if create is None:
        return ""
    made = _wrapper(create, file)
    if made is None:
        return None
    mode, early = syntax.argument(made, 1, "step_mode"), ""
    for keyword, name in (("step_every_batch", "BATCH"), ("step_every_epoch", "EPOCH")):
        given = syntax.argument(made, 9, keyword)
        if given is not None and syntax.code(given) == "True":
            early = f"{syntax.code(made.func)}.StepMode.STEP_EVERY_{name}"
    if mode is None:
        return f"step_mode={early or f'{syntax.code(made.func)}.StepMode.MANUAL_STEP'}"
    return f"step_mode={syntax.code(mode)}"


def _wrapper(create: cst.FunctionDef, file: File) -> cst.Call | None:
    """The one call that wraps the scheduler, if the method returns what it makes."""
    body = syntax.body_of(create)
    returns = [found for line in body for found in syntax.find(line, cst.Return)]
    made = [
        c for c in syntax.find(create.body, cst.Call) if file.symbols.path(c.func) == _SCHEDULER
    ]
    if len(returns) != 1 or len(made) != 1 or returns[0].value is None:
        return None
    if returns[0].value is made[0]:
        return made[0]
    targets = {syntax.target_of(line) for line in body if syntax.call_of(line) is made[0]}
    return made[0] if syntax.code(returns[0].value) in targets else None


def with_plain_scheduler(create: cst.FunctionDef, file: File) -> cst.FunctionDef:
    """``create_lr_scheduler``, which returns torch's scheduler now."""
    made = _wrapper(create, file)
    scheduler = syntax.argument(made, 0, "scheduler") if made is not None else None
    if made is None or scheduler is None:
        return create
    lines: list[cst.BaseStatement] = []
    for line in syntax.body_of(create):
        changed = line.deep_replace(made, scheduler) if syntax.call_of(line) is made else line
        assert isinstance(changed, cst.BaseStatement)
        if not syntax.is_idle(changed):
            lines.append(changed)
    return syntax.with_body(create, lines).with_changes(returns=None)
