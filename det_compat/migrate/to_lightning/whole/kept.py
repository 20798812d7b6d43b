"""What a validation may keep from one of its hooks to the next, as attributes of the module."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.whole.flow import loads, stored

_DISPLAYS = (
    ast.Constant,
    ast.JoinedStr,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.Tuple,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Compare,
    ast.BinOp,
    ast.UnaryOp,
)
#: What these make is no module.
_MAKERS = words(
    """
    list dict set tuple frozenset defaultdict Counter deque OrderedDict int float str bool len sum
    min max abs round range sorted time perf_counter monotonic
    """
)
#: Functions of torch's that make tensors.
_TENSORS = words("zeros ones empty full tensor as_tensor zeros_like ones_like arange linspace")
#: What these give may be a module.
_MAY_GIVE_MODULE = re.compile(
    r"[A-Z]|eval$|train$|deepcopy$|copy$|requires_grad_$|getattr$|next$|pop$|get$|to$|cuda$|cpu$"
    r"|(build|make|create|load|get)_?(\w*_)?(model|module|net)"
)
#: What draws random numbers, or gives what others draw.
_DRAWING = re.compile(
    r"(?i).*(rand|shuffl|permut|choice|sampl|seed|noise|uniform|bernoulli|multinomial|dropout)"
    r"|(normal_?|next|iter)$"
)
#: What the attributes of a module say that no validation changes.
LASTING = words("trainer hparams device current_epoch global_step")


def is_repeatable(value: ast.expr, own: str, changed: Collection[str]) -> bool:
    """Whether an expression is the same in all hooks of a validation, and makes nothing.

    Args:
        value: the expression.
        own: what the module is called.
        changed: the attributes of it that are set when it trains or validates.
    """
    if isinstance(value, ast.Attribute):
        attribute, depth = value, 0
        while isinstance(attribute.value, ast.Attribute):
            attribute, depth = attribute.value, depth + 1
        if not isinstance(attribute.value, ast.Name) or attribute.value.id != own:
            return False
        is_known = attribute.attr in LASTING
        return is_known or (depth == 0 and attribute.attr not in changed)
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Tuple):
        return all(isinstance(each, ast.Constant) for each in value.elts)
    if isinstance(value, ast.BinOp):
        return all(is_repeatable(each, own, changed) for each in (value.left, value.right))
    if isinstance(value, ast.Call):
        return ast.unparse(value) == "torch.cuda.is_available()"
    if isinstance(value, ast.Subscript):
        is_plain = isinstance(value.slice, ast.Constant)
        text = ast.unparse(value.value)
        return is_plain and text in (f"{own}.hparams", f"{own}.trainer.num_val_batches")
    return False


def values_of(body: Sequence[ast.stmt], name: str) -> Iterator[ast.expr]:
    """What a variable is set to."""
    for node in (each for line in body for each in ast.walk(line)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _given(target, node.value, name)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from _given(node.target, node.value, name)


def _given(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        is_paired = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
        for at, each in enumerate(target.elts):
            given = value.elts[at] if is_paired and isinstance(value, ast.Tuple) else value
            yield from _given(each, given, name)
    elif name in stored(target):
        yield value


def is_no_module(value: ast.expr, texts: Mapping[str, str], own: str) -> bool:
    """Whether a value that is made before the loop is known to be no module."""
    if isinstance(value, _DISPLAYS):
        return True
    if isinstance(value, ast.IfExp):
        return all(is_no_module(each, texts, own) for each in (value.body, value.orelse))
    if not isinstance(value, ast.Call):
        return False
    path = ast.unparse(value.func)
    owner, _, name = path.rpartition(".")
    if owner.partition(".")[0] == own:
        return False
    if name in texts:
        return _is_plain_class(name, texts)
    if owner == "torch" and name in _TENSORS:
        return True
    is_numpys = owner.partition(".")[0] in ("np", "numpy", "math") and name[:1].islower()
    return is_numpys or (name in _MAKERS and owner in ("", "collections", "time"))


def _is_plain_class(name: str, texts: Mapping[str, str], seen: tuple[str, ...] = ()) -> bool:
    """Whether all classes of a name derive from nothing but such classes."""
    tree = ast.parse(_dedented(texts.get(name, "")))
    found = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if not found or len(found) < len(tree.body) or name in seen:
        return False
    bases = [ast.unparse(base).rpartition(".")[2] for node in found for base in node.bases]
    is_known = all(b == "object" or _is_plain_class(b, texts, (*seen, name)) for b in bases)
    return is_known and not any(node.keywords or node.decorator_list for node in found)


def _dedented(text: str) -> str:
    try:
        ast.parse(text)
    except SyntaxError:
        return ""
    return text


def may_be_module(value: ast.expr, made: Collection[str]) -> bool:
    """Whether a value of a loop may be a module.

    Args:
        value: the value.
        made: the variables that the loop sets, and what it goes through.
    """
    if isinstance(value, _DISPLAYS):
        return False
    if isinstance(value, ast.IfExp):
        return any(may_be_module(each, made) for each in (value.body, value.orelse))
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func).rpartition(".")[2]
        root = _root(value.func)
        is_of_batch = isinstance(value.func, ast.Attribute) and root in made
        return not is_of_batch and _MAY_GIVE_MODULE.match(name) is not None
    return _root(value) not in made


def _root(value: ast.expr) -> str:
    while isinstance(value, (ast.Attribute, ast.Subscript, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value.id if isinstance(value, ast.Name) else ""


def draws(body: Sequence[ast.stmt], texts: Mapping[str, str], seen: set[str] | None = None) -> bool:
    """Whether some statements may draw random numbers, or code of the project that they call."""
    seen = set() if seen is None else seen
    for node in (each for line in body for each in ast.walk(line)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if _DRAWING.match(name) and not name.startswith("num_"):
            return True
        if name not in seen:
            seen.add(name)
            if draws([*_defined(name, texts)], texts, seen):
                return True
    return False


def _defined(name: str, texts: Mapping[str, str]) -> Iterator[ast.stmt]:
    """The classes and functions of a name, also those that are methods."""
    if name in texts:
        yield from ast.parse(_dedented(texts[name])).body
        return
    for text in texts.values():
        if f"def {name}(" in text:
            nodes = ast.walk(ast.parse(_dedented(text)))
            yield from (n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == name)


def decides_on_data(body: Sequence[ast.stmt], own: str) -> bool:
    """Whether data decide what is logged: devices wait for each other where one does not log."""
    told = {*_mappings(body, own)}
    for line in (each for top in body for each in ast.walk(top)):
        if isinstance(line, ast.Try):
            asked: list[ast.AST] = [line]
        elif isinstance(line, (ast.If, ast.While)):
            asked = [line.test]
        elif isinstance(line, ast.For):
            asked = [line.iter]
        else:
            continue
        names = {each.id for a in asked for each in ast.walk(a) if isinstance(each, ast.Name)}
        is_ending = any(
            isinstance(each, ast.Return) or is_log(each, own) or _makes_one_of(each, told)
            for each in ast.walk(line)
        )
        if is_ending and names - {own, "len", "isinstance", "int", "hasattr", "getattr"}:
            return True
    return False


def _mappings(body: Sequence[ast.stmt], own: str) -> Iterator[str]:
    """The dicts that are logged, with all that is in them, as code."""
    for call in (node for line in body for node in ast.walk(line)):
        for given in call.args[:1] if isinstance(call, ast.Call) and is_log(call, own) else ():
            nodes = [n for n in ast.walk(given) if isinstance(n, ast.Attribute)]
            items = {ast.unparse(node.value) for node in nodes if node.attr == "items"}
            yield from items or ([ast.unparse(given)] if isinstance(given, _NAMES) else [])


_NAMES = (ast.Name, ast.Attribute)


def _makes_one_of(node: ast.AST, told: Collection[str]) -> bool:
    """Whether a statement makes one of these dicts another, or puts something into it."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        targets = [node.func.value] if node.func.attr in ("update", "setdefault", "pop") else []
    owners = (each.value if isinstance(each, ast.Subscript) else each for each in targets)
    return any(ast.unparse(each) in told for each in owners)


def has_keys_of_data(
    before: Sequence[ast.stmt], body: Sequence[ast.stmt], after: Sequence[ast.stmt]
) -> bool:
    """Whether what is logged may be told by a dict that the batches fill, with other keys each."""
    names = {name for line in before for name in stored(line)}
    empty = {n for n in names if any(map(_is_empty_dict, values_of(before, n)))}
    empty &= {name for line in body for name in loads(line)}
    nodes = [node for line in after for node in ast.walk(line)]
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Subscript)}
    read = (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return any(node.id in empty and id(node) not in asked for node in read)


def _is_empty_dict(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in _DICTS
    return isinstance(value, ast.Dict) and not value.keys


_DICTS = words("dict defaultdict Counter OrderedDict")


def is_log(node: ast.AST, own: str) -> bool:
    """Whether this logs a metric."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in (
        f"{own}.log",
        f"{own}.log_dict",
    )


#: What a module has that is the same, whatever its share of the data.
_NO_DATA = words("hparams device logger trainer training log log_dict current_epoch global_step")


def meets_data(
    before: Sequence[ast.stmt], body: Sequence[ast.stmt], after: Sequence[ast.stmt], own: str
) -> bool:
    """Whether what the batches leave is handed on with what the module has of all the data.

    A device that has gone through a share of these would miss the others there.
    """
    found = {name for line in (*before, *body) for name in stored(line)}
    known: set[str] = set()
    for line in after:
        if isinstance(line, ast.Assign) and _is_data(line.value, own):
            known |= {*stored(line)}
        for node in ast.walk(line):
            if isinstance(node, ast.Call) and not is_log(node, own):
                given = [*node.args, *(each.value for each in node.keywords)]
                asked: list[ast.expr] = given
            elif isinstance(node, ast.Subscript):
                given, asked = [node.value], [node.slice]
            else:
                continue
            nodes = [each for a in asked for each in ast.walk(a)]
            names = {name for each in asked for name in loads(each)}
            meets = bool(names & known) or any(_is_data(each, own) for each in nodes)
            if meets and found & set().union(*map(loads, given)):
                return True
        if found & loads(line):
            found |= {*stored(line)}
    return False


def _is_data(node: ast.AST, own: str) -> bool:
    """Whether this is what a module has, or a part of it, which may be of all the data."""
    while isinstance(node, ast.Attribute) and ast.unparse(node.value) != own:
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr not in _NO_DATA
