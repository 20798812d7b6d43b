"""Other ways to write the same trial: mutations of its source after which it trains as before.

A mutation may have been a wrong one, since what a statement reads is not looked at: who uses these
has the mutated trial trained, and takes none that fails.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from random import Random

Body = list[ast.stmt]
Simple = (ast.Assign, ast.Expr, ast.AugAssign)


def reworded(source: str, cls: str, draw: Random) -> tuple[str, list[str]]:
    """The module ``source`` with one to four mutations in the class ``cls``, and their names."""
    tree, names = ast.parse(source), []
    for name in draw.choices([*MUTATIONS], k=draw.randrange(1, 5)):
        changed = ast.fix_missing_locations(copy.deepcopy(tree))
        (trial,) = (n for n in changed.body if isinstance(n, ast.ClassDef) and n.name == cls)
        if MUTATIONS[name](changed, trial, draw):
            tree = changed
            names.append(name)
    return f"{ast.unparse(ast.fix_missing_locations(tree))}\n", names


def _bodies(node: ast.AST) -> Iterator[Body]:
    """Every list of statements in the methods of a class."""
    for child in ast.walk(node):
        if isinstance(child, (ast.FunctionDef, ast.If, ast.For, ast.With, ast.Try)):
            yield child.body
            if isinstance(child, ast.If) and child.orelse:
                yield child.orelse


def _one(draw: Random, trial: ast.ClassDef, kind: type | tuple) -> tuple[Body, int] | None:
    """A statement of a kind, by the list that it is in."""
    found = [
        (body, at)
        for body in _bodies(trial)
        for at, statement in enumerate(body)
        if isinstance(statement, kind) and not (_is_docstring(statement) or _calls_super(statement))
    ]
    return draw.choice(found) if found else None


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _calls_super(statement: ast.AST) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "super" for n in ast.walk(statement))


def _methods(trial: ast.ClassDef) -> list[ast.FunctionDef]:
    return [n for n in trial.body if isinstance(n, ast.FunctionDef)]


def _name(draw: Random, stem: str) -> str:
    return f"{stem}_{draw.randrange(100)}"


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _set(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _value_first(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """``self.x = f()`` becomes ``made = f(); self.x = made``; the same for what is returned."""
    found = _one(draw, trial, (ast.Assign, ast.Return))
    if found is None or getattr(found[0][found[1]], "value", None) is None:
        return False
    body, at = found
    statement, name = body[at], _name(draw, "made")
    assert isinstance(statement, (ast.Assign, ast.Return)) and statement.value is not None
    body.insert(at, _set(name, statement.value))
    statement.value = _load(name)
    return True


def _argument_first(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """``f(g())`` becomes ``given = g(); f(given)``."""
    found = _one(draw, trial, (*Simple, ast.Return))
    if found is None:
        return False
    body, at = found
    calls = [n for n in ast.walk(body[at]) if isinstance(n, ast.Call) and n.args]
    inner = [n for n in ast.walk(body[at]) if isinstance(n, (ast.comprehension, ast.Lambda))]
    if not calls or inner or isinstance(calls[0].args[0], ast.Starred):
        return False
    name = _name(draw, "given")
    body.insert(at, _set(name, calls[0].args[0]))
    calls[0].args[0] = _load(name)
    return True


def _annotated(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    found = _one(draw, trial, ast.Assign)
    if found is None:
        return False
    body, at = found
    statement = body[at]
    assert isinstance(statement, ast.Assign)
    (target, *others) = statement.targets
    if others or not isinstance(target, (ast.Name, ast.Attribute)):
        return False
    is_name = int(isinstance(target, ast.Name))
    body[at] = ast.AnnAssign(target, _load("object"), statement.value, is_name)
    return True


def _together(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """Two assignments after one another become one of a tuple."""
    found = _one(draw, trial, ast.Assign)
    if found is None:
        return False
    body, at = found
    pair = body[at : at + 2]
    if len(pair) < 2 or not all(isinstance(n, ast.Assign) and len(n.targets) == 1 for n in pair):
        return False
    first, second = pair
    assert isinstance(first, ast.Assign) and isinstance(second, ast.Assign)
    if ast.unparse(first.targets[0]) in ast.unparse(second.value):
        return False
    targets = ast.Tuple([first.targets[0], second.targets[0]], ast.Store())
    body[at : at + 2] = [ast.Assign([targets], ast.Tuple([first.value, second.value], ast.Load()))]
    return True


def _inside(wrap: Callable[[Body], ast.stmt]) -> Callable[[ast.Module, ast.ClassDef, Random], bool]:
    """One to three statements get a block around them."""

    def mutate(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
        found = _one(draw, trial, (*Simple, ast.Return))
        if found is None:
            return False
        body, at = found
        end = at + draw.randrange(1, 4)
        inner = [n for n in body[at:end] if not _calls_super(n)]
        body[at:end] = [wrap(inner), *(n for n in body[at:end] if _calls_super(n))]
        return True

    return mutate


def _in_with(body: Body) -> ast.stmt:
    call = ast.parse("__import__('contextlib').nullcontext()", mode="eval").body
    return ast.With([ast.withitem(call)], body)


def _in_if(body: Body) -> ast.stmt:
    return ast.If(ast.Constant(True), body, [])


def _in_try(body: Body) -> ast.stmt:
    return ast.Try(body, [], [], [ast.Pass()])


def _in_method(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """One to three statements that need nothing but self move into a method of their own."""
    methods = [n for n in _methods(trial) if n.args.args]
    method = draw.choice(methods) if methods else None
    if method is None or method.args.args[0].arg != "self" or len(method.body) < 2:
        return False
    at = draw.randrange(len(method.body))
    moved = method.body[at : at + draw.randrange(1, 4)]
    used = {n.id for s in moved for n in ast.walk(s) if isinstance(n, ast.Name)}
    own = {a.arg for a in method.args.args[1:]} | _stored(method.body)
    if used & own or _stored(moved) or any(_calls_super(n) or _is_docstring(n) for n in moved):
        return False
    if not all(isinstance(n, Simple) for n in moved):
        return False
    name = _name(draw, "part")
    call = ast.parse(f"self.{name}()").body
    method.body[at : at + len(moved)] = call
    arguments = ast.arguments([], [ast.arg("self")], None, [], [], None, [])
    trial.body.append(ast.FunctionDef(name, arguments, moved, [], None))
    return True


def _stored(body: Body) -> set[str]:
    names = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def _context_kept(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """``self.context`` under a local name in one method."""
    methods = [n for n in _methods(trial) if "self.context." in ast.unparse(n)]
    if not methods:
        return False
    method = draw.choice(methods)
    name = _name(draw, "ctx")
    reads = [
        n
        for n in ast.walk(method)
        if isinstance(n, ast.Attribute)
        and isinstance(n.value, ast.Attribute)
        and ast.unparse(n.value) == "self.context"
    ]
    if "self.context =" in ast.unparse(method) or not reads:
        return False
    for read in reads:
        read.value = _load(name)
    at = int(_is_docstring(method.body[0]))
    method.body.insert(at, _set(name, ast.parse("self.context", mode="eval").body))
    return True


def _with_keywords(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """The arguments of the context's methods by name."""
    first = {
        "wrap_model": "model",
        "wrap_optimizer": "optimizer",
        "wrap_lr_scheduler": "lr_scheduler",
        "backward": "loss",
        "step_optimizer": "optimizer",
        "DataLoader": "dataset",
    }
    changed = False
    for call in ast.walk(trial):
        if isinstance(call, ast.Call) and len(call.args) == 1:
            name = ast.unparse(call.func).rpartition(".")[2]
            if name in first and draw.random() < 0.7:
                call.keywords.insert(0, ast.keyword(first[name], call.args.pop()))
                changed = True
    return changed


def _in_mixin(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """Some methods move into a plain class that comes first."""
    methods = [n for n in _methods(trial) if not _calls_super(n)]
    moved = draw.sample(methods, draw.randrange(1, len(methods) + 1)) if methods else []
    moved = [n for n in moved if not n.name.startswith("__") or draw.random() < 0.3]
    return bool(moved) and _above(module, trial, moved, [])


def _in_base(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """Some methods move into a class between the trial and its bases."""
    methods = [n for n in _methods(trial) if not _calls_super(n)]
    moved = draw.sample(methods, draw.randrange(1, len(methods) + 1)) if methods else []
    bases, trial.bases = trial.bases, []
    return bool(moved) and _above(module, trial, moved, bases)


def _above(
    module: ast.Module,
    trial: ast.ClassDef,
    moved: list[ast.FunctionDef],
    bases: list[ast.expr],
) -> bool:
    name = f"{'Base' if bases else 'Mixin'}Of{trial.name}"
    if name in {n.name for n in module.body if isinstance(n, ast.ClassDef)}:
        return False
    trial.body = [n for n in trial.body if n not in moved] or [ast.Pass()]
    above = ast.ClassDef(name, bases, [], [*moved], [])
    trial.bases.insert(0, _load(name))
    module.body.insert(module.body.index(trial), above)
    return True


def _dict_by_steps(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """``return {"a": b}`` becomes assignments to the items of a dict."""
    found = [
        (body, at)
        for body in _bodies(trial)
        for at, n in enumerate(body)
        if isinstance(n, ast.Return) and isinstance(n.value, ast.Dict) and all(n.value.keys)
    ]
    if not found:
        return False
    body, at = draw.choice(found)
    value = body[at].value  # type: ignore[attr-defined]
    name = _name(draw, "metrics")
    items = [
        ast.Assign([ast.Subscript(_load(name), key, ast.Store())], item)
        for key, item in zip(value.keys, value.values, strict=True)
    ]
    body[at : at + 1] = [_set(name, ast.Dict([], [])), *items, ast.Return(_load(name))]
    return True


def _imported_whole(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """``from determined.pytorch import X`` becomes ``import determined.pytorch as det_torch``."""
    imports = [
        n for n in module.body if isinstance(n, ast.ImportFrom) and n.module == "determined.pytorch"
    ]
    if not imports:
        return False
    names = {a.asname or a.name: a.name for a in imports[0].names}
    new = ast.Import([ast.alias("determined.pytorch", "det_torch")])
    module.body[module.body.index(imports[0])] = new

    class Qualified(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id in names:
                return ast.Attribute(_load("det_torch"), names[node.id], node.ctx)
            return node

    Qualified().visit(module)
    return True


def _other_parameter(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """The parameters of one method, and the names in it, get other names."""
    renamable = ("__init__", "train_batch", "evaluate_batch")
    methods = [n for n in _methods(trial) if n.name in renamable]
    if not methods:
        return False
    method = draw.choice(methods)
    renamed = {a.arg: f"{a.arg}_" for a in method.args.args[1:] if a.arg in ("context", "batch")}
    for node in ast.walk(method):
        if isinstance(node, ast.arg) and node.arg in renamed and node in method.args.args:
            node.arg = renamed[node.arg]
        elif isinstance(node, ast.Name) and node.id in renamed:
            node.id = renamed[node.id]
    return bool(renamed)


def _walrus(module: ast.Module, trial: ast.ClassDef, draw: Random) -> bool:
    """``self.x = f()`` becomes ``self.x = (made := f())``."""
    found = _one(draw, trial, ast.Assign)
    if found is None:
        return False
    body, at = found
    statement = body[at]
    assert isinstance(statement, ast.Assign)
    if isinstance(statement.value, (ast.Tuple, ast.Starred)):
        return False
    statement.value = ast.NamedExpr(ast.Name(_name(draw, "made"), ast.Store()), statement.value)
    return True


#: Each changes the trial, or returns False where it does not apply.
MUTATIONS: dict[str, Callable[[ast.Module, ast.ClassDef, Random], bool]] = {
    "value first": _value_first,
    "argument first": _argument_first,
    "annotated": _annotated,
    "together": _together,
    "in with": _inside(_in_with),
    "in if": _inside(_in_if),
    "in try": _inside(_in_try),
    "in method": _in_method,
    "context kept": _context_kept,
    "with keywords": _with_keywords,
    "in mixin": _in_mixin,
    "in base": _in_base,
    "dict by steps": _dict_by_steps,
    "imported whole": _imported_whole,
    "other parameter": _other_parameter,
    "walrus": _walrus,
}
