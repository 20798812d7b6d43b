from __future__ import annotations

import contextlib
import multiprocessing
import signal

import pytest
import pytorch_lightning as pl

from det_compat.migrate.to_lightning.data.started import LEFT
from tests.migrate.rewriting import HEADER, method, rewritten, trial

LOADER = "return DataLoader([], batch_size=self.context"
VALIDATION = "return DataLoader([], batch_size=4)"
FEATURES = """

def features(examples):
    return converted(examples)


def converted(examples):
    {}
"""
WITH = "with multiprocessing.Pool(1) as pool:\n        return pool.map(abs, examples)"
POOL = "from multiprocessing import Pool\n"
OTHER = "from model import Pool\n"
LIBRARY = "from transformers import squad_convert_examples_to_features\n"
WHOLE = "import multiprocessing\n" + HEADER


def made(tmp_path, *changes: tuple[str, str], body: str = WITH, header: str = WHOLE) -> str:
    return rewritten(tmp_path, trial(*changes, header=header) + FEATURES.format(body))


def loader(data: str, *lines: str) -> tuple[str, str]:
    text = "\n        ".join((*lines, LOADER.replace("[]", data)))
    return LOADER, text


def validation(data: str, *lines: str) -> tuple[str, str]:
    text = "\n        ".join((*lines, VALIDATION.replace("[]", data)))
    return VALIDATION, text


@pytest.mark.parametrize(
    ("imports", "body", "is_moved"),
    [
        ("import multiprocessing\n", WITH, True),
        (POOL, "return Pool(2).map(len, examples)", True),
        (LIBRARY, "return squad_convert_examples_to_features(examples)", True),
        (OTHER, "return Pool(2)(examples)", False),
        ("", "return [len(each) for each in examples]", False),
    ],
)
def test_what_starts_pools_is_made_in_setup(imports, body, is_moved, tmp_path):
    changes = loader("data", "data = features([])")
    source = made(tmp_path, changes, body=body, header=imports + HEADER)
    assert ("    def setup(self, stage):\n" in source) is is_moved
    assert ("self.data = features([])\n" in source) is is_moved
    assert LEFT not in source


def test_data_are_made_before_lightning_handles_signals(tmp_path, monkeypatch):
    source = made(
        tmp_path,
        loader("data", '"""Digits."""', "data = features([1.0] * 16)", "", "# ours"),
        validation("features([2.0] * 8)"),
        ("loss = self.model(batch)", "loss = self.model(batch.float().reshape(-1, 2))"),
        ("self.model(batch).sum()}", "self.model(batch.float().reshape(-1, 2)).sum()}"),
    )
    seen = []

    class Pool(contextlib.nullcontext):
        @staticmethod
        def map(_, examples):
            seen.append((examples[0], signal.getsignal(signal.SIGTERM)))
            return examples

    monkeypatch.setattr(multiprocessing, "Pool", lambda _: Pool(Pool))
    names = {}
    exec(source, names)
    flags = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **flags)
    module = names["Trial"](global_batch_size=4)
    before = signal.getsignal(signal.SIGTERM)
    trainer.fit(module)
    assert trainer.global_step == 4
    assert seen == [(1.0, before), (2.0, before)]
    trainer.validate(module, verbose=False)
    assert seen[2:] == [(2.0, before)]
    assert method(source, "setup").splitlines()[1:] == [
        '    if stage == "fit":',
        "        self.data = features([1.0] * 16)",
        '    if stage in ("fit", "validate"):',
        "        self.val_dataset = features([2.0] * 8)",
    ]
    kept = method(source, "train_dataloader").splitlines()[1:5]
    assert [kept[0], *kept[2:]] == ['    """Digits."""', "    # ours", "    return DataLoader("]


def test_data_of_init_are_there_before(tmp_path):
    kept = "self.context = context\n        self.data = features([])"
    source = made(tmp_path, ("self.context = context", kept), loader("self.data"))
    assert LEFT not in source
    assert "def setup(" not in source


@pytest.mark.parametrize(
    "line", ["with multiprocessing.Pool(2) as pool:", "for n in mp.Pool(2).map(f, [1]):"]
)
def test_a_pool_of_the_loader_itself_moves(line, tmp_path):
    source = made(tmp_path, loader("data", "data = []", line, "    data.append(1)"))
    setup = method(source, "setup").splitlines()[1:]
    assert [each.strip() for each in setup[1:]] == ["self.data = []", line, "self.data.append(1)"]
    assert "DataLoader(\n            self.data," in source or "DataLoader(self.data," in source


def test_what_is_bound_again_is_made_as_a_whole(tmp_path):
    lines = ("data = features([])", "n = len(data)", "data = data[1:]")
    source = made(tmp_path, loader("data", *lines), validation("data", "data = features([1])"))
    setup = method(source, "setup")
    assert "self.train_data = self.train_data[1:]\n" in setup
    assert "self.val_data = features([1])" in setup


@pytest.mark.parametrize(
    ("change", "other"),
    [
        # several paths
        (loader("data", "if len([]):", "    return DataLoader([])", "data = features([])"), None),
        # what is made or set only later, and a model, which is on its device later
        (loader("data", "data = features(self.trainer.num_val_batches)"), None),
        (loader("data", "data = features(self.context.device)"), None),
        (loader("data", "data = features([*self.model.parameters()])"), None),
        # the loader of validations changes what that of training reads, and the other way round
        (
            loader("self.data", "self.data = features([])"),
            validation("self.data", "self.data = features([1])"),
        ),
        (
            loader("data", "data = []", "self.size = 3"),
            validation("data", "data = features([self.size])"),
        ),
        # both draw
        (
            loader("data", "data = torch.rand(4)"),
            validation("data", "data = features(torch.rand(4))"),
        ),
        # an argument of the loader that is not its first
        (loader("[1], sampler=features([])"), None),
    ],
)
def test_what_cannot_be_taken_out_is_marked(change, other, tmp_path):
    source = made(tmp_path, change, *([other] if other else []))
    assert f"        # MIGRATE: {LEFT}; see" in source
    assert "def setup(" not in source


def test_loaders_that_several_classes_share_are_marked(tmp_path):
    heir = "\n\nclass Heir(Trial):\n    pass\n"
    source = trial(loader("data", "data = features([])"), header=WHOLE)
    source = rewritten(tmp_path, source + heir + FEATURES.format(WITH))
    assert f"# MIGRATE: {LEFT}; see" in source


def test_a_hook_that_is_there_gets_the_data(tmp_path):
    lines = ("data = features([])",)
    size = "self.context = context\n        self.n = context.distributed.get_size() * [1]"
    source = made(tmp_path, ("self.context = context", size), loader("data", *lines))
    assert source.count("def setup(") <= 1
    assert "self.data = features([])" in method(source, "setup")


def test_variables_that_are_asked_for_later_are_not_shared(tmp_path):
    lines = ("n = {}", "f = lambda x: x + n", "data = features([f])")
    source = made(
        tmp_path,
        loader("data", lines[0].format(1), *lines[1:]),
        validation("data", lines[0].format(2), *lines[1:]),
    )
    assert f"# MIGRATE: {LEFT}; see" in source
