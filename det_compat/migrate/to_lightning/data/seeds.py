"""Data that are split or ordered by random numbers, by the trial or by Lightning.

Determined gave each process of an experiment, and each run that goes on with one, the same seed,
and kept the order of what is not shuffled.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.data.copied import with_word_of_copies
from det_compat.migrate.to_lightning.data.loaded_again import once
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.to_lightning.data.shared_out import with_word_of_processes
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable

#: The comment on what is drawn for data: Determined seeded all processes of a trial alike.
SAID = "# pl.seed_everything() first makes this the same in each process, and when a run goes on"
#: What is drawn as a module is made is drawn again for a checkpoint, which does not have it.
_OF_INIT = (
    SAID,
    "# load_from_checkpoint draws it anew, too: a checkpoint does not have what was drawn",
)
_DRAWING = re.compile(
    r"(?:.*\.)?(?:random_split|train_test_split|randperm|KFold|StratifiedKFold)"
    r"|(?:np|numpy)\.random\.(?:permutation|shuffle|choice)|random\.(?:shuffle|sample)"
)
_SEEDS = ("generator", "random_state")
_SEEDING = re.compile(r"seed_everything|manual_seed|random\.seed|set_\w*seed|seed_all")


def with_word_of_seeds(node: cst.ClassDef, symbols: Symbols, around: Elsewhere) -> cst.ClassDef:
    """A trial with comments on what it, or Lightning, draws for its data.

    It may draw by functions and classes that are ``around`` it.
    """
    node, texts = once(_with_word_of_loaders(node, symbols, around), around.texts), around.texts
    node = with_word_of_processes(with_word_of_copies(node, symbols, texts), symbols, around)
    own = syntax.methods(node)
    if any(_SEEDING.search(syntax.code(call.func)) for call in syntax.find(node, cst.Call)):
        return node
    early = {*reachable(own, "__init__")}
    names = {*early, *reachable(own, *NAMES)}
    made = {_name(call) for call in syntax.find(node, cst.Call)} & texts.keys()
    # Of an object that the trial makes, any method may draw, and not what makes it alone.
    drawing = {
        name
        for each in made
        if texts[each].startswith("class ")
        for name in _methods_of(texts[each])
        if name not in own and _is_drawing(each, texts, (), name)
    }

    def is_drawn(line: cst.BaseStatement) -> bool:
        return isinstance(line, cst.SimpleStatementLine) and any(
            _draws(call)
            or _is_drawing(_name(call), texts, ())
            or (isinstance(call.func, cst.Attribute) and _name(call) in drawing)
            for call in syntax.find(line, cst.Call)
        )

    def in_method(method: cst.FunctionDef) -> cst.FunctionDef:
        name = method.name.value
        if name not in names:
            return method
        told = [
            cst.EmptyLine(comment=cst.Comment(each))
            for each in (_OF_INIT if name in early else (SAID,))
        ]

        def said(block: cst.IndentedBlock) -> cst.IndentedBlock:
            # What follows it is drawn in the same way.
            drawn = [False, *map(is_drawn, block.body)]
            lines = zip(block.body, drawn[1:], drawn, strict=False)
            body = [
                above(line, told) if is_one and not was else line for line, is_one, was in lines
            ]
            return block.with_changes(body=body)

        return syntax.each(method, cst.IndentedBlock, said)

    return syntax.each(node, cst.FunctionDef, in_method)


def _with_word_of_loaders(node: cst.ClassDef, symbols: Symbols, around: Elsewhere) -> cst.ClassDef:
    """The trial with a comment where it has a loader from a function that is in no file.

    Such a function made one of Determined's, or the trial would have said that it need not.
    """
    if syntax.has_attribute(node, "disable_dataset_reproducibility_checks"):
        return node
    for name, method in syntax.methods(node).items():
        if name not in NAMES:
            continue
        known, changed = assigned(method), method
        for line in syntax.find(method.body, cst.SimpleStatementLine):
            small = syntax.simple(line)
            value = small.value if isinstance(small, cst.Return) else None
            made = known.get(syntax.code(value), value) if value is not None else None
            if not isinstance(made, cst.Call) or symbols.path(made.func) is not None:
                continue
            paths = around.imported.get(syntax.code(made.func).partition(".")[0], frozenset())
            is_own = _name(made) in around.texts or _name(made).endswith("Loader")
            if paths and not is_own and not any(map(_LIBRARIES.match, paths)):
                said = cst.EmptyLine(comment=cst.Comment(_OF_TORCH.format(_name(made))))
                changed = syntax.with_node(changed, line, above(line, [said]))
        node = syntax.with_node(node, method, changed) if changed is not method else node
    return node


_OF_TORCH = "# {0} is in none of these files, and has to return a DataLoader of torch's"
_LIBRARIES = re.compile(r"(torch|torchvision|torchtext|torchaudio|determined|det_compat)\b")


def _name(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[2]


def _is_drawing(
    name: str, texts: Mapping[str, str], above: Collection[str], method: str = "__init__"
) -> bool:
    """Whether a function, or a method of a class, splits or orders data by chance."""
    if name in above or name not in texts:
        return False
    draws, called = _calls_of(texts[name], method)
    return draws or any(_is_drawing(each, texts, {*above, name}) for each in called)


@cache
def _methods_of(text: str) -> tuple[str, ...]:
    found = syntax.statement(text)
    return tuple(syntax.methods(found)) if isinstance(found, cst.ClassDef) else ()


@cache
def _calls_of(text: str, method: str) -> tuple[bool, frozenset[str]]:
    """Whether a function, or a method, draws by itself, and what it calls; none if it seeds."""
    found = syntax.statement(text)
    made = syntax.methods(found).get(method) if isinstance(found, cst.ClassDef) else found
    calls = [*syntax.find(made, cst.Call)] if made and not _SEEDING.search(text) else []
    return any(map(_draws, calls)), frozenset(map(_name, calls))


def _draws(call: cst.Call) -> bool:
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    name = syntax.code(call.func)
    is_kept = name.endswith("KFold") and "shuffle" not in given
    return bool(_DRAWING.fullmatch(name)) and not given & {*_SEEDS} and not is_kept
