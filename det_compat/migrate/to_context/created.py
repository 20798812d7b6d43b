"""Experiments that a script created on a cluster, which had its config, become scripts that train.

That is ``det.experimental.create(...)`` of Determined 0.12 to 0.16, and ``pedl.Experiment`` with
its ``create()``. What told the cluster how to search becomes no script: it stays, and is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.target import Target
from det_compat.migrate.to_context.unread_options import without_unread
from det_compat.migrate.tree import leftovers, syntax
from det_compat.migrate.tree.file import File, Line, Lines
from det_compat.migrate.tree.imports import tidied
from det_compat.migrate.tree.marks import above, on_devices
from det_compat.migrate.tree.symbols import resolve
from det_compat.migrate.tree.walking import below

_CREATE, _EXPERIMENT = "det_compat.experimental.create", "det_compat.pedl.Experiment"
_MODE = re.compile(r"determined\.experimental\.Mode(?:\.(\w+))?")
_SPACE = re.compile(r"(?:determined|det_compat\.pedl)\.(Constant|Categorical|Double|Int|Log)")
#: The number of batches in a step, where a config counts steps and does not say it.
_BATCHES = "100"
_STEPS = ("scheduling_unit", "batches_per_step")
_ARGUMENTS = words(
    """
    command config configuration context_dir context_directory local make_data_loaders_fn
    master_url mode test trial_def
    """
)
#: What sets the searcher of a config, or a part of it, to something else.
_SEARCHER = r"""{}\[["']searcher["']\]"""
_KEY = re.compile(r"""\[["'][^"']*["']\]$""")
#: What leaves a config as it is.
_READERS = words(
    """
    copy.deepcopy dict json.dump json.dumps len list pprint pprint.pprint pprint.pformat print str
    yaml.dump yaml.safe_dump
    """
)
_READING = words("copy get items keys values")
_ONE = """\
if {0}["name"] != "single":
    raise ValueError("this trains one trial, and a search several")
"""
_LATER = """\
if {0}.keys() & {{
{1}}}:
    raise ValueError("fit() below knows none of these")
"""
_OPTIMIZATIONS = {"aggregation_frequency"}
_PERIODS = {
    "min_validation_period": "validation_period",
    "min_checkpoint_period": "checkpoint_period",
}
#: What says how a config is trained, beside its searcher.
_KEPT = (*_PERIODS, "optimizations", "records_per_epoch")
_SAID = cst.Comment("# each process has to draw the same; another number draws others")
_SEED = "experiment_seed"
_SLOTS = "slots_per_trial"
_UNITS = {"batches": "Batch", "epochs": "Epoch"}


class Created(Target):
    """Rewrites the files of one analysis that create experiments."""

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether any file creates one."""
        return any(re.search(rb"\bcreate\(", text) for text in texts)

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it creates no experiment that one process can train."""
        facts = self.analysis.facts(path)
        if facts is None or b"create(" not in self.sources[path]:
            return None
        tree, symbols = resolve(self.sources[path], facts)
        if not symbols.has(_CREATE, _EXPERIMENT):
            return None
        file = File(symbols)
        scripts = _Scripts(file, tree)
        changed = syntax.transformed(tree, scripts)
        if not scripts.has_changed:
            return None
        changed = without_unread(syntax.transformed(changed, _Drawing(file)), tree)
        file.imports.new.add("from determined import pytorch")
        file.imports.kept.add("pytorch")
        return tidied(leftovers.put_back_silently(changed, file), file.imports).bytes


@dataclass
class _Config:
    """A config, as a script writes it out.

    Attributes:
        text: the expression that is the config, or a part of it.
        parts: its parts, by their keys.
        batches: the number of batches in a step, if it counts these; ``""`` if it does not.
    """

    text: str
    parts: Mapping[str, cst.BaseExpression] = field(default_factory=dict)
    batches: str = ""

    def part(self, name: str) -> _Config:
        """A part that has parts; an empty one for any other."""
        return _Config(f'{self.text}["{name}"]', _items(self.parts.get(name)), self.batches)

    def value(self, name: str) -> str:
        """The text in a part; ``""`` for anything else."""
        found = self.parts.get(name)
        return str(found.evaluated_value) if isinstance(found, cst.SimpleString) else ""

    def period(self, name: str) -> str | None:
        """A length, as ``pytorch.Batch`` or ``pytorch.Epoch``; None if it is in other units."""
        if self.batches and not isinstance(self.parts.get(name), cst.Dict):
            return f'pytorch.Batch({self.batches} * {self.text}["{name}"])'
        length = self.part(name)
        if len(length.parts) != 1 or not length.parts.keys() <= _UNITS.keys():
            return None
        (unit,) = length.parts
        return f'pytorch.{_UNITS[unit]}({length.text}["{unit}"])'


def _items(node: cst.BaseExpression | None) -> dict[str, cst.BaseExpression]:
    if isinstance(node, cst.Call):
        # ``dict(searcher=...)``
        named = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
        is_plain = syntax.code(node.func) == "dict" and len(named) == len(node.args)
        return named if is_plain else {}
    elements = node.elements if isinstance(node, cst.Dict) else ()
    keys = {e.key: e.value for e in elements if isinstance(e, cst.DictElement)}
    return {str(k.evaluated_value): v for k, v in keys.items() if isinstance(k, cst.SimpleString)}


class _Scripts(cst.CSTTransformer):
    def __init__(self, file: File, tree: cst.Module) -> None:
        super().__init__()
        self._file, self._symbols = file, file.symbols
        self._tree = tree
        self._names = [name.value for name in syntax.find(tree, cst.Name)]
        self._values: dict[str, list[cst.BaseExpression]] = {}
        pairs = [pair for line in syntax.find(tree, cst.Assign) for pair in syntax.pairs(line)]
        annotated = syntax.find(tree, cst.AnnAssign)
        pairs += [(line.target, line.value) for line in annotated if line.value is not None]
        for target, value in pairs:
            self._values.setdefault(syntax.code(target), []).append(value)
        self._made = {
            syntax.target_of(line): call
            for line in syntax.find(tree, cst.SimpleStatementLine)
            if (call := syntax.call_of(line)) and self._symbols.path(call.func) == _EXPERIMENT
        }
        blocks = [*syntax.find(tree, cst.For), *syntax.find(tree, cst.Try)]
        ifs = syntax.find(tree, cst.If)
        blocks += [each for each in ifs if "__name__" not in syntax.names_in(each.test)]
        inside = (line for block in blocks for line in syntax.find(block, cst.Assign))
        self._conditional = {_code(to) for line in inside for to, _ in syntax.pairs(line)}
        self.has_changed = False

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        target, call = syntax.target_of(updated), syntax.call_of(updated)
        uses = self._names.count(target) if target else 0
        if uses == 2 and self._trained(self._made.get(target)):
            # What it made is created below.
            return cst.RemoveFromParent()
        if call is None or uses > 1:
            return updated
        made = self._trained(self._experiment(call))
        if not made:
            return updated
        self.has_changed = True
        module = cst.parse_module(made)
        first, *rest = module.body
        comments = [*updated.leading_lines, *module.header]
        return cst.FlattenSentinel([above(first, comments), *rest])

    def _experiment(self, call: cst.Call) -> cst.Call | None:
        """The call that says what is created, if ``call`` creates it."""
        if self._symbols.path(call.func) == _CREATE:
            return call
        func = call.func
        if call.args or not isinstance(func, cst.Attribute) or func.attr.value != "create":
            return None
        if isinstance(func.value, cst.Call):
            return func.value if self._symbols.path(func.value.func) == _EXPERIMENT else None
        name = syntax.code(func.value)
        return self._made.get(name) if self._names.count(name) == 2 else None

    def _trained(self, call: cst.Call | None) -> str:
        """The statements that train what a call creates; ``""`` if there are none."""
        given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword} if call else {}
        if call is None or len(given) < len(call.args) or not given.keys() <= _ARGUMENTS:
            return ""
        found = given.get("config", given.get("configuration"))
        config = self._config(found)
        if "max_steps" in config.part("searcher").parts:
            said = [f'{config.text}["{key}"]' for key in _STEPS if key in config.parts]
            config.batches = (said or [_BATCHES])[0]
        searcher, optimizations = config.part("searcher"), config.part("optimizations")
        length = searcher.period("max_steps" if config.batches else "max_length")
        data = given.get("make_data_loaders_fn")
        is_known = (
            (data is None or syntax.code(data).rpartition(".")[2] == "make_data_loaders")
            and {"hyperparameters", "searcher"} <= config.parts.keys()
            and searcher.value("name") == "single"
            and not any(re.match(_SEARCHER.format(re.escape(config.text)), n) for n in self._values)
            and optimizations.parts.keys() <= _OPTIMIZATIONS
            and "records_per_epoch" not in config.parts
        )
        periods = {new: config.period(old) for old, new in _PERIODS.items() if old in config.parts}
        trial = self._trial(given.get("trial_def"), config) if is_known else ""
        if not (trial and length) or None in periods.values():
            return ""
        name = "context" if "context" not in self._names else "train_context"
        init = f'hparams={config.text}["hyperparameters"], exp_conf={config.text}'
        if "aggregation_frequency" in optimizations.parts:
            init += f', aggregation_frequency={optimizations.text}["aggregation_frequency"]'
        fit = [f"max_length={length}", *(f"{name}={value}" for name, value in periods.items())]
        if test := self._test_mode(given):
            fit.append(f"test_mode={test}")
        start = "" if isinstance(found, cst.Name) else f"{config.text} = {_code(found)}\n"
        is_changed = isinstance(found, cst.Name) and self._may_change(found.value)
        if is_changed:
            start += _ONE.format(searcher.text)
            # A step of a config that says none has as many batches as Determined took for one.
            asked = (*_KEPT, *(_STEPS if config.batches == _BATCHES else ()))
            later = "".join(f'    "{name}",\n' for name in asked if name not in config.parts)
            start += _LATER.format(config.text, later) if later else ""
        if _SEED in config.part("reproducibility").parts:
            start += self._seeded(f'{config.text}["reproducibility"]["{_SEED}"]')
        if (number := self._devices(config, is_changed)) and not self._is_local(given):
            start += f"{on_devices(number)}\n"
        return (
            f"{start}with pytorch.init({init}) as {name}:\n"
            f"    trainer = pytorch.Trainer({trial}({name}), {name})\n"
            f"    trainer.fit({', '.join(fit)})\n"
        )

    def _seeded(self, seed: str) -> str:
        """What seeds a script as its experiment was seeded: Python, NumPy and torch."""
        numpy = "np" if "np" not in self._names or "numpy" in self._names else "numpy"
        imported = "import numpy as np" if numpy == "np" else "import numpy"
        self._file.imports.new.update(("import random", imported, "import torch"))
        return f"random.seed({seed})\n{numpy}.random.seed({seed})\ntorch.manual_seed({seed})\n"

    def _config(self, node: cst.BaseExpression | None) -> _Config:
        """What a script gives as a config; an empty one if it isn't written out, or in two ways."""
        if isinstance(node, cst.Dict) or _items(node):
            return _Config("config", _items(node) if "config" not in self._values else {})
        name, values = _code(node), self._values.get(_code(node), [])
        parts = _items(values[0]) if len(values) == 1 else {}
        later: dict[str, cst.BaseExpression] = {}
        for key in _KEPT if parts else ():
            targets = {f'{name}["{key}"]', f"{name}['{key}']"}
            given = [value for each in targets for value in self._values.get(each, [])]
            if len(given) > 1 or targets & self._conditional:
                return _Config(name)
            later |= {key: given[0]} if given else {}
        return _Config(name, {**parts, **later})

    def _trial(self, node: cst.BaseExpression | None, config: _Config) -> str:
        if node is not None:
            return syntax.code(node) if isinstance(node, (cst.Name, cst.Attribute)) else ""
        module, _, name = config.value("entrypoint").partition(":")
        if not module.replace(".", "").isidentifier() or not name.isidentifier():
            return ""
        self._file.imports.new.add(f"from {module} import {name}")
        return name

    def _test_mode(self, given: Mapping[str, cst.BaseExpression]) -> str:
        """Whether one batch is all that there is to be, as an expression; ``""`` for never."""
        test, mode = given.get("test"), given.get("mode")
        if test is not None:
            return "" if syntax.code(test) == "False" else syntax.code(test)
        if isinstance(mode, cst.Call) and self._is_mode(mode.func) and mode.args:
            return f'{syntax.code(mode.args[0].value)} in ("local", "test")'
        named = _MODE.fullmatch(self._symbols.path(mode) or "")
        if named is None and isinstance(mode, cst.Attribute) and self._is_mode(mode.value):
            return "True" if mode.attr.value in ("LOCAL", "TEST") else ""
        return "True" if named is not None and named[1] in ("LOCAL", "TEST") else ""

    def _devices(self, config: _Config, is_changed: bool) -> str:
        """The number of devices that a config asks for, as an expression; ``""`` for one."""
        resources = config.part("resources")
        said = _code(resources.parts.get(_SLOTS))
        if said in ("", "0", "1") and is_changed:
            return f'{config.text}.get("resources", {{}}).get("{_SLOTS}", 1) or 1'
        return "" if said in ("", "0", "1") else f'{resources.text}["{_SLOTS}"]'

    def _may_change(self, name: str) -> bool:
        """Whether a script does more with a config than to read it, or to set one of its keys."""
        kept: list[cst.CSTNode | None] = [arg.keyword for arg in syntax.find(self._tree, cst.Arg)]
        for node in below(self._tree):
            if isinstance(node, cst.Attribute):
                kept += [node.attr, *([node.value] if node.attr.value in _READING else ())]
            elif isinstance(node, (cst.AssignTarget, cst.AnnAssign)):
                kept.append(node.target)
            elif isinstance(node, cst.Subscript):
                inner = node.value
                is_searcher = re.fullmatch(_SEARCHER.format(name), syntax.code(node))
                kept += [inner] if _KEY.search(syntax.code(node)) and not is_searcher else []
                if isinstance(inner, cst.Subscript):
                    kept.append(inner.value)
            elif isinstance(node, cst.Call) and self._reads(node):
                kept += [arg.value for arg in node.args]
        used = (each for each in syntax.find(self._tree, cst.Name) if each.value == name)
        return any(all(each is not other for other in kept) for each in used)

    def _reads(self, call: cst.Call) -> bool:
        is_created = self._symbols.path(call.func) in (_CREATE, _EXPERIMENT)
        return is_created or syntax.code(call.func) in _READERS

    def _is_local(self, given: Mapping[str, cst.BaseExpression]) -> bool:
        """Whether an experiment never is one of a cluster."""
        return _code(given.get("local")) == "True" or self._test_mode(given) == "True"

    def _is_mode(self, node: cst.BaseExpression) -> bool:
        return _MODE.fullmatch(self._symbols.path(node) or "") is not None


def _code(node: cst.BaseExpression | None) -> str:
    return "" if node is None else syntax.code(node)


class _Drawing(cst.CSTTransformer):
    """Puts values in place of the hyperparameters that are written out, and a seed before them."""

    def __init__(self, file: File) -> None:
        super().__init__()
        self._file, self._is_seeded = file, False

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        changed = syntax.each(updated, cst.Call, lambda call: _value(call, self._file))
        before, after = (syntax.code(each).count("random.") for each in (updated, changed))
        if before == after or self._is_seeded:
            return changed
        self._is_seeded = True
        seeded = above(syntax.statement("random.seed(0)\n"), [cst.EmptyLine(comment=_SAID)])
        seeded = above(seeded, changed.leading_lines)
        return cst.FlattenSentinel([seeded, changed.with_changes(leading_lines=[])])


def _value(call: cst.Call, file: File) -> cst.BaseExpression:
    """A hyperparameter of a config; one that is searched is drawn, as for a single trial."""
    found = _SPACE.fullmatch(file.symbols.path(call.func) or "")
    names = {"Constant": ["value"], "Categorical": ["vals"], "Log": ["minval", "maxval", "base"]}
    if found is None:
        return call
    kind = found[1]
    given = [
        syntax.argument(call, index, name)
        for index, name in enumerate(names.get(kind, ["minval", "maxval"]))
    ]
    if kind == "Log" and given[2] is None:
        given[2] = cst.Integer("10")
    if None in given:
        return call
    first, *rest = map(_code, given)
    if kind == "Constant":
        return given[0] or call
    file.imports.new.add("import random")
    drawn = {
        "Categorical": f"random.choice({first})",
        "Int": f"random.randint({', '.join([first, *rest])})",
        "Double": f"random.uniform({', '.join([first, *rest])})",
    }
    if kind in drawn:
        return syntax.expression(drawn[kind])
    return syntax.expression(f"{rest[1]} ** random.uniform({first}, {rest[0]})")
