"""What the wrappers that Lightning has around optimizers need of the code of a project.

They hand steps a closure, which not only torch's have to take, and they have the attributes that
their optimizers had when they were made: what is set on them later stays theirs.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere, parsed
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable

_NONE = (
    "Lightning calls step(closure=...) of {0}, which takes none: let it take one, and call that "
    "before anything else"
)
_UNKNOWN = (
    "Lightning calls step(closure=...) of {0}, and it is not known whether what is around another "
    "optimizer takes one"
)
#: What to say of an optimizer that an object of this class keeps, and steps.
HELD = (
    "Lightning counts no steps of what {0} keeps: give it those of optimizers() in on_train_start"
)
_OPTIMIZER = re.compile(r"(?:^|[._])(?:opt|optim|optimizer)\d*$|\boptim\.[A-Z]\w*\(")


def gets_closure(node: ast.AST | None) -> bool:
    """Whether this is the class of an optimizer whose ``step`` takes no closure, and may get one.

    Lightning hands one to whatever optimizer it knows of, however a trial has made it.
    """
    step = _step(node) if isinstance(node, ast.ClassDef) and _is_optimizer(node) else None
    if step is None or len(step.args.args) != 1 + len(step.args.defaults):
        return False
    if _takes_closure(step) or None in step.args.kw_defaults:
        return False
    return not any(getattr(each, "id", "") == "closure" for each in ast.walk(step))


def held_by_helpers(
    own: Mapping[str, cst.FunctionDef], plan: TrialPlan, file: LightningFile
) -> tuple[dict[str, str], list[str]]:
    """What objects of a trial keep of its optimizers and step by themselves.

    Lightning counts the steps of its wrappers alone, which there are not when such an object is
    made.

    Args:
        own: the methods of the trial.
        plan: of it.
        file: in which it is.

    Returns:
        The attributes, ``helper.opt`` for example, with that of the trial; and the classes whose
        objects keep others.
    """
    kept, lost = dict[str, str](), list[str]()
    for method in own.values():
        for line in syntax.find(method, Line):
            for call in syntax.find(line, cst.Call):
                name = syntax.code(call.func).rpartition(".")[2]
                if name in file.trials:
                    continue
                for at, (param, attribute) in _stepping(file.elsewhere.texts.get(name, "")):
                    given = syntax.argument(call, at, param)
                    first = "" if given is None else syntax.code(given).partition(".")[2]
                    owner = (syntax.target_of(line) or "").partition(".")[2]
                    is_kept = syntax.call_of(line) is call and owner.isidentifier()
                    if is_kept and first in plan.all_optimizers:
                        kept[f"{owner}.{attribute}"] = first
                    elif given is not None:
                        lost.append(name)
    return kept, lost


def _stepping(text: str) -> list[tuple[int, tuple[str, str]]]:
    """The parameters of a class that its objects keep and step: each with its place."""
    if not text.startswith("class ") or "step_optimizer(" not in text:
        return []
    node = syntax.statement(text)
    init = syntax.methods(node).get("__init__") if isinstance(node, cst.ClassDef) else None
    if init is None:
        return []
    names = [param.name.value for param in (*init.params.params[1:], *init.params.kwonly_params)]
    stepped = {*re.findall(r"step_optimizer\(\s*(?:optimizer=)?self\.(\w+)\s*[,)]", text)}
    pairs = [pair for line in syntax.find(init, cst.Assign) for pair in syntax.pairs(line)]
    set_to = {syntax.code(v): syntax.code(t).partition(".")[2] for t, v in pairs}
    every = [(at, (name, set_to.get(name, ""))) for at, name in enumerate(names)]
    return [each for each in every if each[1][1] in stepped]


def give_closures(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Let the steps of optimizers of the project call the closure that Lightning trains in."""
    if not file.trials:
        return tree

    def given(node: cst.ClassDef) -> cst.ClassDef:
        step = syntax.methods(node).get("step")
        if step is None or not any(map(gets_closure, parsed(_own_code(node)).body)):
            return node
        file.imports.new.add("import torch")
        has_star = isinstance(step.params.star_arg, (cst.Param, cst.ParamStar))
        name = "kwonly_params" if has_star else "params"
        params = [*getattr(step.params, name), _CLOSURE]
        made = step.with_deep_changes(step.params, **{name: syntax.without_commas(params)})
        body = syntax.below_docstring(syntax.body_of(made), syntax.statements(_CALLED))
        return syntax.with_node(node, step, syntax.with_body(made, body))

    return syntax.each(tree, cst.ClassDef, given)


def is_set_on(source: bytes) -> bool:
    """Whether a file may set what ``set_on_both`` would."""
    return bool(_SETS.search(source))


_SETS = re.compile(rb"\.(?:state|param_groups)[ \t]*=(?!=)")


def set_on_both(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Set the state and the groups of an optimizer on it, where code has Lightning's wrapper."""
    if all(plan.is_automatic for plan in file.every):
        return tree
    return syntax.transformed(tree, _Setting(file))


class _Setting(cst.CSTTransformer):
    def __init__(self, file: LightningFile) -> None:
        super().__init__()
        self._file = file

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        # What makes optimizers has them without wrappers.
        return node.name.value not in ("__init__", "configure_optimizers")

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        small = syntax.simple(updated)
        target = small.targets[0].target if isinstance(small, cst.Assign) else None
        if not isinstance(small, cst.Assign) or not isinstance(target, cst.Attribute):
            return updated
        owner, name = syntax.code(target.value), target.attr.value
        if len(small.targets) > 1 or not _is_optimizers(owner, name, syntax.code(small.value)):
            return updated
        self._file.imports.new.add(_WRAPPER)
        lines = syntax.statements(_BOTH.format(owner, name))
        return cst.FlattenSentinel([updated, *lines])


def _is_optimizers(owner: str, name: str, value: str) -> bool:
    """Whether what is set is an optimizer's, by its name, that of the optimizer, or its value."""
    if owner in ("self", "cls") or "(" in owner or owner.endswith(".optimizer"):
        return False
    is_one = "opt" in owner.lower() or _DEFAULT.match(value) is not None
    return name == "param_groups" or (name == "state" and is_one)


_DEFAULT = re.compile(r"(?:\w+\.)?defaultdict\(")
_WRAPPER = "from pytorch_lightning.core.optimizer import LightningOptimizer"
_BOTH = """\
if isinstance({0}, LightningOptimizer):
    # the wrapper has attributes of its own
    {0}.optimizer.{1} = {0}.{1}
"""


def set_on_wrappers(node: cst.ClassDef, made: cst.ClassDef, plan: TrialPlan) -> Iterator[str]:
    """What is to be said of other attributes that a trial sets on an optimizer while it trains.

    Args:
        node: the class.
        made: what it has become.
        plan: of it.
    """
    if not syntax.has_attribute(made, "optimizers"):
        return
    own = syntax.methods(node)
    names = "|".join(re.escape(each.removeprefix("*")) for each in plan.all_optimizers)
    setting = re.compile(rf"(?m)^[ \t]*self\.(?:{names})\.(?!state|param_groups)(\w+)[ \t]*=(?!=)")
    early = {*reachable(own, "__init__")}
    for name in (name for name in own if name not in early):
        for attribute in dict.fromkeys(setting.findall(syntax.code(own[name]))):
            yield _KEPT_BY_WRAPPER.format(name, attribute)


_KEPT_BY_WRAPPER = (
    "{} sets {} of an optimizer, and Lightning's wrapper around it keeps that to itself: "
    "set it on the wrapper's .optimizer"
)


def _own_code(node: cst.ClassDef) -> str:
    return syntax.code(node.with_changes(leading_lines=[]))


_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_CLOSURE = cst.Param(cst.Name("closure"), equal=_TIGHT, default=cst.Name("None"))
#: As torch's own optimizers do it, most of which step where no gradients are made.
_CALLED = """\
if closure is not None:
    with torch.enable_grad():
        closure()
"""


def _is_optimizer(node: ast.ClassDef) -> bool:
    bases = [ast.unparse(base).lower() for base in node.bases]
    return any("optim" in base and "sched" not in base for base in bases)


def leaves_closure(node: ast.AST | None) -> bool:
    """Whether this is the class of an optimizer whose ``step`` does not call its closure, once.

    Lightning trains in that closure, where it steps the optimizer itself.
    """
    if not isinstance(node, ast.ClassDef) or (step := _step(node)) is None or gets_closure(node):
        return False
    given = [each.arg for each in step.args.args[1:2]]
    if given != ["closure"] and not _is_optimizer(node):
        return False
    found = [each for each in ast.walk(step) if isinstance(each, ast.Call)]
    calls = [c for c in found if any(getattr(n, "id", "") in given for n in (c.func, *c.args))]
    loops = [each for each in ast.walk(step) if isinstance(each, (ast.For, ast.While))]
    return len(calls) != 1 or any(calls[0] in ast.walk(loop) for loop in loops)


def _step(node: ast.ClassDef) -> ast.FunctionDef | None:
    own = {line.name: line for line in node.body if isinstance(line, ast.FunctionDef)}
    return own.get("step")


def left_of_steps(node: cst.ClassDef, symbols: Symbols, around: Elsewhere) -> Iterator[str]:
    """What is to be said of the optimizers of a trial whose steps may take no closure."""
    variables = _variables(syntax.methods(node).values())
    for wrap in symbols.calls(node, "wrap_optimizer"):
        made = syntax.argument(wrap, 0, "optimizer")
        for call, known in _makers(made, variables, around, set()):
            name = syntax.code(call.func).rpartition(".")[2]
            classes = parsed(around.texts.get(name, "")).body
            nodes = [each for each in classes if isinstance(each, ast.ClassDef)]
            steps = [_step(each) for each in nodes if not gets_closure(each)]
            if any(step is not None and not _takes_closure(step) for step in steps):
                yield _NONE.format(name)
            elif not classes and name[:1].isupper() and _is_around_another(call, known):
                yield _UNKNOWN.format(name)


_Variables = Mapping[str, Sequence[cst.BaseExpression]]


def _variables(methods: Iterable[cst.FunctionDef]) -> _Variables:
    """All that the variables of some methods are set to."""
    found: dict[str, list[cst.BaseExpression]] = {}
    lines = (line for method in methods for line in syntax.find(method.body, cst.Assign))
    for target, value in (pair for line in lines for pair in syntax.pairs(line)):
        found.setdefault(syntax.code(target), []).append(value)
    return found


def _makers(
    made: cst.BaseExpression | None, variables: _Variables, around: Elsewhere, seen: set[str]
) -> Iterator[tuple[cst.Call, _Variables]]:
    """The calls that make an optimizer, functions of the project followed, each with variables."""
    values = variables.get(made.value, ()) if isinstance(made, cst.Name) else [made]
    for call in (call for v in values if v is not None for call in syntax.find(v, cst.Call)):
        yield call, variables
        name = syntax.code(call.func).rpartition(".")[2]
        function = around.functions.get(name) if name not in seen else None
        if function is not None:
            seen.add(name)
            own = _variables([function])
            for each in syntax.returns(function):
                yield from _makers(each.value, own, around, seen)


def _takes_closure(step: ast.FunctionDef) -> bool:
    names = {each.arg for each in (*step.args.args, *step.args.kwonlyargs)}
    return "closure" in names or step.args.kwarg is not None


def _is_around_another(call: cst.Call, variables: _Variables) -> bool:
    """Whether something is given an optimizer, as what changes its steps is."""
    for arg in call.args:
        for value in variables.get(syntax.code(arg.value), [arg.value]):
            made = value.func if isinstance(value, cst.Call) else value
            text = syntax.code(made) + "(" * (made is not value)
            if _OPTIMIZER.search(text) or (arg.keyword and _OPTIMIZER.search(arg.keyword.value)):
                return True
    return False
