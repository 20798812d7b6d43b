"""MetricReducers become torchmetrics."""

from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import WrappedReducer
from det_compat.migrate.to_lightning.optimization.kept import BY_KEY
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, marked
from det_compat.migrate.tree.trial_attributes import is_there

#: What reducers that are functions become.
FUNCTION_METRIC = "FunctionMetric"
#: What reducers go through of which only the running code knows whether they are functions.
METRIC_OF = "metric_of"
_IMPORTS = ("import torch", "import torchmetrics")
_DATACLASS = "dataclass"
#: Decorators that make classes as torch's modules cannot be made.
_MAKERS = ("define", "frozen", "mutable", "s", "attrs", "attributes")
_UNKNOWN = "its decorator makes a class that cannot be a torchmetrics.Metric: write its __init__"
_REDUCING = ("per_slot_reduce", "cross_slot_reduce")
_INIT = "def {}(self):\n    super().__init__()\n    self.reset()\n"
_COMPUTE = """\
def compute(self):
    gathered = [self.per_slot_reduce()]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # Lightning validates some samples twice where devices cannot have as many each
        gathered *= torch.distributed.get_world_size()
        torch.distributed.all_gather_object(gathered, self.per_slot_reduce())
    return self.cross_slot_reduce(gathered)
"""


_FUNCTION_METRIC = """\
class FunctionMetric(torchmetrics.Metric):
    \"""What a function makes of all the values of a validation.\"""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.values = []

    def reset(self):
        super().reset()
        self.values = []

    def update(self, value):
        self.values.append(value)

    def compute(self):
        gathered = [self.values]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # Lightning validates some samples twice where devices cannot have as many each
            gathered *= torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, self.values)
        return self.function([value for values in gathered for value in values])
"""


_METRIC_OF = """\
def metric_of(reducer):
    \"""A metric as it is, a function as a metric.\"""
    is_metric = isinstance(reducer, torchmetrics.Metric)
    return reducer if is_metric else FunctionMetric(reducer)
"""


_START = "on_validation_start(self):\n"
_OF_ALL = """\
    if self.global_rank > 0:
        # each device goes through all of the data: the values of the first count
"""
_EARLIER = """\
on_validation_model_eval(self):
    super().on_validation_model_eval()
    # callbacks are told next that a validation starts, and update reducers
"""


def rewrite_reducers(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Give the file's reducers what a ``torchmetrics.Metric`` has."""
    tree = syntax.each(tree, cst.ClassDef, lambda node: _rewritten(node, file))
    called = {syntax.code(call.func) for call in syntax.find(tree, cst.Call)}
    there = {n.name.value for n in syntax.find(tree, cst.ClassDef)} & {FUNCTION_METRIC}
    there |= {n.name.value for n in syntax.find(tree, cst.FunctionDef)} & {METRIC_OF}
    needed = {FUNCTION_METRIC: {FUNCTION_METRIC, METRIC_OF}, METRIC_OF: {METRIC_OF}}
    for name, text in ((METRIC_OF, _METRIC_OF), (FUNCTION_METRIC, _FUNCTION_METRIC)):
        if name not in there and not called.isdisjoint(needed[name]):
            file.imports.new.update(_IMPORTS)
            tree = syntax.with_definition(tree, text)
    return tree


def _rewritten(node: cst.ClassDef, file: LightningFile) -> cst.ClassDef:
    is_first = file.reducers.get(node.name.value)
    if is_first is None:
        return node
    init = _constructor(node)
    if init is None:
        return marked(node, _UNKNOWN)
    node, own = _hashable(node), syntax.methods(node)
    body = [_method(line, is_first, init) for line in syntax.body_of(node)]
    if not is_first:
        return syntax.with_body(node, body)
    adding = [n for n in own if n not in ("reset", *_REDUCING) and not n.startswith("_")]
    if "update" not in own and len(node.bases) > 1:
        return marked(node, "a torchmetrics.Metric needs the method update()")
    if "update" not in own and len(adding) == 1:
        body.append(syntax.statement(f"update = {adding[0]}\n"))
    elif "update" not in own:
        # A metric has to have one; nothing calls it here.
        told = f"by {' and '.join(f'{name}()' for name in adding)}" if adding else "by nothing"
        body.append(syntax.method(f'def update(self):\n    """Values are added {told}."""\n'))
    if init not in own:
        at = next((i for i, n in enumerate(body) if isinstance(n, cst.FunctionDef)), len(body))
        made = syntax.method(_INIT.format(init))
        if at == 0:
            (blank,), made = made.leading_lines, made.with_changes(leading_lines=[])
            # What was first stands below it.
            body[:1] = [above(line, [blank]) for line in body[:1]]
        body.insert(at, made)
    file.imports.new.update(_IMPORTS)
    return syntax.with_body(node, [*body, syntax.method(_COMPUTE)])


def _constructor(node: cst.ClassDef) -> str | None:
    """The method in which a class is made: a dataclass's runs behind its own ``__init__``.

    None stands for what makes classes of another kind.
    """
    names = [decorator_name(each.decorator) for each in node.decorators]
    if any(name in _MAKERS or "slots=True" in code for name, code in names):
        return None
    is_data = any(name == _DATACLASS for name, _ in names)
    return "__post_init__" if is_data and "__init__" not in syntax.methods(node) else "__init__"


def decorator_name(node: cst.BaseExpression) -> tuple[str, str]:
    """The last part of the name of a decorator, and its text."""
    func = node.func if isinstance(node, cst.Call) else node
    return syntax.code(func).rpartition(".")[2], syntax.code(node)


def _hashable(node: cst.ClassDef) -> cst.ClassDef:
    """A dataclass that is compared as any other object: torch keeps modules in sets."""

    def by_itself(decorator: cst.Decorator) -> cst.Decorator:
        name, text = decorator_name(decorator.decorator)
        if name != _DATACLASS or "eq=False" in text:
            return decorator
        made = decorator.decorator
        given = made.args if isinstance(made, cst.Call) else ()
        kept = [arg for arg in given if arg.keyword is None or arg.keyword.value != "eq"]
        func = made.func if isinstance(made, cst.Call) else made
        more = cst.Arg(cst.Name("False"), cst.Name("eq"), equal=syntax.EQUAL)
        args = syntax.without_commas([*kept, more])
        return decorator.with_changes(decorator=cst.Call(func, args))

    return node.with_changes(decorators=[by_itself(each) for each in node.decorators])


def _method(line: cst.BaseStatement, is_first: bool, init: str) -> cst.BaseStatement:
    if not isinstance(line, cst.FunctionDef):
        return line
    name = line.name.value
    if name not in (init, "reset") or (name == init and not is_first):
        return line
    call = f"super().{'__init__' if name == init else name}()"
    body = syntax.body_of(line)
    if any(syntax.code(found) == call for found in map(syntax.call_of, body) if found is not None):
        return line
    return syntax.with_body(line, syntax.below_docstring(body, [syntax.statement(call)]))


def reducer_hooks(
    reducers: Sequence[WrappedReducer],
    odd: Collection[str],
    *,
    callbacks_update: bool,
    are_others: bool,
    is_whole: bool,
) -> list[cst.FunctionDef]:
    """The hooks that reset reducers before a validation, and log them after it.

    What is made by one of the ``odd`` may be no single number. If ``are_others``, a base has
    such hooks of its own. Where callbacks may update
    reducers when a validation starts, they are reset before: Lightning tells callbacks of a start
    first, Determined told them after it had reset reducers. If a validation ``is_whole``, each
    device goes through all of the data, which one alone did on Determined.
    """
    if not reducers:
        return []
    resets = "\n".join(guarded(reducer, reset(reducer)) for reducer in reducers)
    logs = "\n".join(guarded(reducer, log(reducer, reducer.made_by in odd)) for reducer in reducers)
    if is_whole:
        lines = "".join(f"    {line}\n" for line in resets.split("\n"))
        logs = f"{_OF_ALL}{lines}{logs}"
    start = _EARLIER if callbacks_update else _START
    if are_others:
        start += "" if callbacks_update else "    super().on_validation_start()\n"
        logs = f"    super().on_validation_epoch_end()\n{logs}"
    return [
        syntax.method(f"def {start}{resets}\n"),
        syntax.method(f"def on_validation_epoch_end(self):\n{logs}\n"),
    ]


def guarded(reducer: WrappedReducer, lines: str) -> str:
    """The lines, but only where the reducer has been made if that is not sure."""
    if not reducer.may_lack:
        return lines
    condition = is_there(reducer.attribute.removeprefix("*"))
    return "\n".join([f"    if {condition}:", *(f"    {line}" for line in lines.split("\n"))])


def reset(reducer: WrappedReducer) -> str:
    """The lines that let a reducer forget its values."""
    if not reducer.attribute.startswith("*"):
        return f"    self.{reducer.attribute}.reset()"
    return f"    for reducer in self.{reducer.attribute[1:]}:\n        reducer.reset()"


def log(reducer: WrappedReducer, is_odd: bool, prefix: str = "") -> str:
    """The lines that log what a reducer makes of its values, with a prefix if it names them."""
    name, attribute = reducer.name, reducer.attribute.removeprefix("*")
    if attribute == reducer.attribute:
        logged = _logged(name, f"self.{attribute}", is_odd, prefix)
        return f"    {logged}"
    loop = f"reducer in self.{attribute}"
    if name is not None:
        target, _, values = reducer.loop.partition(" in ")
        if values == BY_KEY:
            # A key that is no variable is the name itself.
            target, name = (target, name) if target.isidentifier() else ("name", "name")
            loop = f"{target}, reducer in self.{attribute.removesuffix('.values()')}.items()"
        elif "enumerate(" not in values and values.startswith("range(len("):
            loop = f"{target}, reducer in enumerate(self.{attribute})"
        else:
            loop = f"({target}), reducer in zip({values}, self.{attribute})"
    return f"    for {loop}:\n        {_logged(name, 'reducer', is_odd, prefix)}"


def _logged(name: str | None, reducer: str, is_odd: bool, prefix: str) -> str:
    value = f"{reducer}.compute()"
    if prefix:
        value = f'{{f"{prefix}{{name}}": value for name, value in {value}.items()}}'
    if name is not None and "None" in name:
        return f"self.log_dict(numbers_of({_named_or_not(name, value)}))"
    if is_odd:
        metrics = value if name is None else f"{{{name}: {value}}}"
        return f"self.log_dict(numbers_of({metrics}))"
    return f"self.log_dict({value})" if name is None else f"self.log({name}, {value})"


def _named_or_not(name: str, value: str) -> str:
    """The metrics of a reducer that may have no name: it has computed these with theirs then."""
    made, named = syntax.expression(name), f"{{{name}: {value}}}"
    if isinstance(made, cst.IfExp):
        condition = syntax.code(made.test)
        then, otherwise = syntax.code(made.body), syntax.code(made.orelse)
        if then == "None":
            return f"{value} if {condition} else {{{otherwise}: {value}}}"
        if otherwise == "None":
            return f"{{{then}: {value}}} if {condition} else {value}"
    return f"{value} if ({name}) is None else {named}"


def updates_at_start(node: cst.ClassDef) -> bool:
    """Whether a callback updates something when a validation starts."""
    names = ("on_validation_start", "on_validation_epoch_start", "on_validation_step_start")
    own = syntax.methods(node)
    return any(name in own and syntax.has_attribute(own[name], "update") for name in names)
