"""Files that stay as they are as a whole, since nothing in them has a counterpart."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from det_compat.analysis.classes import Hierarchy, is_refused_trial
from det_compat.analysis.relevant import takes_context
from det_compat.analysis.scopes import CONTEXT
from det_compat.catalog import support
from det_compat.migrate.results import FileResult
from det_compat.migrate.tree.elsewhere import reached
from det_compat.migrate.tree.facts import Facts
from det_compat.migrate.tree.marks import REST
from det_compat.migrate.tree.symbols import Symbols

#: What only a cluster of Determined does, or another framework.
_WITHOUT = ("det_compat.core.", "det_compat.info.", "pedl.frameworks.")
#: What is the same with or without, or only names where that is.
_PLAIN = ("determined", "pedl", "det_compat.LOG_FORMAT")
_USES = re.compile(rb"\b(?:determined|pedl)\b")


def of_other_frameworks(facts: Facts | None, hierarchy: Hierarchy) -> str:
    """Why a file has trials of another life cycle; ``""`` if it has none."""
    for scope in facts.classes.values() if facts is not None else ():
        for name in hierarchy.determined_bases(scope):
            if is_refused_trial(name):
                link = support.of_name(name).link
                return f"{scope.name} is a {name}, which migrate does not rewrite; see {link}"
    return ""


def without_training(facts: Facts | None, hierarchy: Hierarchy) -> str:
    """Why a trial of a file cannot be one of Lightning's, whose training step is in no file."""
    for scope in facts.classes.values() if facts is not None else ():
        unknown = [*hierarchy.unknown_bases(scope)]
        node = scope.node
        is_given = isinstance(node, ast.ClassDef) and takes_context(node)
        if not unknown or not (hierarchy.is_trial(scope) or is_given):
            continue
        known = {
            n for each in hierarchy.relatives(scope) for n in (*each.functions, *each.variables)
        }
        if known.isdisjoint(_TRAINING):
            return _FROM_NOWHERE.format(scope.name, " and ".join(dict.fromkeys(unknown)))
    return ""


#: What trains in each generation of trials.
_TRAINING = ("train_batch", "losses", "build_model")
_FROM_NOWHERE = (
    "{0} has no train_batch, and its base {1} is in no file that was read: "
    "migrate the folder that has both"
)


def of_model_hub(source: bytes) -> str:
    """Why a file stays that is of model_hub itself, whose private modules it imports, or ``""``."""
    if (private := _OF_MODEL_HUB.search(source)) is None:
        return ""
    name = private[1].decode()
    return _MODEL_HUB.format(name, support.of_name(f"model_hub.{name}").link or REST)


#: What only model_hub itself imports.
_OF_MODEL_HUB = re.compile(rb"(?m)^\s*(?:from|import) +model_hub[\w.]*(?:\.| import +)(_[a-z]\w*)")
_MODEL_HUB = "it is a part of model_hub, whose {0} it imports, and stays as it is; see {1}"


def without_counterparts(source: bytes, symbols: Symbols, *, is_off_clusters: bool) -> str:
    """Why there is nothing to rewrite in a file that uses Determined; ``""`` if there is.

    What the Core API calls a context is none of a trial's. Beside trials, code that asks for a
    cluster is told that there is none.
    """
    if part := of_model_hub(source):
        return part
    plain = (*_PLAIN, CONTEXT) if symbols.has("det_compat.core.init") else _PLAIN
    paths = [path for path in symbols.paths if path not in plain]
    if is_off_clusters:
        paths = [path for path in paths if not path.startswith("det_compat.info.get_cluster_info")]
    if not _USES.search(source) or not all(f"{path}.".startswith(_WITHOUT) for path in paths):
        return ""
    # A module has fewer dots than what is in it.
    named = sorted(path.partition("()")[0] for path in paths if path.count(".") > 1)
    link = support.of_name(named[0]).link or REST if named else ""
    name = named[0].removeprefix("det_compat.") if named else ""
    return f"it uses {name}, which has no counterpart; see {link}" if name else ""


def with_what_refused_ones_use(results: Mapping[Path, FileResult]) -> dict[Path, FileResult]:
    """The results, in which a file stays that only files use which stay as they are.

    What these give it, and ask of it, is still Determined's.
    """
    texts = {path: result.before for path, result in results.items()}
    used: dict[Path, Path] = {}
    for path, result in results.items():
        if result.problem and not _is_unparsable(result.before):
            used |= dict.fromkeys(reached(path, texts)[1:], path)
    kept = {path for path in used if results[path].is_changed and not results[path].trials}
    for path in {path for path, result in results.items() if kept and result.is_changed} - kept:
        kept -= {*reached(path, texts)}
    return {
        **results,
        **{
            path: FileResult(path, texts[path], texts[path], _USED.format(used[path].name))
            for path in kept
        },
    }


_USED = "{0}, which is not migrated, uses it"


def _is_unparsable(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return False
