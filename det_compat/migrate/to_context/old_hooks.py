"""Callbacks of older trials, whose hooks have other names in the context API, or none."""

from pathlib import Path

import libcst as cst

from det_compat.migrate.target import Target
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
    "on_before_optimizer_step": "Determined does not call this any more: clip_grads of "
    "step_optimizer is given the parameters",
}
_LINK = "MIGRATION.md#determined-012"


class OldHooks(Target):
    """Rewrites callbacks wherever there are older trials."""

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if no callback in it has such a hook."""
        facts = self.analysis.facts(path)
        if facts is None or not any(name.encode() in self.sources[path] for name in _HOOKS):
            return None
        hierarchy = self.analysis.inference.hierarchy
        names = {each.name for each in facts.classes.values() if is_callback(each, hierarchy)}
        if not names or not self._has_old_trials:
            return None

        def rewritten(node: cst.ClassDef) -> cst.ClassDef:
            return _with_hooks(node) if node.name.value in names else node

        return syntax.each(cst.parse_module(self.sources[path]), cst.ClassDef, rewritten).bytes

    @property
    def _has_old_trials(self) -> bool:
        found = (self.analysis.facts(path) for path in self.sources)
        hierarchy = self.analysis.inference.hierarchy
        return any(old_trials(facts, hierarchy) for facts in found if facts is not None)


_HOOKS = (*_TODAY, *_GONE)


def _with_hooks(node: cst.ClassDef) -> cst.ClassDef:
    own = syntax.methods(node)
    lines = (_made_of(line, own) for line in syntax.body_of(node))
    return syntax.with_body(node, lines)


def _made_of(line: cst.BaseStatement, own: dict[str, cst.FunctionDef]) -> cst.BaseStatement:
    name = line.name.value if isinstance(line, cst.FunctionDef) else ""
    if not isinstance(line, cst.FunctionDef) or name not in _HOOKS:
        return line
    new = _TODAY.get(name, "")
    if new and new not in own:
        return line.with_changes(name=cst.Name(new))
    if new:
        return marked(line, f"Determined calls {new} instead", _LINK)
    given = [param.name.value for param in line.params.params[1:]]
    if name == "on_train_step_end" and len(given) == 2 and _AVERAGED not in own:
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
