"""``python -m benchmarks.searches``: what a trial of a search costs beside its training.

Twelve trials of examples/digits, of about a second each, are searched by det_compat, and twelve of
the same network by raw Ray Tune with a plain PyTorch function, in turn, with two workers. Then
det_compat searches more and more trials that train nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRIALS, EPOCHS, WORKERS = 12, 4, 2
BATCHES = 22 * EPOCHS  # of 64 of the 1347 digits
OURS, RAW = "det_compat", "raw Ray Tune"


def main() -> None:
    """Measure, print tables as Markdown, and write what was measured as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searches", description=__doc__)
    parser.add_argument("--alternations", type=int, default=3, metavar="N")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[125, 250, 500, 1000], metavar="TRIALS"
    )
    parser.add_argument("--json", type=Path, default=Path("searches.json"), metavar="FILE")
    parser.add_argument("--search", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        SEARCHES[options.search](*options.sizes)
        return
    found: dict[str, list[dict[str, float]]] = {OURS: [], RAW: []}
    for _ in range(options.alternations):
        for side, runs in found.items():
            runs.append(measured(side))
    nothing = {size: measured("nothing", size)["seconds"] for size in options.sizes}
    options.json.write_text(json.dumps({**found, "nothing": nothing}, indent=1) + "\n")
    print(as_markdown(found, nothing))


def measured(search: str, *size: int) -> dict[str, float]:
    """The seconds of a search in a process of its own, with what it tells of itself."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.searches", "--search", search, "--sizes"]
        start = time.perf_counter()
        subprocess.run(
            [*command, *map(str, size)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        found = {"seconds": time.perf_counter() - start}
        told = Path(folder, "told.json")
        return {**found, **json.loads(told.read_text())} if told.exists() else found


def as_markdown(found: dict[str, list[dict[str, float]]], nothing: dict[int, float]) -> str:
    """Seconds, and what they are times the training that both workers share, and raw Ray Tune."""
    lines = [
        f"| {TRIALS} trials, {WORKERS} workers | seconds | x training / workers | x {RAW} |",
        "| --- | --- | --- | --- |",
    ]
    for side, runs in found.items():
        pairs = list(zip(runs, found[RAW], strict=True))
        cells = [
            statistics.median(run["seconds"] for run in runs),
            statistics.median(a["seconds"] / (b["training"] / WORKERS) for a, b in pairs),
            statistics.median(a["seconds"] / b["seconds"] for a, b in pairs),
        ]
        lines.append(f"| {side} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    if nothing:
        lines += ["", "| trials that train nothing | seconds | seconds a trial |"]
        lines.append("| --- | --- | --- |")
    for size, seconds in nothing.items():
        lines.append(f"| {size} | {seconds:.1f} | {seconds / size:.3f} |")
    return "\n".join(lines)


def _connected() -> None:
    import ray

    os.environ["RAY_API_SERVER_ADDRESS"] = "http://127.0.0.1:9"
    ray.init(address="local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)


def search_digits() -> None:
    """Search examples/digits by `det-compat search`, with as many filters as raw Ray Tune has."""
    import yaml

    from det_compat.cli import main as command

    project = ROOT / "examples" / "digits"
    config = yaml.safe_load((project / "adaptive.yaml").read_text())
    config["searcher"] = {
        **{"name": "random", "metric": "accuracy", "smaller_is_better": False},
        **{"max_length": {"epochs": EPOCHS}, "max_trials": TRIALS},
        "max_concurrent_trials": WORKERS,
    }
    config["hyperparameters"]["n_filters"] = 32
    Path("search.yaml").write_text(yaml.dump(config))
    sys.argv = ["det-compat", "search", "search.yaml", str(project), "--run-dir", "run"]
    sys.exit(command())


def search_nothing(trials: int) -> None:
    """Search trials that report once, at once."""
    from det_compat.search import run

    config = {
        "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
        "searcher": {
            **{"name": "random", "metric": "x", "max_trials": trials},
            "max_length": {"batches": 1},
        },
        "entrypoint": "nothing:Nothing",
    }
    _connected()
    run(config, run_dir="run", train_one="benchmarks.searches:train_nothing")


def train_nothing(config: dict[str, Any], run_dir: Path, report: Any, *_: Any, **more: Any) -> None:
    """What trains a trial in ``search_nothing``."""
    report(1, {"x": config["hyperparameters"]["x"]["val"]}, None)


def search_raw() -> None:
    """Search with Ray Tune alone, and tell how long the trials have trained."""
    from ray import tune

    _connected()
    tuner = tune.Tuner(
        tune.with_resources(train_raw, {"CPU": 1}),
        param_space={"lr": tune.loguniform(3e-4, 3e-2)},
        tune_config=tune.TuneConfig(num_samples=TRIALS, metric="training", mode="min"),
        run_config=tune.RunConfig(storage_path=str(Path.cwd()), name="tune", verbose=0),
    )
    training = sum(result.metrics["training"] for result in tuner.fit() if result.metrics)
    Path("told.json").write_text(json.dumps({"training": training}))


def train_raw(config: dict[str, Any]) -> None:
    """A trial of ``search_raw``: the network of examples/digits, in a plain loop."""
    from ray import tune

    from benchmarks.contenders import run
    from benchmarks.workloads import WORKLOADS

    workload = dataclasses.replace(WORKLOADS["digits CNN"], batches=BATCHES, warm_up=1)
    start = time.perf_counter()
    run("plain PyTorch", workload)
    tune.report({"training": time.perf_counter() - start})


SEARCHES: dict[str, Any] = {OURS: search_digits, RAW: search_raw, "nothing": search_nothing}


if __name__ == "__main__":
    main()
