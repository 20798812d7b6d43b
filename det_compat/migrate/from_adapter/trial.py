"""The trial class of a ``LightningAdapter``, on its way to the module that it made.

In between it is a trial as others are, whose ``__init__`` has a call in the place where it made its
module: what the context was asked, and the loaders, become what they become in all trials.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.from_adapter.modules import Module
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.transformers import CannotRewriteError

#: What stands where the module was made: with the files that were changed, the class, and what it
#: was given.
PLACE = "__adapted_module__"
_BASE = "PyTorchTrial"
_LOADERS = ("build_training_data_loader", "build_validation_data_loader")
_ADAPTERS = {
    "_pls",
    "build_callbacks",
    "evaluate_batch",
    "evaluate_full_dataset",
    "evaluation_reducer",
    "setup_optimizers_schedulers",
    "train_batch",
}
#: What nobody can set on a module before its own ``__init__``.
_PARTS = ("nn.", "torch.nn.", "torchvision.models.", "torchmetrics.")


@dataclass(frozen=True)
class Adapter:
    """A trial class, read.

    Attributes:
        node: the class.
        made: the call that makes the module.
    """

    node: cst.ClassDef
    made: cst.Call

    @property
    def module(self) -> str:
        """The class of the module, as it is called there."""
        return syntax.code(self.made.func)


def read(node: cst.ClassDef) -> Adapter:
    """The trial of a class.

    Raises:
        CannotRewriteError: it does more than to make a module and loaders.
    """
    own = syntax.methods(node)
    init = own.get("__init__")
    if init is None or len(node.bases) != 1:
        raise CannotRewriteError("it has no __init__ of its own, or other bases")
    asked = {found.attr.value for found in syntax.find(node, cst.Attribute)}
    if used := sorted((asked | own.keys()) & _ADAPTERS):
        raise CannotRewriteError(f"it uses {used[0]} of the adapter")
    if missing := [name for name in _LOADERS if name not in own]:
        raise CannotRewriteError(f"it has no {missing[0]}")
    line, call = _base_call(init)
    given = _module(call)
    made = _made(init, given) if isinstance(given, cst.Name) else given
    if not isinstance(made, cst.Call) or any(arg.star for arg in made.args):
        raise CannotRewriteError("where it makes its LightningModule is not known")
    asks = (found.attr.value for found in syntax.find(made, cst.Attribute))
    if "get_hparams" in asks:
        raise CannotRewriteError("its LightningModule is given all hyperparameters at once")
    place = _index(init, made)
    if place > init.body.body.index(line):
        raise CannotRewriteError("it makes its LightningModule too late")
    if any(map(_sets_part, syntax.body_of(init)[:place])):
        raise CannotRewriteError("it has parts before it has its LightningModule")
    return Adapter(node, made)


def _sets_part(line: cst.BaseStatement) -> bool:
    call = syntax.call_of(line)
    is_own = (syntax.target_of(line) or "").startswith("self.")
    return is_own and call is not None and syntax.code(call.func).startswith(_PARTS)


def _base_call(init: cst.FunctionDef) -> tuple[cst.BaseStatement, cst.Call]:
    """The statement that calls the ``__init__`` of the adapter."""
    calls = [(line, syntax.lone_call(line)) for line in syntax.body_of(init)]
    found = [(li, c) for li, c in calls if c is not None and _is_base(c)]
    every = [call for call in syntax.find(init.body, cst.Call) if _is_base(call)]
    if len(found) != 1 or len(every) != 1:
        raise CannotRewriteError("it does not call super().__init__ once, by itself")
    return found[0]


def _is_base(call: cst.Call) -> bool:
    text = syntax.code(call.func)
    return text.startswith("super(") and text.endswith(".__init__")


def _module(call: cst.Call) -> cst.BaseExpression | None:
    """What the adapter is given as module; it is given nothing that changes how it trains."""
    module = syntax.argument(call, 1, "lightning_module")
    for arg in call.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        is_usual = name == "precision" and syntax.code(arg.value) == "32"
        if name not in ("", "context", "lightning_module") and not is_usual:
            raise CannotRewriteError(f"it gives the adapter {name}={syntax.code(arg.value)}")
    if len([arg for arg in call.args if arg.keyword is None and not arg.star]) > 2:
        raise CannotRewriteError("it gives the adapter a precision")
    return module


def _made(init: cst.FunctionDef, name: cst.Name) -> cst.BaseExpression | None:
    """What a variable is set to, which nothing but the call of the adapter uses."""
    lines = [li for li in syntax.body_of(init) if syntax.target_of(li) == name.value]
    uses = [n for n in syntax.find(init.body, cst.Name) if n.value == name.value]
    if len(lines) != 1 or len(uses) - _keywords(init, name.value) != 2:
        raise CannotRewriteError(f"it uses {name.value} for more than to give it to the adapter")
    return getattr(syntax.simple(lines[0]), "value", None)


def _keywords(init: cst.FunctionDef, name: str) -> int:
    return sum(a.keyword.value == name for a in syntax.find(init.body, cst.Arg) if a.keyword)


def _index(init: cst.FunctionDef, made: cst.Call) -> int:
    """Which statement of ``__init__`` has a call."""
    lines = syntax.body_of(init)
    return next(i for i, line in enumerate(lines) if made in syntax.find(line, cst.Call))


def as_trial(adapter: Adapter, changed: Iterable[Path]) -> cst.ClassDef:
    """The class as a trial of Determined's other base, with a call that ``as_module`` knows."""
    node, made = adapter.node, adapter.made
    init = syntax.methods(node)["__init__"]
    line, _ = _base_call(init)
    files = cst.Arg(cst.SimpleString(repr("\n".join(map(str, changed)))))
    place = made.with_changes(func=cst.Name(PLACE), args=[files, cst.Arg(made.func), *made.args])
    at = _index(init, made)
    plain = syntax.replaced(
        syntax.statement("super().__init__(context)"), "context", _context(init)
    )
    body: list[cst.BaseStatement] = []
    for index, each in enumerate(syntax.body_of(init)):
        above = getattr(each, "leading_lines", ())
        if index == at:
            body.append(cst.SimpleStatementLine([cst.Expr(place)], leading_lines=above))
        if each is line:
            body.append(plain.with_changes(leading_lines=() if index == at else above))
        elif index != at:
            body.append(each)
    params = init.params
    left = syntax.names_in(cst.IndentedBlock(body))
    stars = {
        key: kept
        for key, kept in (("star_arg", cst.MaybeSentinel.DEFAULT), ("star_kwarg", None))
        if isinstance(star := getattr(params, key), cst.Param) and star.name.value not in left
    }
    new = syntax.with_body(init, body).with_changes(params=params.with_changes(**stars))
    lines = [new if each is init else each for each in syntax.body_of(node)]
    base = node.bases[0].with_changes(value=cst.Name(_BASE))
    return syntax.with_body(node, lines).with_changes(bases=[base])


def _context(init: cst.FunctionDef) -> str:
    given = init.params.params[1:]
    return given[0].name.value if given else "context"


def clashes(adapter: Adapter, module: Module) -> list[str]:
    """What the trial has under a name that its module has for something of its own."""
    trial = Module(module.path, adapter.node).kept - {"__init__", *_LOADERS}
    return sorted(trial & module.kept)


def placed(init: cst.FunctionDef | None) -> cst.Call | None:
    """The call that stands for the module in ``__init__``."""
    lines = syntax.body_of(init) if init is not None else ()
    calls = (syntax.lone_call(line) for line in lines)
    return next((c for c in calls if c is not None and syntax.code(c.func) == PLACE), None)


def as_module(
    node: cst.ClassDef,
    module: Module,
    hooks: Sequence[cst.BaseStatement],
    hparams: Collection[str],
) -> cst.ClassDef:
    """The class, which is a module by now, as one that derives from the module it made.

    Args:
        node: the class.
        module: what it made.
        hooks: the methods that it gets.
        hparams: the hyperparameters that its configs have.

    Raises:
        CannotRewriteError: it would have other hyperparameters than that.
    """
    init = syntax.methods(node)["__init__"]
    place = placed(init)
    assert place is not None
    given = [*init.params.params[1:], *init.params.kwonly_params]
    names = {param.name.value for param in given} - syntax.local_names(
        init.with_changes(params=cst.Parameters())
    )
    for name in names:
        init = syntax.replaced(init, f"self.hparams.{name}", name)
    place = placed(init)
    assert place is not None
    body = [*syntax.body_of(init)]
    at = next(i for i, line in enumerate(body) if syntax.lone_call(line) is place)
    saving = [line for line in body[:at] if _is_own(line, "save_hyperparameters")]
    early = [line for line in body[:at] if not _is_own(line, "") and line not in saving]
    if any(syntax.mentions(each, "self.hparams") for each in (*early, place)):
        raise CannotRewriteError("it asks for hyperparameters before it has its LightningModule")
    is_open = init.params.star_kwarg is not None
    known = {param.name.value for param in given}
    kept = _kept(module, place, known.union(hparams) if is_open else known)
    if kept - known:
        hooks = [*hooks, _without_rest(sorted(kept - known))]
    rest = syntax.without_commas(place.args[2:])
    listed = ", ".join(map(syntax.code, rest))
    calling = place.with_changes(func=syntax.expression("super().__init__"), args=place.args[2:])
    if "#" not in syntax.code(place):
        # Lines that stood below one another by their indentation would not any more.
        calling = ensure_type(syntax.expression(f"super().__init__({listed})"), cst.Call)
    made = body[at].with_changes(body=[cst.Expr(calling)])
    init = syntax.with_body(init, [*early, made, *saving, *body[at + 1 :]])
    lines: list[cst.BaseStatement] = []
    for line in syntax.body_of(node):
        is_init = isinstance(line, cst.FunctionDef) and line.name.value == "__init__"
        lines += [init, *hooks] if is_init else [line]
    base = node.bases[0].with_changes(value=place.args[1].value)
    return syntax.with_body(node, lines).with_changes(bases=[base])


def _is_own(line: cst.BaseStatement, name: str) -> bool:
    """Whether a statement is one of those that begin the ``__init__`` of every module."""
    if name:
        call = syntax.lone_call(line)
        return call is not None and syntax.code(call.func) == f"self.{name}"
    text = syntax.code(line).strip()
    return text in ("super().__init__()", "self.automatic_optimization = False")


def _kept(module: Module, place: cst.Call, names: set[str]) -> set[str]:
    """The arguments that a module keeps by name, which is to find its own there.

    Raises:
        CannotRewriteError: one of ``names``, which are hyperparameters, would take their place.
    """
    uses = {each.attr.value for each in syntax.find(module.node, cst.Attribute)}
    if not uses & {"save_hyperparameters", "hparams"} or "__init__" not in module.own:
        return set()
    params = module.own["__init__"].params
    positional = [param.name.value for param in params.params[1:]]
    own = {*positional, *(param.name.value for param in params.kwonly_params)}
    given = {}
    for index, arg in enumerate(place.args[2:]):
        name = arg.keyword.value if arg.keyword else (positional[index : index + 1] or [""])[0]
        given[name] = syntax.code(arg.value)
    for name in sorted((own | given.keys()) & names):
        if given.get(name) != name:
            raise CannotRewriteError(
                f"{name} is a hyperparameter, and {module.name} is given another {name}"
            )
    return _saved(module, own | given.keys())


def _saved(module: Module, every: set[str]) -> set[str]:
    dicts = syntax.find(module.own["__init__"].body, cst.Call)
    saved = [c for c in dicts if syntax.code(c.func) == "self.save_hyperparameters"]
    texts = {
        str(text.evaluated_value) for call in saved for text in syntax.find(call, cst.SimpleString)
    }
    is_open = any("**" in syntax.code(call) for call in saved)
    return every if is_open else texts & every


def _without_rest(names: Sequence[str]) -> cst.FunctionDef:
    """The hook that leaves out of checkpoints what the module is not made with again."""
    if len(names) == 1:
        return syntax.method(_WITHOUT.format(f'del checkpoint["hyper_parameters"]["{names[0]}"]'))
    listed = ", ".join(f'"{name}"' for name in names)
    loop = f'for name in ({listed}):\n        del checkpoint["hyper_parameters"][name]'
    return syntax.method(_WITHOUT.format(loop))


_WITHOUT = """\
def on_save_checkpoint(self, checkpoint):
    # LightningCLI gives __init__ what a checkpoint keeps, and it takes none of these
    {}
"""
