from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

SAID = "# Lightning goes by the __len__ of Rows: an epoch leaves out what there is beyond that,\n"
ROWS = """\
class Rows(torch.utils.data.IterableDataset):
    def __len__(self):
        {}

    def __iter__(self):
        {}

"""


@pytest.mark.parametrize(
    ("length", "lines", "is_said"),
    [
        ("return len(self.rows)", "for row in self.rows:\n            yield row", False),
        ("return len(self.rows)", "for i, _ in enumerate(self.rows):\n            yield i", False),
        ("return self.n", "for i in range(self.n):\n            yield i", False),
        ("return len(self.rows)", "yield from self.rows", False),
        ("return len(self.rows)", "return iter(self.rows)", False),
        ("return self.n", "while len(self) > self.at:\n            yield self.at", False),
        ("return self.n", "yield from self.rows", True),
        ("return int(1e6)", "for row in self.rows:\n            yield row", True),
        ("return len(self.rows)", "while self.more():\n            yield self.row", True),
        (
            "return len(self.rows)",
            "for row in self.rows:\n            if row:\n                yield row",
            True,
        ),
        (
            "return len(self.rows)",
            "for row in self.rows:\n            if not row:\n                continue\n"
            "            yield row",
            True,
        ),
    ],
)
def test_data_that_may_say_another_length_are_spoken_of(length, lines, is_said, tmp_path):
    header = HEADER + ROWS.format(length, lines)
    loader = "DataLoader([], batch_size=4)"
    made = rewritten(tmp_path, trial((loader, "DataLoader(Rows())"), header=header))
    assert (SAID in method(made, "val_dataloader")) is is_said
    assert made.count(SAID) == is_said
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


WHOLE = "batches = self.made()\n        return iter(batches)"
FULL = """\
batch = []
        for at in range(self.n):
            batch.append(at)
            if len(batch) == 2:
                yield batch
                batch = []"""


@pytest.mark.parametrize(
    ("length", "lines", "is_said"),
    [
        ("return self.n", "for at in range(0, self.n, 2):\n            yield [at, at + 1]", True),
        ("return self.n", f"{FULL}", True),
        ("return self.n // 2", f"{FULL}", False),
        ("return math.ceil(self.n / self.batch_size)", f"{FULL}", False),
        ("return self.halves", f"{FULL}", False),
        ("return self.n // self.world_size", f"{FULL}", True),
        ("return math.ceil(self.n / self.num_replicas)", f"{FULL}", True),
        ("return self.n", "return self", False),
        ("return self.n", "return super().__iter__()", False),
        ("return self.num_batches", f"{FULL}", False),
        ("return len(self.batches)", f"{FULL}", False),
        ("return self.n * self.batch_size", f"{FULL}", True),
        ("return len(self.rows)", WHOLE, True),
        ("return len(self.made())", WHOLE, False),
        ("return len(self.made()) // 2", WHOLE, False),
        ("return len(self.groups)", "return iter(self.groups)", False),
        ("return self.n", "at = self.at\n        while True:\n            yield self[at:]", True),
        ("return -(-self.n // 2)", "while True:\n            yield list(self.next())", False),
    ],
)
@pytest.mark.parametrize("place", ["file", "function", "init"])
def test_so_are_batch_samplers_that_say_how_many_rows_there_are(
    length, lines, is_said, place, tmp_path
):
    rows = ROWS.replace("class Rows(torch.utils.data.IterableDataset)", "class BatchRows")
    rows = rows.format(length, lines) + (
        "    def __init__(self, n=8):\n        self.n = n\n        self.halves = int(n / 2)\n\n"
    )
    loader = "torch.utils.data.DataLoader(range(8), batch_sampler={})"
    begin = "        self.context = context\n"
    changes = [("DataLoader([], batch_size=4)", loader.format("BatchRows()"))]
    if place == "function":
        rows += (
            f"def made(): return inner()\n\ndef inner(): return {loader.format('BatchRows()')}\n"
        )
        changes = [("DataLoader([], batch_size=4)", "made()")]
    elif place == "init":
        changes = [
            (begin, f"{begin}        self.rows = BatchRows()\n"),
            ("DataLoader([], batch_size=4)", loader.format("self.rows")),
        ]
    (tmp_path / "data.py").write_text(f"import math\nimport torch\n\n{rows}")
    made = rewritten(
        tmp_path, trial(*changes, header=f"from data import BatchRows, made\n{HEADER}")
    )
    said = SAID.replace("Rows", "BatchRows")
    assert (said in method(made, "__init__" if place == "init" else "val_dataloader")) is is_said
    assert made.count(said) == is_said
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


def test_a_loader_that_is_one_batch_says_nothing(tmp_path):
    header = HEADER + ROWS.format("return 0", "yield from range(3)")
    whole = trial(
        ("evaluate_batch(self, batch)", "evaluate_full_dataset(self, data_loader)"),
        ('{"error": self.model(batch).sum()}', "compute(self.model, data_loader)"),
        ("DataLoader([], batch_size=4)", "DataLoader(Rows())"),
        header=header,
    )
    made = rewritten(tmp_path, whole)
    assert "DataLoader([DataLoader(Rows())], batch_size=None)" in made
    assert SAID not in made


def test_so_are_those_of_a_method_that_makes_loaders_and_of_another_file(tmp_path):
    rows = ROWS.format("return 0", "yield from range(3)")
    (tmp_path / "data.py").write_text(f"import torch\n\n{rows}")
    helper = "    def rows(self):\n        return data.Rows()\n\n    def evaluate_batch"
    made = rewritten(
        tmp_path,
        trial(
            ("    def evaluate_batch", helper),
            ("DataLoader([], batch_size=4)", "DataLoader(self.rows())"),
            header=f"import data\n{HEADER}",
        ),
    )
    assert SAID in method(made, "rows")
