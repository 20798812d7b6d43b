from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrate.to_lightning.whole.test_hooks import made

LOOP = """\
    def evaluate_full_dataset(self, data_loader):
        total, n, found, count = 0.0, 0, [], 50
        for batch in data_loader:
            batch = self.context.to_device(batch)
            loss = self.model(batch).sum().item()
            total += loss
            n = n + len(batch)
            found.append(loss)
{after}
"""
SAID = "on several devices, the {} of what each finds in its share of the data"


@pytest.mark.parametrize(
    ("after", "reduced"),
    [
        ('return {"error": total / n}', "mean"),
        ('return {"error": 100.0 * total / n, "last": 3.0}', "mean"),
        ('return {"error": np.sqrt(total / n)}', "mean"),
        ('return {"error": total / len(data_loader)}', "mean"),
        ('return {"error": np.mean(found), "n": sum(found) / len(found)}', "mean"),
        ('return {"error": total / n if n else 0.0}', "mean"),
        ('rest = total / n\nreturn {"error": rest, "perplexity": np.exp(rest)}', "mean"),
        # What is divided by a fixed number is a part of what Determined's chief found.
        ('return {"error": total / 50}', "sum"),
        ('return {"error": total / self.rows}', "sum"),
        ('return {"error": float(total) / count, "n": n}', "sum"),
        ('return {"error": sum(found) / 50}', "sum"),
        ('rest = np.array(found)\nreturn {"error": rest.sum() / 50}', "sum"),
        ('results = {"error": total / 50}\nresults["n"] = n\nreturn results', "sum"),
        ('return {"error": total / n, "n": n}', "mean sum"),
        # Neither is right for all of these: every device goes through all of the data.
        ('results = {"error": total / 50, "share": total / n}\nreturn results', ""),
        ('return {"error": np.sqrt(total / 50)}', ""),
        ('return {"error": 1 - total / 50}', ""),
    ],
)
def test_how_devices_make_one_number(after: str, reduced: str, tmp_path: Path) -> None:
    lines = "\n".join(f"        {line}" for line in after.split("\n"))
    init = "        self.model = context.wrap_model("
    module = made(tmp_path, LOOP.format(after=lines), (init, f"        self.rows = 50\n{init}"))
    assert "MIGRATE" not in module
    found = [each for each in ("mean", "sum") if SAID.format(each) in module]
    assert found == reduced.split()
    assert ('reduce_fx="sum"' in module) is ("sum" in reduced)
    assert ("each device goes through all of the data" in module) is (not reduced)
