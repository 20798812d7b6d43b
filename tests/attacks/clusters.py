"""Searches on a Ray cluster whose machines have no disk in common: what befalls one of them.

They have to end where an undisturbed search on one machine does, without a lost trial, and nothing
of them may stay on the cluster.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.attacks import searches
from tests.attacks.clocks import ahead, clocks
from tests.attacks.started import started
from tests.attacks.storage import reached_by_all, with_variables
from tests.clusters import Cluster, Node, cluster
from tests.fresh_python import environment
from tests.resume.compare import _differ

_SECONDS = 900
# What lives on a cluster after the job of a search.
_LOOK = """
import json, sys, time
import ray
from ray._private.state import state
ray.init(address=sys.argv[1], log_to_driver=False)
job = ray.get_runtime_context().get_job_id()
until = time.monotonic() + 60
while True:
    groups = [it for it in ray.util.placement_group_table().values() if it["state"] != "REMOVED"]
    actors = [it for it in ray._private.state.actors().values()
              if it["State"] != "DEAD" and it["JobID"] != job
              # Ray Train 2.60 has one for all jobs of a cluster.
              and it["Name"] != "AutoscalingCoordinator"]
    if not (groups or actors) or time.monotonic() > until:
        break
    time.sleep(1)
from ray.experimental.internal_kv import _internal_kv_list
keys = [key.decode(errors="replace") for key in _internal_kv_list(b"TuneRegistry")]
print(json.dumps([groups, actors, keys], default=str))
"""


def attack(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One search, to which one thing happens."""
    ranks, befalls = draw.choice((1, 2)), draw.choice(BEFALLS)
    with reached_by_all(folder) as (storage, variables), cluster(folder, python) as machines:
        machines.variables.update(ATTACK_STARTED=str(folder / "started"), ATTACK_SECONDS="0.05")
        machines.variables.update(variables)
        for cores in (1, 2, 1):
            machines.add(cores)
        project = machines.private / "project"
        searches.write(project, ranks, max_restarts=0, checkpoint_storage=storage)
        run_dir = befalls(draw, machines, project)
        what = f"{befalls.__name__}, {ranks} ranks"
        with with_variables(variables):
            found = searches.end(run_dir.parent)
        differences = list(_differ(searches.undisturbed(python, ranks), found, "end"))
        assert differences == [], f"{what}: {differences}"
        left = _left_by(machines, variables)
        if befalls is _search_is_killed:
            left.pop(
                "keys", None
            )  # Ray itself keeps the names of what a killed job has registered.
        assert left == {}, f"{what} left {left}"


def searched(cluster: Cluster, folder: Path, *words: str) -> Any:
    """The process of a search in ``folder``, from a project beside it or in it."""
    command = ["search", str(cluster.private / "project" / "search.yaml"), "--run-dir", "out"]
    command += ["--address", cluster.address, *words]
    return started(folder, cluster.python, *command, **cluster.variables)


def _to_its_end(process: subprocess.Popen[bytes], folder: Path) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS)
    said = (folder / "log.txt").read_text("utf-8", errors="replace")
    assert process.returncode == 0, said[-5000:]


def _wait_for_trials(folder: Path, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not any(folder.glob("out/trials/*/trial.json")):
        time.sleep(0.1)


@contextlib.contextmanager
def _in_the_middle(
    draw: Random, cluster: Cluster, project: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A search whose trials have begun a while ago."""
    with searched(cluster, project) as process:
        _wait_for_trials(project, process)
        time.sleep(draw.uniform(0, 15))
        yield process


def _one_is_lost(draw: Random, cluster: Cluster, project: Path) -> Path:
    with _in_the_middle(draw, cluster, project) as process:
        _lost(draw, cluster)
        cluster.add(1)
        _to_its_end(process, project)
    return project / "out"


def _one_stops_for_a_minute(draw: Random, cluster: Cluster, project: Path) -> Path:
    with _in_the_middle(draw, cluster, project) as process:
        node = draw.choice(cluster.nodes[1:])
        node.send(signal.SIGSTOP)
        time.sleep(60)
        node.send(signal.SIGCONT)
        _to_its_end(process, project)
    return project / "out"


def _search_stops_for_a_minute(draw: Random, cluster: Cluster, project: Path) -> Path:
    """As by a partition, the cluster hears nothing of it, while its trials go on."""
    with _in_the_middle(draw, cluster, project) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(60)
        process.send_signal(signal.SIGCONT)
        _to_its_end(process, project)
    return project / "out"


def _one_comes_late(draw: Random, cluster: Cluster, project: Path) -> Path:
    _lost(draw, cluster)
    with searched(cluster, project) as process:
        _wait_for_trials(project, process)
        cluster.add(2)
        _to_its_end(process, project)
    return project / "out"


def _clocks_differ(draw: Random, cluster: Cluster, project: Path) -> Path:
    """A trial goes on where it is two hours earlier, or later, than where it was."""
    for node in cluster.nodes[1:]:
        node.kill()
    cluster.variables.update(clocks(cluster.folder / "clocks"))
    for hours in draw.sample((-1, 1), 2):
        cluster.add(2, **ahead(hours * 3600))
    with _in_the_middle(draw, cluster, project) as process:
        _lost(draw, cluster)
        _to_its_end(process, project)
    return project / "out"


def _search_is_killed(draw: Random, cluster: Cluster, project: Path) -> Path:
    """It goes on in another directory, to which its folder was moved."""
    with _in_the_middle(draw, cluster, project) as process:
        process.kill()
        process.wait()
    elsewhere = cluster.private / "elsewhere"
    elsewhere.mkdir()
    (project / "out").rename(elsewhere / "out")
    with searched(cluster, elsewhere, "--resume") as process:
        _to_its_end(process, elsewhere)
    return elsewhere / "out"


BEFALLS: tuple[Callable[[Random, Cluster, Path], Path], ...] = (
    _one_is_lost,
    _one_stops_for_a_minute,
    _search_stops_for_a_minute,
    _one_comes_late,
    _clocks_differ,
    _search_is_killed,
)


def _lost(draw: Random, cluster: Cluster) -> Node:
    node = draw.choice([node for node in cluster.nodes[1:] if node.pids()])
    node.kill()
    return node


def _left_by(cluster: Cluster, variables: dict[str, str]) -> dict[str, Any]:
    """What is left on the cluster of a search that has ended: what it is, where."""
    looked = subprocess.run(
        [cluster.python, "-c", _LOOK, cluster.address],
        env={**environment(), **cluster.variables, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = ("placement groups", "actors", "keys")
    found = dict(zip(kinds, json.loads(looked.stdout.splitlines()[-1]), strict=True))
    until = time.monotonic() + 20
    # Of a machine that was lost nobody can take anything.
    there = [node for node in cluster.nodes if node.pids()]
    while any(node.left() for node in there) and time.monotonic() < until:
        time.sleep(0.5)
    found.update({str(node.temporary): node.left() for node in there})
    return {name: left for name, left in found.items() if left}
