from __future__ import annotations

import libcst as cst
import pytest
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.data.loader_order import Project, needs_training_loader
from det_compat.migrate.tree import syntax

TRIAL = """\
class Trial:
    def __init__(self, context):
        self.best, self.names, self.kept, self.scaler = 0, None, {{}}, lib.Scaler()

    def build_training_data_loader(self):
        {train_loader}

    def build_validation_data_loader(self):
        {val_loader}

    def evaluate_batch(self, batch):
        return self.judge(batch)

    def judge(self, batch):
        {judge}
"""


def needs(lines: dict[str, str], *files: bytes) -> bool:
    parts = dict.fromkeys(("train_loader", "val_loader", "judge"), "pass")
    node = ensure_type(syntax.statement(TRIAL.format(**{**parts, **lines})), cst.ClassDef)
    return needs_training_loader(syntax.methods(node), Project(files, {"Trial"}))


@pytest.mark.parametrize(
    ("before", "needed", "found"),
    [
        ("pass", "val_loader: return self.files", False),
        ("self.files = list()", "val_loader: return self.files", True),
        ("self.files = list()", "val_loader: return self.others", False),
        ("self.best = 1", "val_loader: return self.best", True),
        # What __init__ has made is not what the loader leaves.
        ("self.best = 1", "judge: return self.best", True),
        ("self.names = cut()", "judge: return self.names", True),
        ("self.kept[0] = 1", "judge: return self.kept", True),
        ("self.scaler.fit(1)", "val_loader: return self.scaler.transform(2)", True),
        ("self.scaler.transform(1).mean()", "val_loader: return self.scaler.mean()", True),
        ("scaler = self.scaler; scaler.fit(1)", "val_loader: return self.scaler", True),
        ("fill(self.scaler)", "val_loader: return self.scaler", True),
        ("Data(self.kept)", "val_loader: return Data(self.kept)", False),
        ("look(self.kept)", "val_loader: return look(self.kept)", False),
        ("Judge().update(1)", "val_loader: return Judge().found", False),
        ("random.shuffle(self.kept)", "val_loader: return self.kept", True),
        ("torch.utils.data.DataLoader(self.kept)", "val_loader: return self.kept", False),
        ("return [x for x in self.kept.values()]", "val_loader: return self.kept", False),
        ("path(self.names)", "val_loader: return self.names", False),
        ("longer(self.names)", "val_loader: return self.names", True),
        ("self.names.getIds()", "val_loader: return self.names", False),
        ("self.names.get_next()", "val_loader: return self.names", True),
        ("torch.nn.init.normal_(w)", "val_loader: return torch.nn.init", False),
        ("torch.nn.init.normal_(self.kept)", "val_loader: return self.kept", True),
    ],
)
def test_what_a_validation_needs_of_the_training_loader(
    before: str, needed: str, found: bool
) -> None:
    part, _, line = needed.partition(": ")
    assert needs({"train_loader": before, part: line}, HELPERS) is found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("self.rows = 2\nreturn self.rows", False),
        ("self.rows = self.rows + 1\nreturn self.rows", True),
        ("self.rows += 1\nreturn self.rows", True),
        ("if a:\n    self.rows = 1\n    return self.rows\nreturn 2", False),
        ("if a:\n    self.rows = 1\nreturn self.rows", True),
        ("if a:\n    self.rows = 1\nelse:\n    self.rows = 2\nreturn self.rows", False),
        ("if a:\n    return 1\nelse:\n    self.rows = 2\nreturn self.rows", False),
        ("for self.rows in a:\n    use(self.rows)", False),
        ("for a in b:\n    self.rows = a\nreturn self.rows", True),
        ("while a:\n    self.rows = a\nreturn self.rows", True),
        ("with a:\n    self.rows = 1\nreturn self.rows", False),
        ("with suppress(E):\n    self.rows = 1\nreturn self.rows", True),
        ("try:\n    self.rows = 1\nexcept E:\n    pass\nreturn self.rows", True),
        ("try:\n    self.rows = 1\nexcept E:\n    raise\nreturn self.rows", False),
        ("try:\n    a\nfinally:\n    self.rows = 1\nreturn self.rows", False),
        ("match a:\n    case 1:\n        self.rows = 1\nreturn self.rows", True),
        ("self.rows, b = 1, 2\nreturn self.rows", False),
        ("self.rows.a = 1", True),
        ("self.rows: int\nreturn self.rows", True),
        ("self.made()\nreturn self.rows", False),
        ("x = self.made()\nreturn self.rows", False),
        ("a and self.made()\nreturn self.rows", True),
        ("self.lazy()\nreturn self.rows", True),
        ("self.perhaps()\nreturn self.rows", True),
        ("self.rows = 1\nreturn self.read()", False),
        ("return self.read()", True),
        ("self.rows = self.read()\nreturn self.rows", True),
        ("self.rows = 1\nreturn self.shown", True),
        ("self.rows = 1\nreturn far(self)", True),
        ("def inner():\n    self.rows += 1\nself.rows = 2\nreturn inner(), self.rows", True),
        ("self.rows = 1\nreturn lambda: self.rows", False),
    ],
)
def test_what_a_validation_sets_before_it_reads_it_is_its_own(lines: str, found: bool) -> None:
    methods = """\
    def made(self):
        if a:
            self.rows = 1
            return 2
        self.rows = 3

    def lazy(self):
        self.rows = 1
        yield 1

    def perhaps(self):
        if a:
            return
        self.rows = 1

    def read(self):
        return self.rows

    @property
    def shown(self):
        return self.rows

"""
    start = "    def evaluate_batch"
    text = TRIAL.replace(start, methods + start, 1)
    parts = {"train_loader": "self.rows = 5", "judge": "pass"}
    body = lines.replace("\n", "\n        ")
    node = syntax.statement(text.format(**parts, val_loader=body))
    project = Project([b"def far(it): return it.rows"], {"Trial"})
    methods_of = syntax.methods(ensure_type(node, cst.ClassDef))
    assert needs_training_loader(methods_of, project) is found


ONCE = """\
if not self.done:
            self.folder = get(__det_{}__.get_hparam("url"))
            self.done = True
"""


@pytest.mark.parametrize(
    ("of_training", "of_validation", "found"),
    [
        (ONCE.format(1), ONCE.format(2), False),
        (f'"""It loads."""\n        {ONCE.format(1)}', ONCE.format(2), False),
        (ONCE.format(1), f"print(self.folder)\n        {ONCE.format(2)}", True),
        (f"{ONCE.format(1)}        self.done = False", ONCE.format(2), True),
        (ONCE.format(1), ONCE.format(2).replace("url", "other"), True),
        (ONCE.format(1).replace("= True", "= 1"), ONCE.format(2).replace("= True", "= 1"), True),
        (
            ONCE.format(1).replace("get_hparam", "a"),
            ONCE.format(2).replace("get_hparam", "a"),
            True,
        ),
        (f"get = 1\n        {ONCE.format(1)}", ONCE.format(2), True),
    ],
)
def test_what_either_loader_does_once_needs_no_order(
    of_training: str, of_validation: str, found: bool
) -> None:
    last = "        return self.folder"
    assert needs({"train_loader": of_training, "val_loader": f"{of_validation}{last}"}) is found


DATA = """
class Data:
    def setup(self, stage=None):
        if stage != "test":
            self.train, self.valid = split(files())
        {}
"""


@pytest.mark.parametrize(
    ("of_training", "of_validation", "more", "found"),
    [
        ("self.names.setup()", "self.names.setup()", "pass", False),
        ("self.names.setup()", "self.names.setup()", "self.n += 1", True),
        ("self.names.setup()", "self.names.setup()", "self.found.append(1)", True),
        ("self.names.setup()", "self.names.setup()", "self.all = [*self.valid]", True),
        ("self.names.setup('fit')", "self.names.setup()", "pass", True),
        ("self.names.setup()", "pass", "pass", True),
        ("self.names.prepare()", "self.names.prepare()", "pass", True),
        ("self.names.setup()\n        self.names.valid = 1", "self.names.setup()", "pass", True),
    ],
)
def test_what_both_loaders_set_anew_needs_no_order(
    of_training: str, of_validation: str, more: str, found: bool
) -> None:
    lines = {"train_loader": of_training, "val_loader": f"{of_validation}\n        return "}
    lines["val_loader"] += "self.names.valid"
    assert needs(lines, DATA.format(more).encode()) is found


HELPERS = b"""
import random, torch

def fill(scaler): refill(scaler)

def refill(scaler): scaler.fit(1)

def path(root):
    root += "/a" + str(1)
    return root

def longer(names):
    names += ["a"]

def look(kept): return len(kept) + kept["a"]

class Data:
    def __init__(self, kept): self.kept = kept

class Judge:
    def update(self, data):
        found = self.found["a"]
        found.data = data
"""

STATS = b"""
MEAN, kept = None, {}

class Scaler:
    @classmethod
    def fit(cls, data): cls.mean = data.mean()

scaler = Scaler()

def fit(data): note(data)

def note(data): kept["mean"] = data.mean()

def fill(data): kept.update(mean=data)

def scaled(data): return data - kept["mean"]
"""
USER = b"import torch\nimport stats\nfrom stats import Scaler, fit, scaled, scaler\n"


@pytest.mark.parametrize(
    ("before", "needed", "found"),
    [
        ("stats.fit(1)", "stats.scaled(2)", True),
        ("fit(1)", "scaled(2)", True),
        ("fit(1)", "stats.kept", True),
        ("stats.MEAN = 1", "stats.MEAN", True),
        ("stats.MEAN = 1", "stats.scaled(2)", False),
        ("scaler.fit(1)", "lambda: scaler", True),
        ("Scaler.fit(1)", "Scaler.mean", True),
        ("stats.Scaler.fit(1)", "stats.Scaler.mean", True),
        ("fill(1)", "stats.kept", True),
        ("Scaler.mean = 1", "Scaler.mean", True),
        ("torch.manual_seed(1)", "torch.randn(1)", False),
        ("scaler = 1; scaler.fit(1)", "lambda: scaler", False),
    ],
)
def test_what_the_training_loader_leaves_in_other_files(
    before: str, needed: str, found: bool
) -> None:
    lines = {"train_loader": before, "val_loader": f"return {needed}"}
    assert needs(lines, STATS, USER) is found


MODELS = b"""
import torch
from layers import Base, Other

class Permuted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.nn.Module.__init__(self)

class Search:
    def __init__(self, model): Search.names = model.names

class Listed(Base):
    def __init__(self): super().__init__()

class Base:
    def __init__(self): Base.count = 1

class Mixed:
    def __init__(self): super().__init__()

class Both(Mixed, Other): pass
"""


@pytest.mark.parametrize(
    ("made", "read", "found"),
    [
        ("Permuted()", "Search.names", False),
        ("Search(1)", "Search.names", True),
        ("Listed()", "Base.count", True),
        ("Listed()", "Search.names", False),
        # What comes next there is in the order of a class of several bases.
        ("Mixed()", "Search.names", True),
    ],
)
def test_super_finds_what_bases_have(made: str, read: str, found: bool) -> None:
    lines = {"train_loader": f"return {made}", "val_loader": f"return {read}"}
    assert needs(lines, MODELS) is found


FETCHED = """\
url = None
        if not __det_1__.get_data_config().get("download"):
            return
        self.folder = get(url)
        self.done = True
"""
IF_NEW = "if not self.done:\n            self.download()"


@pytest.mark.parametrize(
    ("download", "calls", "found"),
    [
        (ONCE.format(1), "self.download()", False),
        (ONCE.format(1), "self.download(2)", True),
        ('self.folder = get("url")', "self.download()", False),
        (FETCHED, IF_NEW, False),
        (FETCHED.replace("self.done = True", "self.done = 1"), IF_NEW, True),
        (FETCHED.replace("url = None", "self.url = None"), IF_NEW, True),
        (FETCHED.replace("url = None", "url = self.next()"), IF_NEW, True),
    ],
)
def test_what_either_loader_has_done_once_needs_no_order(
    download: str, calls: str, found: bool
) -> None:
    judge = f"pass\n\n    def download(self):\n        {download}"
    lines = {"train_loader": calls, "val_loader": f"{calls}\n        return self.folder"}
    assert needs({**lines, "judge": judge}) is found


def test_callbacks_ask_in_a_validation_for_what_training_set() -> None:
    callback = b"class C:\n    def on_validation_start(self):\n        use(self.trial.files)\n"
    lines = {"train_loader": "self.files = list()"}
    assert needs(lines, callback)
    assert not needs(lines, callback.replace(b"validation", b"training"))
    assert not needs(lines, callback.replace(b"files", b"best"))
