from __future__ import annotations

import ast

import pytest

from det_compat.analysis.given.values import Given
from det_compat.analysis.given.written import objects_given, written_hparams

TAIL = """
with pytorch.init(hparams=hparams) as context:
    pytorch.Trainer(Trial(context), context).fit()
"""
OPTIONS = """
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("-w", "--hidden-width", default=WIDTH)
parser.add_argument("--wide", action="store_true")
parser.add_argument("--size", dest="n", default=3)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hparams = {'lr': 0.1, 'sizes': (4, 2), 'deep': {'er': -1}}", True),
        ("SIZES = [4, 2]\nLR = 0.1\nhparams = dict(lr=LR, sizes=SIZES, deep=dict(er=-1))", True),
        ("BASE = {'lr': 0.1, 'sizes': [4, 2]}\nhparams = {**BASE, 'deep': {'er': -1}}", True),
        ("hparams = {'lr': read(), 'sizes': [4, 2], 'deep': {'er': -1}}", False),
        ("lr = 0.1\nlr = 0.2\nhparams = {'lr': lr}", False),
        ("hparams = {**hparams}", False),
        ("hparams = json.load(open('hparams.json'))", False),
    ],
)
def test_what_is_written_out_is_known(text, expected):
    found = written_hparams([ast.parse(text + TAIL)], "Trial")
    known = {"lr": 0.1, "sizes": [4, 2], "deep": {"er": -1}}
    assert found is None if not expected else {**found, "sizes": [*found["sizes"]]} == known


def test_options_have_their_defaults():
    text = "WIDTH = 8\n" + OPTIONS
    own = "hparams = {'lr': args.lr, 'width': args.hidden_width, 'n': args.n, 'wide': args.wide}"
    expected = {"lr": 0.1, "width": 8, "n": 3, "wide": False}
    assert written_hparams([ast.parse(f"{text}{own}{TAIL}")], "Trial") == expected
    every = {"lr": 0.1, "hidden_width": 8, "wide": False, "n": 3}
    made = written_hparams([ast.parse(f"{text}hparams = vars(args){TAIL}")], "Trial")
    assert made == every


def test_an_option_without_a_default_is_not_known():
    text = OPTIONS.replace(", default=WIDTH", "")
    own = "hparams = {'lr': args.lr, 'width': args.hidden_width}"
    assert written_hparams([ast.parse(f"{text}{own}{TAIL}")], "Trial") is None


def test_hyperparameters_beside_the_context_are_those_of_the_trial():
    text = "with pytorch.init() as context:\n    trial = Trial(context, {'lr': 1})\n"
    others = ast.parse("with pytorch.init(hparams={'lr': 2}) as c:\n    Other(c)\n")
    assert written_hparams([others, ast.parse(text)], "Trial") == {"lr": 1}
    assert written_hparams([others], "Trial") is None


SCRIPT = """
import yaml
from settings import Settings

WIDTH = 8


def settings(args):
    return Settings(args.lr)


def plain(path):
    return {**yaml.safe_load(open(path)), "width": WIDTH}


def weights(trial):
    return {name: value.clone() for name, value in trial.state_dict().items()}


def run(fold, x, rows, lr, state=None):
    with pytorch.init() as context:
        return Trial(context, fold, x, lr, rows=rows, state=state, width=WIDTH)


def train_batch(x):
    x = batch


x, y = load(return_X_y=True), 3
data, labels = load_wine()
args = parser.parse_args()
for i, (train, _) in enumerate(KFold(5).split(data)):
    run(i, data, train, args.lr, state=weights(last))
"""
NAMES = ["context", "fold", "x", "lr"]


def objects(text, *parameters):
    return objects_given(Given([ast.parse(text)]), "Trial", parameters)


def test_what_a_trial_gets_besides_numbers():
    assert objects(SCRIPT, *NAMES) == {"x", "rows", "state"}


@pytest.mark.parametrize(
    ("given", "is_one"),
    [
        ("settings(args)", True),
        ("plain('a.yaml')", False),
        ("args", False),
        ("Settings(0.1)", True),
        ("np.load('x.npy')[0]", True),
        ("json.loads(text)", False),
        ("numpy.arange(3)[:2]", True),
        ("'a,b'.split(',')", False),
        ("[float(n) for n in names]", False),
        ("[make(n) for n in names]", True),
        ("unknown", False),
        ("0.1 * WIDTH", False),
        ("{'train': (Settings(1), 3)}", True),
        ("{'lr': 0.1, 'sizes': [WIDTH, 2]}", False),
        ("2 * numpy.arange(3)", True),
    ],
)
def test_objects_are_what_is_made(given, is_one):
    text = f"{SCRIPT.partition('def run')[0]}\nTrial(context, {given})\n"
    assert objects(text, "context", "given") == ({"given"} if is_one else set())


def test_a_variable_with_a_number_is_none():
    text = "x = load_wine()\nif x:\n    x = 3\nTrial(context, x)\n"
    assert objects(text, "context", "x") == set()


def test_arguments_of_functions_are_followed():
    text = """
HPARAMS = {"lr": 0.1}


def run(hparams):
    with pytorch.init(hparams=hparams) as context:
        Trial(context)


def other(hparams):
    with pytorch.init(hparams=hparams) as context:
        Other(context)


run(copy.deepcopy(HPARAMS))
other({"lr": 2})
"""
    assert written_hparams([ast.parse(text)], "Trial") == {"lr": 0.1}
    assert written_hparams([ast.parse(text)], "Other") == {"lr": 2}
    twice = f"{text}run({{'lr': 3}})\n"
    assert written_hparams([ast.parse(twice)], "Trial") is None


@pytest.mark.parametrize("text", ["a = b\nb = a\nTrial(c, a)", "a = {**a}\nTrial(c, a)"])
def test_what_comes_back_to_itself_is_not_known(text):
    assert written_hparams([ast.parse(text)], "Trial") is None
    assert objects(text, "context", "given") == set()


MADE = """
class Trial:
    @classmethod
    def build(cls, context, rows):
        return cls(context, rows)


def register(cls):
    FOUND[cls.__name__] = cls
    return cls


def named(name):
    if name == "a":
        return Trial
    raise ValueError(name)


class Runner:
    kind = Trial

    def __init__(self, cls, rows):
        self.cls, self.rows = cls, rows

    def by_attribute(self):
        return self.cls(context, self.rows)


FOUND, TABLE = {}, {"a": Trial}
"""


@pytest.mark.parametrize(
    "made",
    [
        "cls = Trial\ncls(context, load())",
        "cls: type = Trial\ncls(context, load())",
        "(Trial if big else Other)(context, load())",
        "TABLE['a'](context, load())",
        "TABLE.get('a')(context, rows=load())",
        "register(Trial)\nFOUND['Trial'](context, load())",
        "@register\nclass Trial:\n    pass\n\nFOUND['Trial'](context, load())",
        "named('a')(context, load())",
        "getattr(module, 'Trial')(context, load())",
        "for cls in (Other, Trial):\n    cls(context, load())",
        "for name, cls in TABLE.items():\n    cls(context, load())",
        "for cls in TABLE.values():\n    cls(context, load())",
        "make = functools.partial(Trial, rows=load())\nmake(context)",
        "make = partial(Trial, context)\nmake(load())",
        "make = lambda context: Trial(context, load())\nmake(context)",
        "make = lambda rows: Trial(context, rows)\nmake(load())",
        "MAKERS = {'a': lambda c, rows: Trial(c, rows)}\nMAKERS['a'](context, load())",
        "def f(rows):\n    def make(c):\n        Trial(c, rows)\n    return make\nf(load())(1)",
        "def run(cls, rows):\n    cls(context, rows)\nrun(Trial, load())",
        "data = load(), 3\nTrial(context, *data)",
        "given = dict(rows=load())\nTrial(context, **given)",
        "given = {}\ngiven['x'] = load()\nTrial(context, given)",
        "Trial.build(context, load())",
        "Runner(Trial, load()).by_attribute()",
    ],
)
def test_a_class_is_made_by_other_names(made):
    text = MADE + made.replace("load()", "numpy.zeros(3)")
    assert objects(text, "context", "rows") == {"rows"}
    assert objects(MADE + made.replace("load()", "3"), "context", "rows") == frozenset()
