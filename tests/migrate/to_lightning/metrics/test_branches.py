from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

EVALUATION = '        return {"error": self.model(batch).sum()}\n'
MEASURES = """\
    def one(self, batch):
        return {"loss": batch.sum(), "one": batch.max()}

    def other(self, batch):
        return {"loss": batch.mean()}

    def train_batch("""


def step(tmp_path, lines):
    body = "".join(f"        {line}\n" for line in lines.splitlines())
    text = trial((EVALUATION, body), ("    def train_batch(", MEASURES))
    return method(rewritten(tmp_path, text), "validation_step")


BRANCHES = """\
if self.kind:
    # the first
    return self.one(batch)
elif batch is None:
    print(batch)
    return self.other(batch)
"""


@pytest.mark.parametrize("end", ["", "return None\n", "else:\n    return self.one(batch)\n"])
def test_one_call_logs_what_any_branch_returns(tmp_path, end):
    made = step(tmp_path, BRANCHES + end)
    assert made.count("log_dict(") == 1
    assert "    # the first\n        metrics = self.one(batch)\n" in made
    assert ("    else:\n        return\n" in made) is ("else" not in end)
    assert 'f"val_{name}"' in made


@pytest.mark.parametrize(
    "lines",
    [
        BRANCHES.replace("print(batch)", "if self.kind: return self.one(batch)"),
        BRANCHES.replace("return self.one(batch)", 'return {"one": 1.0}'),
        BRANCHES.replace("print(batch)", "metrics = batch"),
        BRANCHES.replace("    return self.other(batch)\n", ""),
        "if self.kind:\n    return self.one(batch)\nreturn self.other(batch)\n",
    ],
)
def test_other_returns_stay_where_they_are(tmp_path, lines):
    assert "metrics = self." not in step(tmp_path, lines)


def test_no_return_is_written_where_a_method_ends_anyway(tmp_path):
    body = """\
        error = self.model(batch).sum()
        if self.model.training:
            return {"a": error}
        if batch is None:
            return {"b": error}
        elif error > 0:
            return {"c": error}
        else:
            print(error)
            return {"d": error}
"""
    made = rewritten(tmp_path, trial(('        return {"error": self.model(batch).sum()}\n', body)))
    lines = method(made, "validation_step").splitlines()
    after = [lines[i + 1].strip() for i, line in enumerate(lines[:-1]) if "self.log(" in line]
    assert after == ["return", "elif error > 0:", "else:"]
    assert lines[-1].strip().startswith('self.log("d", error')
