"""Callbacks of older trials, whose hooks have other names in the context API, or none."""

import ast
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.migrate.target import Target
from det_compat.migrate.to_context.clipping import NOT_CALLED
from det_compat.migrate.to_context.target import old_trials
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import is_callback
from det_compat.migrate.tree.marks import marked

#: What takes the place of a hook, given the same arguments.
_TODAY = {
    "on_validation_step_start": "on_validation_start",
    "on_validation_step_end": "on_validation_end",
}
_AVERAGED = "on_training_workload_end"
_GONE = {
    "on_train_step_start": "Determined calls no hook as a step starts any more",
    "on_train_step_end": f"Determined calls {_AVERAGED} instead, with other arguments",
    "on_before_optimizer_step": NOT_CALLED[0],
}
_LINK = NOT_CALLED[1]


class OldHooks(Target):
    """Rewrites the callbacks of older trials.

    A trial of today never had these hooks called. What it names keeps their names; what both
    name, or none of them, where there are both, cannot have one for both, and is marked.
    """

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if no callback in it has such a hook."""
        facts = self.analysis.facts(path)
        if facts is None or not any(name.encode() in self.sources[path] for name in _HOOKS):
            return None
        hierarchy = self.analysis.inference.hierarchy
        names = {each.name for each in facts.classes.values() if is_callback(each, hierarchy)}
        old, today = self._trials
        if not names or not old:
            return None

        def rewritten(node: cst.ClassDef) -> cst.ClassDef:
            name = node.name.value
            if name not in names or (name in today and name not in old):
                return node
            return _with_hooks(node, is_old=not today or (name in old and name not in today))

        return syntax.each(cst.parse_module(self.sources[path]), cst.ClassDef, rewritten).bytes

    @cached_property
    def _trials(self) -> tuple[frozenset[str], frozenset[str]]:
        """What the classes of older trials name, and what those of today do."""
        hierarchy = self.analysis.inference.hierarchy
        named: tuple[set[str], set[str]] = set(), set()
        for facts in filter(None, map(self.analysis.facts, self.sources)):
            old = old_trials(facts, hierarchy)
            for scope in facts.classes.values():
                if scope.node is not None and hierarchy.is_trial(scope):
                    nodes = [*ast.walk(scope.node)]
                    names = (getattr(n, "id", getattr(n, "attr", "")) for n in nodes)
                    named[scope.name not in old].update(names)
        return frozenset(named[0]), frozenset(named[1])


_HOOKS = (*_TODAY, *_GONE)


def _with_hooks(node: cst.ClassDef, *, is_old: bool) -> cst.ClassDef:
    own = syntax.methods(node)
    lines = (_made_of(line, own, is_old=is_old) for line in syntax.body_of(node))
    return syntax.with_body(node, lines)


def _made_of(
    line: cst.BaseStatement, own: dict[str, cst.FunctionDef], *, is_old: bool
) -> cst.BaseStatement:
    name = line.name.value if isinstance(line, cst.FunctionDef) else ""
    if not isinstance(line, cst.FunctionDef) or name not in _HOOKS:
        return line
    new = _TODAY.get(name, "")
    if new and new not in own and is_old:
        return line.with_changes(name=cst.Name(new))
    if new:
        return marked(line, f"Determined calls {new} instead", _LINK)
    given = [param.name.value for param in line.params.params[1:]]
    if name == "on_train_step_end" and len(given) == 2 and _AVERAGED not in own and is_old:
        step, metrics = given
        asks = "num_inputs" in syntax.code(line.body) or step in syntax.names_in(line.body)
        if not asks:
            return _with_averages(line, metrics)
    return marked(line, _GONE[name], _LINK)


def _with_averages(line: cst.FunctionDef, metrics: str) -> cst.FunctionDef:
    """The hook at the end of a step as that at the end of a training workload."""
    text = f'{metrics} = {{"avg_metrics": avg_metrics, "batch_metrics": batch_metrics}}\n'
    made = syntax.method(
        f"def {_AVERAGED}({syntax.self_name(line)}, avg_metrics, batch_metrics):\n    pass\n"
    )
    first = syntax.statements(text) if metrics in syntax.names_in(line.body) else []
    return syntax.with_body(
        line.with_changes(name=made.name, params=made.params, returns=line.returns),
        [*first, *syntax.body_of(line)],
    )
