"""Whether what Lightning validates before it trains would leave anything behind.

Determined never did that. Lightning's check goes through two batches, and takes the random numbers
back that these have drawn; so only what stays in objects, files and loaders counts.
"""

import ast
import re
from collections.abc import Iterator, Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.data.loader_order import (
    VALIDATION_LOADER,
    Function,
    Project,
    leave_out_shared,
    methods_of,
    traces,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere

_EVALUATION = "evaluate_batch"
#: What is noted elsewhere than in the trial, or goes through all data at once.
_NOTING = words("build_callbacks evaluate_full_dataset")
#: What models and data of the project may do whenever they are asked.
_ASKED = words("forward __getitem__ __iter__ __next__ __call__ __len__")
#: Random numbers that making a loader draws would be taken back, and workers that last are made.
_DRAWN = re.compile(
    r"rand|\.shuffle\(|\bsample\(|choice\(|KFold|train_test_split|seed|enerator|persistent|make_|Lazy"
)
#: Libraries whose functions draw nothing but what that finds.
_LIBRARIES = words(
    """
    PIL albumentations collections csv cv2 datasets functools glob h5py json logging math nltk
    numpy os pandas pathlib pickle re requests shutil sklearn skimage tarfile tempfile time
    tokenizers torch torchaudio torchtext torchvision tqdm transformers typing urllib yaml zipfile
    """
)
_QUIET = words("print info debug warning warn synchronize empty_cache")


def leaves_something(
    own: Mapping[str, cst.FunctionDef], project: Project, around: Elsewhere
) -> bool:
    """Whether validating two batches first changes what a trial does later, or may do so.

    Args:
        own: the methods of a trial.
        project: the code that these call.
        around: what is known of it.
    """
    if _EVALUATION not in own or own.keys() & _NOTING or VALIDATION_LOADER not in own:
        return True
    if any("wrap_reducer" in syntax.code(method) for method in own.values()):
        return True
    if any(project.changes(name).owner for name in _ASKED):
        return True
    making = traces(project, methods_of(own), [VALIDATION_LOADER])
    methods = methods_of(own)
    # What is done once, by whichever loader comes first, is there for the other as well.
    leave_out_shared(methods, of_both=True)
    all_of_it = traces(project, methods, [VALIDATION_LOADER, _EVALUATION])
    if any(not name.startswith("__det_") for name in all_of_it.changed):
        return True
    if any(_acts(function, methods, project) for function in all_of_it.seen):
        return True
    return any(
        _DRAWN.search(ast.unparse(function)) or any(_unknown(function, around, project))
        for function in making.seen
    )


def _acts(function: Function, methods: Mapping[str, Function], project: Project) -> bool:
    """Whether a function has a statement that is a call, of something else than its variables."""
    nodes = [*ast.walk(function)]
    local = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    me = [each.arg for each in function.args.args[:1]]
    for node in nodes:
        given = [getattr(arg, "id", "") for arg in node.args] if isinstance(node, ast.Call) else []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "open":
            return True
        if any(methods.get(function.name) is function and name in me for name in given):
            # Whatever gets the trial may change it.
            return True
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call):
            continue
        root, _, rest = ast.unparse(call.func).partition(".")
        name = (rest or root).rpartition(".")[2]
        is_followed = name in methods or name in project.functions
        if not (root in local or root.startswith("__det_") or is_followed or name in _QUIET):
            return True
    return False


def _unknown(function: ast.AST, around: Elsewhere, project: Project) -> Iterator[str]:
    """The functions that a function calls of which nobody knows what they draw."""
    for call in ast.walk(function):
        text = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        root, _, rest = text.partition(".")
        paths = around.imported.get(root, frozenset())
        if (rest or root).rpartition(".")[2] not in project.functions:
            yield from (p for p in paths if p.partition(".")[0] not in _LIBRARIES)
