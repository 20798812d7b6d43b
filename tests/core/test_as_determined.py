"""Scripts of the Core API do the same with det_compat as with Determined 0.38.1 off a cluster."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from det_compat import core
from tests.core.threads import on_ranks

determined = pytest.importorskip("determined.core")

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def attempt(function: Callable[[], Any]) -> Any:
    """What a call returns, or what it raises."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__, _UUID.sub("UUID", str(error))


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "directory"
        for path in sorted(folder.rglob("*"))
    }


def write(folder: Path) -> None:
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "model.txt").write_text("weights")
    (folder / "sub" / "state.txt").write_text("state")


def store_and_restore(api: Any, base: Path) -> Any:
    with api.init(checkpoint_storage=str(base)) as context:
        metadata = {"steps_completed": 3, "nested": {"a": [1, None]}}
        with context.checkpoint.store_path(metadata) as (path, uuid):
            write(path)
        with context.checkpoint.restore_path(uuid) as path:
            return tree(path), type(path).__name__


def upload_and_download(api: Any, base: Path) -> Any:
    source, target, part = base / "source", base / "target", base / "part"
    write(source)
    with api.init(checkpoint_storage=str(base / "storage")) as context:
        uuid = context.checkpoint.upload(source, {"steps_completed": 1})
        context.checkpoint.download(uuid, target)
        context.checkpoint.download(uuid, part, selector=lambda path: path.startswith("sub/s"))
        chosen = context.checkpoint.upload(
            source, {"steps_completed": 2}, selector=lambda path: path in ("model.txt", "sub/")
        )
        without = tree(base / "storage" / chosen)
        # Determined leaves the metadata out, too, where the selector does not name them.
        without.pop("metadata.json", None)
        return tree(source), tree(target), tree(part), without


def delete(api: Any, base: Path) -> Any:
    with api.init(checkpoint_storage=str(base)) as context:
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
            write(path)
        context.checkpoint.delete(uuid)
        return os.listdir(base), attempt(lambda: context.checkpoint.delete(uuid))


def without_metadata(api: Any, base: Path) -> Any:
    with api.init(checkpoint_storage=str(base)) as context:
        with context.checkpoint.store_path() as (path, uuid):
            write(path)
        return tree(base / uuid)


def metadata_that_cannot_be_written(api: Any, base: Path) -> Any:
    source = base / "source"
    (source / "metadata.json").mkdir(parents=True)
    with api.init(checkpoint_storage=str(base / "storage")) as context:
        found = [attempt(partial(context.checkpoint.upload, str(source), shard=s)) for s in (0, 1)]
    return [tree(base), *((kind, text.replace(str(base), "")) for kind, text in found)]


def wrong_calls(api: Any, base: Path) -> Any:
    context = api.init(checkpoint_storage=str(base))
    return [
        attempt(lambda: context.preempt.should_preempt()),
        attempt(lambda: context.checkpoint.upload(None)),
        attempt(lambda: context.checkpoint.download("a", base, "SOMETIMES")),
        attempt(lambda: api.init(checkpoint_storage=3)),
        attempt(lambda: api.init(checkpoint_storage={"type": "shared_fs"})),
        attempt(lambda: api.init(checkpoint_storage={"type": "tape"})),
        attempt(lambda: api.DistributedContext(**{**RANKS, "size": None})),
    ]


RANKS = dict(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)


def searcher(api: Any, base: Path) -> Any:
    with api.init(checkpoint_storage=str(base)) as context:
        found: list[Any] = [context.searcher.get_configured_units().name]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for operation in context.searcher.operations():
                found.append(operation.length)
                operation.report_progress(0.5)
                operation.report_completed(0.25)
                found.append(attempt(partial(operation.report_completed, 1)))
                found.append(attempt(partial(operation.report_progress, 0.1)))
            found.append([(one.category.__name__, str(one.message)) for one in caught])
            iterator = context.searcher.operations(api.SearcherMode.ChiefOnly)
            next(iterator)
            found.append(attempt(lambda: next(iterator)))
            found.append(attempt(lambda: next(context.searcher.operations("SOME"))))
        return found


def train(api: Any, base: Path) -> Any:
    with api.init(checkpoint_storage=str(base)) as context:
        context.train.set_status("busy")
        context.train.report_training_metrics(1, {"loss": 0.5}, [{"loss": 1.0}])
        context.train.report_validation_metrics(2, {"loss": None})
        context.train.report_metrics("test", 3, {"f1": "good"})
        context.train.report_progress(1.5)
        context.train.upload_tensorboard_files()
        context.train.report_early_exit(api.EarlyExitReason.USER_REQUESTED_STOP)
        context.profiler.on()
        context.profiler.off()
        context.experimental.report_task_using_checkpoint(None)
        return context.train.get_experiment_best_validation(), context.info


def parts(api: Any, base: Path) -> Any:
    context = api.init(checkpoint_storage=str(base))
    return {
        name: isinstance(getattr(context, name), getattr(api, kind))
        for name, kind in {
            "checkpoint": "CheckpointContext",
            "distributed": "DistributedContext",
            "experimental": "ExperimentalCoreContext",
            "preempt": "PreemptContext",
            "profiler": "ProfilerContext",
            "searcher": "SearcherContext",
            "train": "TrainContext",
        }.items()
    }


SCRIPTS = [
    store_and_restore,
    upload_and_download,
    delete,
    without_metadata,
    wrong_calls,
    metadata_that_cannot_be_written,
    searcher,
    train,
    parts,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_script_does_the_same(
    script: Callable[[Any, Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "determined")
    monkeypatch.chdir(tmp_path)
    found, logged = {}, {}
    for name, api in (("theirs", determined), ("ours", core)):
        caplog.clear()
        (tmp_path / name).mkdir()
        found[name] = script(api, tmp_path / name)
        texts = [_UUID.sub("UUID", text) for text in caplog.messages]
        logged[name] = [text.replace(f"/{name}", "/side") for text in texts]
    text = json.dumps(found["ours"], default=str)
    assert text.replace("/ours", "/side") == json.dumps(found["theirs"], default=str).replace(
        "/theirs", "/side"
    )
    # Determined warns of a selector that nobody has given.
    theirs = [one for one in logged["theirs"] if "Ignoring partial" not in one]
    assert logged["ours"] == theirs


@pytest.mark.parametrize("name", ["preempt_mode", "tensorboard_mode"])
def test_what_is_no_mode_is_taken_and_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("x", None, 3):
        for api in (determined, core):
            with api.init(checkpoint_storage=str(tmp_path), **{name: given}) as context:
                assert context.preempt.should_preempt() is False
    assert [text.split(" is no ")[0] for text in caplog.messages] == [
        f"core.init({name}={given!r}): that" for given in ("x", None, 3)
    ]


def test_a_script_may_report_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    itself: list[Any] = []
    itself.append(itself)
    odd = [{1, 2}, 1j, object(), 10**400, torch.ones(1, dtype=torch.bfloat16), {("a",): 1}, itself]
    for api in (determined, core):
        with api.init(checkpoint_storage=str(tmp_path)) as context:
            for value in odd:
                context.train.report_metrics("odd", 1, {"value": value, "loss": 0.5})
                context.train.report_training_metrics(2, {"loss": 0.5}, batch_metrics=[value])
            for metrics in (None, [], "loss"):
                context.train.report_validation_metrics(3, metrics)
            for steps in (10**30, float("nan"), None, [1]):
                context.train.report_metrics("odd steps", steps, {"loss": 0.5})
    (file,) = tmp_path.glob("runs/*/metrics.jsonl")
    reports = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["metrics"]["loss"] for one in reports] == [0.5] * (2 * len(odd) + 4)
    kept = [one["metrics"]["value"] for one in reports if one["group"] == "odd"]
    assert kept[:2] == ["{1, 2}", "1j"] and kept[3:6] == [10**400, 1.0, "{('a',): 1}"]
    assert sum("text is kept" in message for message in caplog.messages) == 5
    assert sum("are not kept: " in message for message in caplog.messages) == 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # A script is in its right.
def test_a_fork_reports_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with core.init(checkpoint_storage=str(tmp_path)) as context:
        context.train.report_training_metrics(1, {"loss": 0.5})
        if (child := os.fork()) == 0:
            signal.alarm(30)
            context.train.report_training_metrics(2, {"loss": 0.5})
            context.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        context.train.report_training_metrics(3, {"loss": 0.5})
    (file,) = tmp_path.glob("runs/*/metrics.jsonl")
    lines = file.read_text().splitlines()
    assert [json.loads(line)["steps_completed"] for line in lines] == [1, 2, 3]
    assert len([*file.parent.glob("events*")]) == 2


def sharded(api: Any, base: Path) -> Any:
    def run(distributed: Any) -> Any:
        rank = distributed.rank
        context = api.init(distributed=distributed, checkpoint_storage=str(base / "storage"))
        source = base / f"rank{rank}"
        write(source)
        (source / f"own{rank}").write_text(str(rank))
        with context:
            metadata = {"steps_completed": 1, f"rank{rank}": {"a": rank}}
            uuid = context.checkpoint.upload(source, metadata, shard=True)
            with context.checkpoint.store_path(metadata, shard=True) as (path, second):
                (path / f"own{rank}").write_text(str(rank))
            with context.checkpoint.restore_path(uuid) as path:
                found = [tree(path), tree(base / "storage" / second)]
            (source / "model.txt").write_text(f"other {rank}")
            found.append(attempt(lambda: context.checkpoint.upload(source, metadata, shard=True)))
            conflict = {"steps_completed": rank}
            found.append(attempt(lambda: context.checkpoint.upload(source, conflict, shard=True)))
            found.append(attempt(lambda: context.checkpoint.upload(None, shard=True)))
            found.append(attempt(lambda: context.checkpoint.upload(source, {})) if rank else None)
            target = base / f"target{rank}"
            context.checkpoint.download(uuid, target, selector=lambda path: path == f"own{rank}")
            return [*found, tree(target) if target.exists() else None]

    return on_ranks(run, context=api.DistributedContext)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # ZeroMQ's contexts are never ended.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_ranks_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for name, api in (("theirs", determined), ("ours", core)):
        (tmp_path / name).mkdir()
        found[name] = sharded(api, tmp_path / name)
    ours, theirs = found["ours"], found["theirs"]
    for rank, (own, reference) in enumerate(zip(ours, theirs, strict=True)):
        for at, (one, other) in enumerate(zip(own, reference, strict=True)):
            if at in (2, 3) and rank:
                # Only the chief's text names files and ranks line by line in Determined.
                assert one[0] == other[0] == "RuntimeError"
                assert "refusing to upload with" in one[1]
            else:
                assert one == other, (rank, at)


def test_all_names_of_determined_are_there() -> None:
    import ast

    source = Path(determined.__file__ or "").read_text()
    names = {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if not alias.name.startswith("_")
    }
    assert {"init", "Context", "SearcherOperation"} < names
    assert names - set(core.__all__) == set()
