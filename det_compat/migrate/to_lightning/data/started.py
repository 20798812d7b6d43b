"""Loaders whose data are made by processes that they start themselves.

Lightning (2.6.6) sets a handler of SIGTERM before it asks for loaders. The processes of a pool
inherit it, and with it they may outlive the signal by which the pool ends them: ``fit()`` hangs.
``setup()`` comes before.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile

import libcst as cst

from det_compat.migrate.line_length import spaced
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.to_lightning.moving.lines import hands_on
from det_compat.migrate.to_lightning.optimization.kept import by_attributes
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.to_lightning.taken.reserved import HOOKS, KEPT, RESERVED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere, parsed
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.trial_attributes import attributes_changed, reachable

#: What is said where such data stay in the method that makes the loader.
LEFT = "fit() may hang here, as Lightning may keep the pool from ending: start it in setup()"
#: The stages in which Lightning asks for each loader.
_STAGES = {"train_dataloader": '== "fit"', "val_dataloader": 'in ("fit", "validate")'}
#: What starts a pool: multiprocessing's, and a function of the library transformers.
_STARTING = re.compile(r"\bsquad_convert_examples_to_features\(|\b(?:multiprocessing|mp)\.Pool\(")
_POOL = re.compile(r"(?<![\w.])Pool\(")
#: What of Lightning's a module has in setup() as it has it later.
_EARLY = {"hparams", "trainer", "global_rank", "local_rank"}
_EARLY_OF_TRAINER = {"world_size", "global_rank", "local_rank", "num_nodes", "num_devices"}
#: What runs between setup() and the loaders.
_BETWEEN = ("configure_model", "configure_optimizers", "on_fit_start")
_READ = re.compile(r"\bself\.(\w+)")
_OF_TRAINER = re.compile(r"\bself\.trainer\b\.?(\w*)")


def with_data_in_setup(node: cst.ClassDef, plan: TrialPlan, around: Elsewhere) -> cst.ClassDef:
    """A module that makes in ``setup()`` what starts a pool of processes.

    Where it cannot be taken out of the method that makes the loader, this is marked.

    Args:
        node: the class, after all passes.
        plan: what became of it.
        around: the code that it calls.
    """
    own = syntax.methods(node)
    # What ``__init__`` has made is there before Lightning comes.
    names = {*reachable(own, *NAMES.values())} - {*reachable(own, "__init__")}
    late = {name: own[name] for name in own if name in names - {*NAMES.values()}}
    lines = {
        name: found
        for name in NAMES.values()
        if name in names and (found := [*_starting(own[name], late, around)])
    }
    splits = {
        name: split
        for name, found in lines.items()
        if (split := _split(own[name], found))
        and not any(_starting(syntax.with_body(own[name], split.rest), late, around))
    }
    if lines and plan.is_single and splits.keys() == lines.keys():
        models = {word for each in plan.all_models for word in re.findall(r"\w+", each.attribute)}
        attributes = {name: _attributes(name, splits, node) for name in splits}
        if _Moving(own, splits, models, around).is_sure() and None not in attributes.values():
            return _with_setup(node, splits, attributes)
    for name, found in lines.items():
        loader = own[name]
        for line in found:
            loader = syntax.with_node(loader, line, marked(line, LEFT))
        node = syntax.with_node(node, own[name], loader)
    return node


def _starting(
    method: cst.FunctionDef, late: Mapping[str, cst.FunctionDef], around: Elsewhere
) -> Iterator[cst.BaseStatement]:
    """The statements of a method that start a pool, by themselves or by what they call."""
    is_imported = any("multiprocessing" in path for path in around.imported.get("Pool", ()))
    kinds = (_STARTING, _POOL) if is_imported else (_STARTING,)
    for line in syntax.body_of(method):
        texts = around.reached(map(syntax.code, (line, *_asked_in([line], late))))
        if any(kind.search(text) for text in texts for kind in kinds):
            yield line


def _asked_in(
    lines: Sequence[cst.BaseStatement], own: Mapping[str, cst.FunctionDef]
) -> list[cst.FunctionDef]:
    """The methods and properties that statements ask an object for, and these, and so on."""
    found = {node.attr.value for line in lines for node in syntax.find(line, cst.Attribute)}
    return [own[name] for name in reachable(own, *sorted(found & own.keys()))]


@dataclass(frozen=True)
class _Split:
    """A method that makes a loader, in two.

    Attributes:
        first: what is made in ``setup()``.
        rest: what stays.
        kept: the variables of the first that the rest has.
    """

    first: Sequence[cst.BaseStatement]
    rest: Sequence[cst.BaseStatement]
    kept: frozenset[str]


def _split(method: cst.FunctionDef, starting: Sequence[cst.BaseStatement]) -> _Split | None:
    """A method behind the last statement that starts a pool; None if it may end before."""
    body = [*syntax.body_of(method)]
    at = max(map(body.index, starting)) + 1
    if at == len(body):
        body[-1:] = _apart(body[-1], f"{_kind(method.name.value)}_dataset")
    # What is bound once more is made as a whole.
    while again := [n for n in range(at, len(body)) if _bound(body[n:]) & _bound(body[:at])]:
        at = again[-1] + 1
    start = 1 if syntax.has_docstring(body) else 0
    first, rest = body[start:at], body[at:]
    yields = any(True for line in body for _ in syntax.find(line, cst.Yield))
    if not rest or yields or syntax.returns_in(first):
        return None
    asked = {name for line in rest for name in syntax.names_in(line)}
    return _Split(first, rest, frozenset(_bound(first) & asked))


def _apart(line: cst.BaseStatement, name: str) -> list[cst.BaseStatement]:
    """``return DataLoader(made(...), ...)``, whose data are a variable ``name`` before."""
    small = syntax.simple(line)
    call = small.value if isinstance(small, cst.Return) else None
    if not isinstance(call, cst.Call) or not call.args or name in syntax.names_in(line):
        return [line]
    given = call.args[0]
    if given.star or given.keyword or "(" in syntax.code(call.func):
        return [line]
    made = syntax.statement(f"{name} = {syntax.code(given.value)}")
    return [made, syntax.with_node(line, given.value, cst.Name(name))]


def _kind(name: str) -> str:
    return name.partition("_")[0]


def _nodes(lines: Sequence[cst.BaseStatement]) -> list[ast.AST]:
    made = syntax.with_body(syntax.method("def made():\n    pass\n"), lines)
    (function,) = parsed(syntax.code(made)).body
    return [*ast.walk(function)][1:]


def _bound(lines: Sequence[cst.BaseStatement], *, oddly: bool = False) -> set[str]:
    """The variables that statements bind; those that they bind otherwise than by ``=``."""
    nodes = _nodes(lines)
    setting = (ast.Assign, ast.AnnAssign, ast.AugAssign)
    plain = Counter(
        name
        for node in nodes
        if isinstance(node, setting)
        for target in getattr(node, "targets", None) or [getattr(node, "target", node)]
        for name in _stored([*ast.walk(target)])
    )
    inner = Counter(
        name
        for node in nodes
        if isinstance(node, ast.comprehension)
        for name in _stored([*ast.walk(node.target)])
    )
    every = Counter(_stored(nodes))
    defining = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    odd = {name for name in every if every[name] > plain[name] + inner[name]}
    odd |= {node.name for node in nodes if isinstance(node, defining)}
    odd |= {n.asname or n.name.partition(".")[0] for n in nodes if isinstance(n, ast.alias)}
    if oddly:
        return odd | {*inner} | {node.arg for node in nodes if isinstance(node, ast.arg)}
    return odd | {*plain}


def _stored(nodes: Sequence[ast.AST]) -> Iterator[str]:
    return (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _attributes(
    name: str, splits: Mapping[str, _Split], node: cst.ClassDef
) -> dict[str, str] | None:
    """The attributes in place of variables that a loader keeps; None if one can have none."""
    split, found = splits[name], dict[str, str]()
    others = {n for other in splits.values() if other is not split for n in other.kept}
    taken = {*syntax.methods(node), *RESERVED, *KEPT, *HOOKS}
    for variable in sorted(split.kept - _bound([*split.first, *split.rest], oddly=True)):
        names = (*([] if variable in others else [variable]), f"{_kind(name)}_{variable}")
        free = (n for n in names if n not in taken and not syntax.has_attribute(node, n))
        if attribute := next(free, ""):
            found[variable] = f"self.{attribute}"
    return found if found.keys() == split.kept else None


@dataclass(frozen=True)
class _Moving:
    """Whether loaders are the same when a part of each is made in ``setup()``.

    Attributes:
        own: the methods of the module.
        splits: the parts of these loaders.
        models: the attributes that keep models.
        around: the code that the module calls.
    """

    own: Mapping[str, cst.FunctionDef]
    splits: Mapping[str, _Split]
    models: Collection[str]
    around: Elsewhere

    def is_sure(self) -> bool:
        """Whether they are."""
        setup = self.own.get("setup")
        is_known = setup is None or _parameters(setup) == ["self", "stage"]
        # What runs later finds what a variable of setup() was set to last.
        bound = [_bound(split.first) - split.kept for split in self.splits.values()]
        later = (ast.Lambda, ast.FunctionDef, ast.ClassDef, ast.GeneratorExp)
        nodes = [node for split in self.splits.values() for node in _nodes(split.first)]
        is_shared = len(bound) > 1 and bool(set.intersection(*bound))
        is_shared &= any(isinstance(node, later) for node in nodes)
        return is_known and not is_shared and all(map(self._is_early, self.splits))

    def _is_early(self, name: str) -> bool:
        """Whether all that a part needs is there in ``setup()``."""
        loader, split = self.own[name], self.splits[name]
        asked = _asked_in(split.first, self.own)
        read = {each for part in (*split.first, *asked) for each in _read(part)}
        of_trainer = {*_OF_TRAINER.findall("\n".join(map(syntax.code, (*split.first, *asked))))}
        return (
            _parameters(loader) == ["self"]
            and not loader.decorators
            and all(syntax.self_name(method) == "self" for method in asked)
            and not any(hands_on(part, "self") for part in (*split.first, *asked))
            and not any(syntax.mentions(m, f"self.{name}") for m in self.own.values())
            and not any("stage" in syntax.names_in(line) for line in split.first)
            and read & (RESERVED | HOOKS | KEPT) <= _EARLY
            and of_trainer <= _EARLY_OF_TRAINER
            and read.isdisjoint(self.models)
            and self._commutes(name, asked)
        )

    def _commutes(self, name: str, asked: Sequence[cst.FunctionDef]) -> bool:
        """Whether a part may run before what ran before it."""
        parts = [syntax.with_body(self.own[name], self.splits[name].first), *asked]
        before = [self.own[each] for each in reachable(self.own, *_BETWEEN)]
        training = self.own.get("train_dataloader")
        if name == "val_dataloader" and training is not None:
            if "train_dataloader" in self.splits:
                training = syntax.with_body(training, self.splits["train_dataloader"].rest)
            before += [training, *_asked_in(syntax.body_of(training), self.own)]
        draws = (self.around.may_draw(map(syntax.code, each)) for each in (parts, before))
        return _is_apart(parts, before) and _is_apart(before, parts) and not all(draws)


def _is_apart(some: Sequence[cst.FunctionDef], others: Sequence[cst.FunctionDef]) -> bool:
    """Whether methods change no attribute that others read."""
    changed = {name for method in some for name in attributes_changed(method)}
    return changed.isdisjoint(name for method in others for name in _read(method))


def _read(node: cst.CSTNode) -> list[str]:
    return _READ.findall(syntax.code(node))


def _parameters(method: cst.FunctionDef) -> list[str]:
    return [each.name.value for each in syntax.find(method.params, cst.Param)]


def _with_setup(
    node: cst.ClassDef,
    splits: Mapping[str, _Split],
    attributes: Mapping[str, Mapping[str, str] | None],
) -> cst.ClassDef:
    """The module with the first parts in ``setup()``, below what it does there."""
    own, made = syntax.methods(node), list[cst.BaseStatement]()
    for name, split in splits.items():
        names = attributes[name] or {}
        branch = syntax.statement(f"if stage {_STAGES[name]}:\n    pass\n")
        assert isinstance(branch, cst.If)
        made.append(syntax.with_body(branch, by_attributes(split.first, names)))
        body = [*syntax.body_of(own[name])]
        start = body[:1] if syntax.has_docstring(body) else []
        rest = by_attributes(split.rest, names)
        rest[0] = _without_blank(rest[0])
        node = syntax.with_node(node, own[name], syntax.with_body(own[name], [*start, *rest]))
    if "setup" in own:
        setup = syntax.with_body(own["setup"], [*syntax.body_of(own["setup"]), *made])
        return syntax.with_node(node, own["setup"], setup)
    setup = syntax.with_body(syntax.method("def setup(self, stage):\n    pass\n"), made)
    body, methods = [*syntax.body_of(node)], syntax.methods(node)
    at = min(body.index(methods[name]) for name in splits)
    return syntax.with_body(
        node, spaced([*body[:at], setup, _without_blank(body[at]), *body[at + 1 :]])
    )


def _without_blank(line: cst.BaseStatement) -> cst.BaseStatement:
    """A statement without blank lines above it and its comments."""
    lines = dropwhile(lambda each: each.comment is None, getattr(line, "leading_lines", ()))
    return line.with_changes(leading_lines=[*lines])
