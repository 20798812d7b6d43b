"""A trial of Determined 0.12 in the context API."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.file import File
from det_compat.migrate.marks import marked
from det_compat.migrate.syntax import (
    argument,
    body_of,
    call_of,
    code,
    find,
    methods,
    names_in,
    replaced,
    self_name,
    simple,
    statements,
    with_body,
)

_LINK = "MIGRATION.md#determined-012"
_SCHEDULER = "det_compat.pytorch.LRScheduler"
_CLIPS = {
    "det_compat.pytorch.ClipGradsL2Norm": "clip_grad_norm_",
    "det_compat.pytorch.ClipGradsL2Value": "clip_grad_value_",
}


def in_context_api(node: cst.ClassDef, file: File) -> cst.BaseStatement:
    """The class, with model, optimizer and scheduler wrapped in ``__init__``.

    A class that builds itself, or whose methods are not what 0.12 documented, stays as it was.
    """
    own = methods(node)
    missing = [n for n in ("build_model", "optimizer", "train_batch", "__init__") if n not in own]
    if missing:
        message = f"{', '.join(missing)} of this trial of 0.12 is not in this class"
        return marked(node, message, _LINK)
    context = _context(own["__init__"], file)
    clip = _clip(own.get("build_callbacks"), file)
    scheduler = _scheduler(own.get("create_lr_scheduler"), file)
    if context is None or scheduler is None:
        return marked(node, "its LR scheduler is made in a way that is not known", _LINK)
    body: list[cst.BaseStatement] = []
    for line in body_of(node):
        if not isinstance(line, cst.FunctionDef):
            body.append(line)
            continue
        name = line.name.value
        if name == "__init__":
            body.append(_with_wraps(line, context, own, scheduler))
        elif name == "train_batch":
            body.append(_train_batch(line, clip))
        elif name in ("evaluate_batch", "evaluate_full_dataset"):
            body.append(_without_model(line))
        elif name == "create_lr_scheduler":
            body.append(_plain_scheduler(line))
        elif name == "build_callbacks":
            body.append(_without_clip(line, file))
        else:
            body.append(line)
    return with_body(node, body)


def _context(init: cst.FunctionDef, file: File) -> str | None:
    given = [p.name.value for p in init.params.params[1:]]
    named = [name for name in given if "context" in name]
    found = named or given
    return found[0] if found else None


def _takes(method: cst.FunctionDef, position: int) -> bool:
    """Whether a method takes the hyperparameters, too."""
    names = [p.name.value for p in method.params.params]
    return "hparams" in names or len(names) > position


def _with_wraps(
    init: cst.FunctionDef, context: str, own: dict[str, cst.FunctionDef], scheduler: str
) -> cst.FunctionDef:
    me = self_name(init)
    hparams = f"{context}.get_hparams()"
    build = hparams if _takes(own["build_model"], 1) else ""
    extra = f", {hparams}" if _takes(own["optimizer"], 2) else ""
    text = (
        f"{me}.model = {context}.wrap_model({me}.build_model({build}))\n"
        f"{me}.opt = {context}.wrap_optimizer({me}.optimizer({me}.model{extra}))\n"
    )
    if scheduler:
        given = f", {hparams}" if _takes(own["create_lr_scheduler"], 2) else ""
        made = f"{me}.create_lr_scheduler({me}.opt{given})"
        text += f"{me}.lr_scheduler = {context}.wrap_lr_scheduler({made}, {scheduler})\n"
    lines = statements(text)
    lines[0] = lines[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return with_body(init, [*body_of(init), *lines])


def _scheduler(create: cst.FunctionDef | None, file: File) -> str | None:
    """How the scheduler is wrapped; ``""`` if there is none, None if that is not known."""
    if create is None:
        return ""
    body = body_of(create)
    returns = [found for line in body for found in find(line, cst.Return)]
    made = call_of(returns[0]) if len(returns) == 1 else None
    if made is None or file.symbols.path(made.func) != _SCHEDULER:
        return None
    mode, early = argument(made, 1, "step_mode"), ""
    for keyword, name in (("step_every_batch", "BATCH"), ("step_every_epoch", "EPOCH")):
        given = argument(made, 9, keyword)
        if given is not None and code(given) == "True":
            early = f"{code(made.func)}.StepMode.STEP_EVERY_{name}"
    if mode is None:
        return f"step_mode={early or f'{code(made.func)}.StepMode.MANUAL_STEP'}"
    return f"step_mode={code(mode)}"


def _plain_scheduler(create: cst.FunctionDef) -> cst.FunctionDef:
    """create_lr_scheduler, which returns torch's scheduler now."""
    lines = []
    for line in body_of(create):
        small = simple(line)
        made = call_of(small) if isinstance(small, cst.Return) else None
        wrapped = argument(made, 0, "scheduler") if made is not None else None
        if wrapped is not None and isinstance(small, cst.Return):
            line = line.with_changes(body=[small.with_changes(value=wrapped)])
        lines.append(line)
    return with_body(create, lines).with_changes(returns=None)


def _without_model(line: cst.FunctionDef) -> cst.FunctionDef:
    given = [*line.params.params]
    named = [p for p in given if p.name.value == "model"]
    if not named:
        return line
    kept = [p.with_changes(comma=cst.MaybeSentinel.DEFAULT) for p in given if p not in named]
    changed = replaced(line, "model", f"{self_name(line)}.model")
    return changed.with_changes(
        params=line.params.with_changes(params=kept),
        whitespace_before_params=cst.SimpleWhitespace(""),
    )


def _train_batch(line: cst.FunctionDef, clip: str) -> cst.FunctionDef:
    line = _without_model(line)
    me = self_name(line)
    clipping = f", clip_grads={clip}" if clip else ""
    after = f"{me}.context.backward(loss)\n{me}.context.step_optimizer({me}.opt{clipping})\n"
    body: list[cst.BaseStatement] = []
    for inner in body_of(line):
        small = simple(inner)
        if isinstance(small, cst.Return) and small.value is not None:
            leading = inner.leading_lines  # type: ignore[attr-defined]
            made = _stepped(inner.with_changes(leading_lines=[]), small.value, after)
            made[0] = made[0].with_changes(leading_lines=leading)
            body.extend(made)
        else:
            body.append(inner)
    return with_body(line, body)


def _stepped(
    line: cst.BaseStatement, value: cst.BaseExpression, after: str
) -> list[cst.BaseStatement]:
    """Backward and step before the metrics are returned."""
    elements = value.elements if isinstance(value, cst.Dict) else ()
    for element in elements:
        key = getattr(element, "key", None)
        if isinstance(key, cst.SimpleString) and key.evaluated_value == "loss":
            loss = code(element.value)
            if loss.isidentifier():
                return [*statements(after.replace("(loss)", f"({loss})")), line]
            changed = line.with_deep_changes(element, value=cst.Name("loss"))
            return [*statements(f"loss = {loss}\n{after}"), changed]
    if isinstance(value, cst.Name) and value.value in ("loss", "losses"):
        return [*statements(after.replace("(loss)", f"({value.value})")), line]
    body = f"metrics = {code(value)}\n{after}return metrics\n"
    return statements(body.replace("backward(loss)", 'backward(metrics["loss"])'))


def _clip_entries(build: cst.FunctionDef | None, file: File) -> list[cst.DictElement]:
    if build is None:
        return []
    return [
        element
        for element in find(build, cst.DictElement)
        if isinstance(element.value, cst.Call)
        and file.symbols.path(element.value.func) in _CLIPS
        and element.value.args
    ]


def _clip(build: cst.FunctionDef | None, file: File) -> str:
    """``clip_grads`` in the place of a callback that clips."""
    for element in _clip_entries(build, file):
        assert isinstance(element.value, cst.Call)
        value = code(element.value.args[0].value)
        local = _locals(build)
        for name, text in local.items():
            if value == name:
                value = text
        function = _CLIPS[file.symbols.path(element.value.func) or ""]
        file.imports.add("import torch")
        return f"lambda params: torch.nn.utils.{function}(params, {value})"
    return ""


def _locals(build: cst.FunctionDef | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in body_of(build) if build is not None else ():
        small = simple(line)
        if isinstance(small, cst.Assign):
            found[code(small.targets[0].target)] = code(small.value)
    return found


def _without_clip(build: cst.FunctionDef, file: File) -> cst.FunctionDef:
    entries = _clip_entries(build, file)
    if not entries:
        return build
    kept = []
    for line in body_of(build):
        for found in find(line, cst.Dict):
            rest = [e for e in found.elements if e not in entries]
            if len(rest) < len(found.elements):
                if rest:
                    rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                line = line.with_deep_changes(found, elements=rest)
        kept.append(line)
    used = set().union(
        *(names_in(line) for line in kept if not isinstance(simple(line), cst.Assign))
    )
    return with_body(
        build,
        [
            line
            for line in kept
            if not (
                isinstance(s := simple(line), cst.Assign) and code(s.targets[0].target) not in used
            )
        ],
    )
