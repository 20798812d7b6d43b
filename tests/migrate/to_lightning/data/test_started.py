from __future__ import annotations

import pytest

from det_compat.migrate.to_lightning.data.started import SAID
from tests.migrate.rewriting import HEADER, rewritten, trial

LOADER = "return DataLoader([], batch_size=self.context"
FEATURES = """

def features(examples):
    return converted(examples)


def converted(examples):
    {}
"""
WITH = "with multiprocessing.Pool(2) as pool:\n        return pool.map(len, examples)"
POOL = "from multiprocessing import Pool\n"
OTHER = "from model import Pool\n"
LIBRARY = "from transformers import squad_convert_examples_to_features\n"


@pytest.mark.parametrize(
    ("imports", "body", "is_said"),
    [
        ("import multiprocessing\n", WITH, True),
        (POOL, "return Pool(2).map(len, examples)", True),
        (LIBRARY, "return squad_convert_examples_to_features(examples)", True),
        (OTHER, "return Pool(2)(examples)", False),
        ("", "return [len(each) for each in examples]", False),
    ],
)
def test_pools_of_loaders_are_spoken_of(imports, body, is_said, tmp_path):
    made = "data = features([])\n        "
    source = trial((LOADER, f"{made}{LOADER.replace('[]', 'data')}"), header=imports + HEADER)
    result = rewritten(tmp_path, source + FEATURES.format(body))
    assert (f"        {SAID}\n        data = features([])\n" in result) is is_said


def test_data_of_init_are_there_before(tmp_path):
    made = "self.context = context\n        self.data = features([])"
    source = trial(
        ("self.context = context", made),
        (LOADER, LOADER.replace("[]", "self.data")),
        header="import multiprocessing\n" + HEADER,
    )
    assert SAID not in rewritten(tmp_path, source + FEATURES.format(WITH))


@pytest.mark.parametrize(
    "line", ["with multiprocessing.Pool(2) as pool:", "for n in mp.Pool(2).map(f, [1]):"]
)
def test_a_pool_of_the_loader_itself_is_spoken_of(line, tmp_path):
    source = trial((LOADER, f"{line}\n            pass\n        {LOADER}"))
    assert f"        {SAID}\n        {line}\n" in rewritten(tmp_path, source)
