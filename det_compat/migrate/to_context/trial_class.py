"""A trial of Determined 0.12 or PEDL in the context API."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_context.batch_methods import (
    batch_methods,
    extended,
    train_batch,
    without_model,
)
from det_compat.migrate.to_context.clipping import clipping, clipping_method, without_clipping
from det_compat.migrate.to_context.data_functions import DataFunction
from det_compat.migrate.to_context.families import Family, clips
from det_compat.migrate.to_context.lr_schedulers import (
    is_wrapped,
    makes_none,
    spread_wrappers,
    step_mode,
    with_plain_scheduler,
)
from det_compat.migrate.to_context.own_inits import is_super_init, with_model_last
from det_compat.migrate.to_context.pedl_needs import DATA_DIR
from det_compat.migrate.to_context.self_building import (
    builds_itself,
    with_attributes,
    with_names_of_today,
)
from det_compat.migrate.tree import leftovers, syntax
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.marks import marked

_LINK = "MIGRATION.md#determined-012"
_CONTEXT = "from determined.pytorch import PyTorchTrialContext"
_LOADERS = ("build_training_data_loader", "build_validation_data_loader")
#: What may read a file that a function has downloaded.
_READS = re.compile(r"(?i)\b\w*(load|open|read|pretrained|glob|listdir)\w*\(")


@dataclass
class Older:
    """What is known of an older trial beside its class.

    Attributes:
        is_standard: whether it has losses and metrics in the place of batch methods.
        hparams: those of each of its experiment configs.
        functions: its make_data_loaders and download_data, if it has no loader methods.
        family: what it has from other classes.
        stays: why it, or a class of its family, stays as it was; ``""`` if it is rewritten.
    """

    is_standard: bool = False
    hparams: Sequence[Mapping[str, Any]] = ()
    functions: dict[str, DataFunction | None] = field(default_factory=dict)
    family: Family = field(default_factory=Family)
    stays: str = ""


def in_context_api(node: cst.ClassDef, file: File, older: Older) -> cst.BaseStatement:
    """The class, with model, optimizer and scheduler wrapped in ``__init__``.

    A class whose methods are not what its generation documented stays as it was.
    """
    if older.stays:
        return marked(node, older.stays, _LINK)
    if _is_of_today(node, file):
        return with_names_of_today(node, file)
    return _Rewriting(spread_wrappers(node, file), file, older).result()


def with_reasons(tree: cst.Module, reasons: Mapping[str, str]) -> cst.Module:
    """The file with a mark at each class that stays as it was."""
    return syntax.each(
        tree,
        cst.ClassDef,
        lambda node: (
            marked(node, reasons[node.name.value], _LINK) if node.name.value in reasons else node
        ),
    )


def _is_of_today(node: cst.ClassDef, file: File) -> bool:
    return "build_model" not in syntax.methods(node) and builds_itself(node, file.symbols)


def problem_of(node: cst.ClassDef, file: File, older: Older) -> str:
    """Why a class stays as it was; ``""`` if it is rewritten."""
    if _is_of_today(node, file):
        return ""
    node = spread_wrappers(node, file)
    own = {**older.family.inherited, **syntax.methods(node)}
    needed = ["build_model", "optimizer", "losses" if older.is_standard else "train_batch"]
    missing = [name for name in needed if name not in own] if older.family.wraps else []
    if older.family.problem:
        return older.family.problem
    if _clips_otherwise(node, file, older):
        return "it clips gradients in another class than it trains in"
    if missing:
        return f"{', '.join(missing)} of this trial is in no class that was read"
    has_data = any(name in own for name in _LOADERS) or older.functions.get("make_data_loaders")
    if older.family.wraps and not has_data:
        return "it has no data: there is no make_data_loaders beside it"
    create = syntax.methods(node).get("create_lr_scheduler")
    if create and older.family.wraps and makes_none(create):
        return ""
    if create and step_mode(create, file) is None and not is_wrapped(create, file):
        return "its LR scheduler is made in a way that is not known"
    return ""


def _clips_otherwise(node: cst.ClassDef, file: File, older: Older) -> bool:
    """Whether a class of several clips by hyperparameters, or by callbacks that are not known."""
    by_hparams = bool(clipping(None, older.hparams, "self.context", file))
    if not older.family.clip:
        return by_hparams and older.family.keeps_clipping
    raw = [each for each in older.family.nodes if each.name.value == node.name.value]
    build = syntax.methods(node).get("build_callbacks")
    is_known = bool(clipping(build, (), "self.context", file))
    is_said = any(clips(syntax.methods(each)) for each in raw)
    return is_said != is_known or by_hparams


class _Rewriting:
    """One class, method by method."""

    def __init__(self, node: cst.ClassDef, file: File, older: Older) -> None:
        self._node = node
        self._file = file
        self._older, self._family = older, older.family
        self._here = syntax.methods(node)
        self._own = {**self._family.inherited, **self._here}
        self._relatives = self._family.nodes or [node]
        attributes = (n for each in self._relatives for n in syntax.find(each, cst.Attribute))
        taken = {n.attr.value for n in attributes} | {*self._own}
        self._model = self._free("model", "network", made_by="build_model")
        self._scheduler = self._free(
            "lr_scheduler", "trial_scheduler", made_by="create_lr_scheduler"
        )
        self._optimizer = next(n for n in ("opt", "trial_opt") if n not in taken)
        self._mode = next(n for n in ("step_mode", "scheduler_step_mode") if n not in taken)
        self._loaders = next(n for n in ("loaders", "data_loaders") if n not in taken)
        self._clip = f"self.{self._family.clip}" if self._family.clip else ""
        if not self._clip and not self._family.keeps_clipping:
            build = self._own.get("build_callbacks")
            self._clip = clipping(build, older.hparams, "self.context", file)

    @property
    def _names(self) -> dict[str, str]:
        return {"model": self._model, "optimizer": self._optimizer, "clip": self._clip}

    def _free(self, name: str, other: str, *, made_by: str) -> str:
        """The name for an attribute; another one if the class has something else under it."""
        stores = [*self._stores(name)]
        sets_it = any(method == made_by for method, _ in stores)
        others = [value for method, value in stores if method != made_by]
        # None may stand for it until it is made.
        is_taken = others if not sets_it else [value for value in others if value != "None"]
        return other if is_taken or name in self._own else name

    def _stores(self, name: str) -> Iterator[tuple[str, str]]:
        """The methods that set an attribute, ``""`` for the class, each with the value as text."""
        for line in (line for each in self._relatives for line in syntax.body_of(each)):
            if syntax.target_of(line) == name:
                yield "", syntax.code(line)
        methods = (pair for each in self._relatives for pair in syntax.methods(each).items())
        for method, node in methods:
            own = syntax.self_name(node)
            for assign in syntax.find(node, cst.Assign):
                for target, value in syntax.pairs(assign):
                    if syntax.code(target) == f"{own}.{name}":
                        yield method, syntax.code(value)

    def result(self) -> cst.ClassDef:
        """The class."""
        body = [made for line in syntax.body_of(self._node) for made in self._made_of(line)]
        if "__init__" not in self._here and self._family.wraps:
            body = _below_fields(self._init(self._new_init()), body)
        if "__init__" not in self._here and self._adds_scheduler:
            body = _below_fields(self._with_scheduler(), body)
        create = self._here.get("create_lr_scheduler") if self._family.steps_apart else None
        if create is not None:
            _, _, mode = (step_mode(create, self._file) or "").partition("=")
            body.insert(syntax.has_docstring(body), syntax.statement(f"{self._mode} = {mode}"))
        if made := self._batch_methods():
            body.extend(made)
            self._file.imports.new.add("import torch")
        if not self._has_loaders and self._family.wraps:
            body.extend(self._data_methods())
        if self._family.clip and self._decides_on_clipping():
            build = self._here.get("build_callbacks")
            is_clipped = clips(self._family.inherited)
            said = (
                "the base clips gradients, this does not" if is_clipped else "heirs clip gradients"
            )
            body.append(clipping_method(self._family.clip, build, said, self._file))
        kept = {
            "wrap_model": self._model,
            "wrap_optimizer": self._optimizer,
            "wrap_lr_scheduler": self._scheduler,
        }
        return with_attributes(syntax.with_body(self._node, body), self._file, kept)

    @property
    def _adds_scheduler(self) -> bool:
        """Whether the class has an LR scheduler, and the base that wraps all else has none."""
        name, trained = "create_lr_scheduler", self._family.trained
        is_new = name in self._here and name not in trained and not makes_none(self._here[name])
        return bool(trained) and is_new and not self._family.wraps

    def _with_scheduler(self) -> cst.FunctionDef:
        # The base that wraps all else has an __init__, or gets one for that.
        init = syntax.statements("super().__init__(context)\n")
        return syntax.with_body(self._new_init(), [*init, self._scheduling("context")])

    def _scheduling(self, context: str) -> cst.BaseStatement:
        """The statement that makes the LR scheduler, once there is an optimizer."""
        takes = _takes(self._here["create_lr_scheduler"], 2)
        extra = f", {context}.get_hparams()" if takes else ""
        made = f"self.create_lr_scheduler(self.{self._optimizer}{extra})"
        if self._family.steps_apart:
            made = f"{context}.wrap_lr_scheduler({made}, step_mode=self.{self._mode})"
        return syntax.statement(f"self.{self._scheduler} = {made}")

    def _decides_on_clipping(self) -> bool:
        """Whether the class clips otherwise than its base, or trains and has no base that does."""
        is_clipped = clips(self._family.inherited)
        is_other = is_clipped and "build_callbacks" in self._here
        trains = "train_batch" in self._here and not is_clipped
        own = clipping(self._here.get("build_callbacks"), (), "self.context", self._file)
        return trains or bool(own) or is_other

    def _batch_methods(self) -> list[cst.BaseStatement]:
        """What takes the place of losses and metrics; an heir has what its base has otherwise."""
        trained = self._family.trained
        if not self._older.is_standard or not (self._family.wraps or trained):
            return []
        had = batch_methods(trained, **self._names) if trained else []
        texts = [*map(syntax.code, had)]
        made = batch_methods(self._own, **self._names)
        return [each for each in made if syntax.code(each) not in texts]

    @property
    def _has_loaders(self) -> bool:
        return any(name in self._own for name in _LOADERS)

    def _made_of(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        """What takes the place of a statement of the class."""
        if not isinstance(line, cst.FunctionDef):
            return [line]
        name = line.name.value
        if name == "__init__":
            return [line if self._family.is_mixin else self._init(line)]
        if name == "train_batch" and self._family.extends:
            classes = [*map(syntax.methods, self._relatives)]
            is_first = "train_batch" not in self._family.inherited
            return extended(line, classes, is_first=is_first, **self._names)
        if name == "train_batch":
            return train_batch(line, self._own, **self._names)
        if name in ("evaluate_batch", "evaluate_full_dataset"):
            return [without_model(line, self._model)]
        is_idle = self._family.wraps or name not in self._family.trained
        if name == "create_lr_scheduler" and is_idle and makes_none(line):
            return []
        if name == "create_lr_scheduler":
            is_apart = self._is_spread and not self._family.steps_apart
            return [with_plain_scheduler(line, self._file, is_apart=is_apart)]
        is_asked = any(syntax.has_attribute(each, name) for each in self._relatives)
        if name == "batch_size" and self._older.is_standard and not is_asked:
            # The contract asked for this method, and nothing calls it: loaders know their size.
            return []
        if name == "build_callbacks":
            is_kept, by_hparams = self._family.keeps_clipping, "get_hparam(" in self._clip
            kept = without_clipping(line, self._file, is_kept=is_kept, by_hparams=by_hparams)
            return [] if kept is None else [kept]
        return [line]

    @property
    def _is_spread(self) -> bool:
        """Whether the trial is several classes, of which each is rewritten by itself."""
        return len(self._relatives) > 1

    def _new_init(self) -> cst.FunctionDef:
        is_annotated = any(found.returns is not None for found in self._own.values())
        header = "def __init__(self, context):\n    pass\n"
        if is_annotated:
            header = "def __init__(self, context: PyTorchTrialContext) -> None:\n    pass\n"
            self._file.imports.new.add(_CONTEXT)
            self._file.imports.kept.add("PyTorchTrialContext")
        first = "super().__init__(context)\n" if self._family.keeps_context else ""
        made = ensure_type(syntax.statement(header), cst.FunctionDef)
        return syntax.with_body(made, syntax.statements(first))

    def _init(self, init: cst.FunctionDef) -> cst.FunctionDef:
        init, context = _with_context(init, hands_on=self._family.keeps_context)
        if self._family.trained:
            init = leftovers.put_back_silently(init, self._file)
            classes = [self._here, *self._family.bases]
            init = with_model_last(init, classes, self._file.elsewhere) or init
        own = syntax.self_name(init)
        lines = [
            line for line in syntax.body_of(init) if not isinstance(syntax.simple(line), cst.Pass)
        ]
        download = self._download if self._downloads_first else None
        has_it = self._family.keeps_context and any(map(is_super_init, lines))
        has_it = has_it or self._keeps_context(lines, own)
        first = [] if has_it else [f"{own}.context = {context}"]
        if download is not None:
            first.append(f"{own}.{DATA_DIR} = {self._call(download, own, context)}")
        at = 1 if syntax.has_docstring(lines) else 0
        at += any(is_super_init(line) for line in lines[at : at + 1])
        after = syntax.statements("\n".join([*first, ""])) if first else []
        made = self._wraps(own, context) if self._family.wraps else []
        wraps = syntax.statements("".join(f"{text}\n" for text in made))
        if wraps and (lines or len(after) > 1):
            wraps[0] = wraps[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
        end = [*wraps, *([self._scheduling(context)] if self._adds_scheduler else [])]
        return syntax.with_body(init, [*lines[:at], *after, *lines[at:], *end])

    def _keeps_context(self, lines: list[cst.BaseStatement], own: str) -> bool:
        """Whether ``__init__`` keeps the context under its usual name."""
        return any(
            syntax.code(target.target) == f"{own}.context"
            and self._file.symbols.is_context(found.value)
            for line in lines
            for found in syntax.find(line, cst.Assign)
            for target in found.targets
        )

    def _call(self, function: DataFunction, own: str, context: str) -> str:
        if function.statement:
            self._file.imports.new.add(function.statement)
        return function.call(own, context)

    @property
    def _download(self) -> DataFunction | None:
        # Who makes loaders by methods calls what downloads their data as well.
        has_data = self._has_loaders or not self._family.wraps
        return None if has_data else self._older.functions.get("download_data")

    @property
    def _loading_asks(self) -> bool:
        """Whether what makes the loaders is given the place of the download."""
        loaders = self._older.functions.get("make_data_loaders")
        return loaders is not None and DATA_DIR in loaders.call("self", "self.context")

    @property
    def _downloads_first(self) -> bool:
        """Whether what comes before the data may need the download, or its random numbers."""
        around, name = self._file.elsewhere, self._download.name if self._download else ""
        first = around.reached(map(syntax.code, self._own.values()))
        text = around.texts.get(name)
        asked = (DATA_DIR in syntax.code(method) for method in self._own.values())
        if not self._has_loaders and not self._loading_asks and any(asked):
            return True
        return text is None or around.may_draw([text]) or any(map(_READS.search, first))

    def _data_methods(self) -> list[cst.BaseStatement]:
        """The loaders, which both come from one function, and where their data are."""
        own, context, made = "self", "self.context", dict[str, str]()
        before = ""
        if self._download is not None and not self._downloads_first:
            download = self._call(self._download, own, context)
            if self._loading_asks:
                made[DATA_DIR] = download
            else:
                before = f"    {download}\n"
        loaders = self._older.functions["make_data_loaders"]
        assert loaders is not None  # or there was a problem
        made[self._loaders] = self._call(loaders, own, context)
        self._file.imports.new.add("import functools")
        texts = [
            f"@functools.cached_property\ndef {name}(self):\n"
            f"{before if name == self._loaders else ''}    return {text}\n"
            for name, text in made.items()
        ]
        texts += [
            f"def {name}(self):\n    return self.{self._loaders}[{index}]\n"
            for index, name in enumerate(_LOADERS)
        ]
        return [*map(syntax.method, texts)]

    def _wraps(self, own: str, context: str) -> list[str]:
        hparams, model, optimizer = f"{context}.get_hparams()", self._model, self._optimizer
        build = hparams if _takes(self._own["build_model"], 1) else ""
        extra = f", {hparams}" if _takes(self._own["optimizer"], 2) else ""
        made = [
            f"{own}.{model} = {context}.wrap_model({own}.build_model({build}))",
            f"{own}.{optimizer} = {context}.wrap_optimizer({own}.optimizer({own}.{model}{extra}))",
        ]
        create = self._own.get("create_lr_scheduler")
        if create is None or makes_none(create):
            return made
        mode = "" if self._is_spread else step_mode(create, self._file)
        if self._family.steps_apart:
            mode = f"step_mode={own}.{self._mode}"
        given = f", {hparams}" if _takes(create, 2) else ""
        text = f"{own}.create_lr_scheduler({own}.{optimizer}{given})"
        text = f"{context}.wrap_lr_scheduler({text}, {mode})" if mode else text
        return [*made, f"{own}.{self._scheduler} = {text}"]


def _below_fields(
    first: cst.BaseStatement, rest: list[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """The statements of a class with a new method below the docstring and class variables."""
    at = next((i for i, line in enumerate(rest) if isinstance(line, cst.FunctionDef)), len(rest))
    blank = [cst.EmptyLine(indent=False)]
    if at:
        first = first.with_changes(leading_lines=blank)
    if at < len(rest) and not getattr(rest[at], "leading_lines", ()):
        rest[at] = rest[at].with_changes(leading_lines=blank)
    return [*rest[:at], first, *rest[at:]]


def _takes(method: cst.FunctionDef, position: int) -> bool:
    """Whether a method takes the hyperparameters, too."""
    names = [p.name.value for p in method.params.params]
    required = [p for p in method.params.params if p.default is None]
    return "hparams" in names or len(required) > position


def _with_context(init: cst.FunctionDef, *, hands_on: bool) -> tuple[cst.FunctionDef, str]:
    """``__init__`` that takes the context, perhaps in the place of hyperparameters.

    It ``hands_on`` the context to that of a base.
    """
    given = init.params.params[1:]
    named = [p.name.value for p in given if "context" in p.name.value]
    if named:
        return init, named[0]
    if given and given[0].name.value != "hparams":
        return init, given[0].name.value
    body = syntax.replaced(init.body, "hparams", "context.get_hparams()")
    changed = [*syntax.body_of(init.with_changes(body=body))]
    changed = [_passing_context(line) for line in changed] if hands_on else changed
    params = [init.params.params[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
    params.append(cst.Param(cst.Name("context")))
    params += [p for p in given if p.name.value != "hparams"]
    new = init.params.with_changes(params=params)
    return syntax.with_body(init.with_changes(params=new), changed), "context"


def _passing_context(line: cst.BaseStatement) -> cst.BaseStatement:
    call = syntax.call_of(line)
    if call is None or not is_super_init(line):
        return line
    return line.with_deep_changes(call, args=[cst.Arg(cst.Name("context"))])
