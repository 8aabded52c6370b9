"""Which node a job of one node takes, in a whole plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from jobs.scheduler.mix import mix, on_each_node
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Placing, Policy
from jobs.scheduler.snapshot import Node, Pending, Snapshot
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import A100, H100, NOW, node, pending, running

SMALL = {"gpus": 1, "cpus_per_task": 8}
LARGE = {"gpus": 1, "cpus_per_task": 24}
HALF = {"shards": 2, "cpus_per_task": 1}


def divided(machine: Node, parts: int = 4) -> Node:
    return replace(machine, gpus=tuple(replace(gpu, shards=parts) for gpu in machine.gpus))


def waiting(*kinds: tuple[int, dict[str, int]]) -> tuple[Pending, ...]:
    """Held jobs that are only typical: so many of each kind."""
    asked = [kind for number, kind in kinds for _ in range(number)]
    return tuple(pending(100 + at, held=True, **kind) for at, kind in enumerate(asked))


def nodes_of(snapshot: Snapshot) -> dict[int, str]:
    names = {machine.id: machine.name for machine in snapshot.nodes}
    found = plan(snapshot, NOW).starts
    return {start.job_id: names[start.placements[0].node_id] for start in found}


@pytest.mark.parametrize(
    ("placing", "expected"),
    [
        (Placing.BEST_FIT, {1: "n1"}),
        (Placing.LEAST_FRAGMENTATION, {1: "n2", 2: "n1"}),
    ],
)
def test_gpus_are_not_left_without_cpus(placing: Placing, expected: dict[int, str]) -> None:
    # n2 has CPUs for one of its GPUs: the other is lost anyway. n1 has them for whoever comes.
    nodes = (node(1, 1), node(2, 2, cpus_free=8))
    queue = (pending(1, **SMALL), pending(2, **LARGE), *waiting((9, SMALL), (9, LARGE)))
    assert nodes_of(Snapshot(nodes, queue, policy=Policy(placing=placing))) == expected


def test_what_is_divided_is_left_to_those_who_share() -> None:
    nodes = (divided(node(1, 1)), node(2, 1))
    queue = (pending(1, 1), *waiting((3, HALF), (3, SMALL)))
    assert nodes_of(Snapshot(nodes, queue)) == {1: "n2"}


def test_those_who_run_are_typical_too() -> None:
    nodes = (divided(node(1, 1)), node(2, 1), node(3, 8, used={50: 8}))
    busy = running(50, 60, 3, resources=Resources(shards=2))
    assert nodes_of(Snapshot(nodes, (pending(1, 1),))) == {1: "n1"}
    assert nodes_of(Snapshot(nodes, (pending(1, 1),), (busy,))) == {1: "n2"}


def test_nodes_are_kept_whole_before_anybody_has_asked_for_them() -> None:
    held = (running(50, 60, 2), running(51, 60, 1))
    # Of 6 free GPUs one may go and leave places for 4 and for 2; of 4 it may not.
    nodes = (node(1, 4), node(2, 8, used={50: 2}))
    assert nodes_of(Snapshot(nodes, (pending(1, 1),), held[:1])) == {1: "n2"}
    # Of 3 one may go, too, and leave a place for 2; of 6 it takes one.
    nodes = (node(1, 4, used={51: 1}), node(2, 8, used={50: 2}))
    assert nodes_of(Snapshot(nodes, (pending(1, 1),), held)) == {1: "n1"}


def test_a_model_that_others_must_have_is_left_to_them() -> None:
    nodes = (node(1, 1, model=H100), node(2, 1, model=A100))
    picky = {"gpus": 1, "gpu_model": "h100"}
    assert nodes_of(Snapshot(nodes, (pending(1, 1), *waiting((3, picky))))) == {1: "n2"}


def test_only_nodes_that_were_asked_for_and_take_jobs() -> None:
    nodes = (node(1, 1), node(2, 2), node(3, 2, unavailable="draining"), node(4, 2))
    queue = (pending(1, 1, not_nodes=("n1", "n2")), pending(2, 1), pending(3, 1))
    assert nodes_of(Snapshot(nodes, queue)) == {1: "n4", 2: "n1", 3: "n4"}


def test_what_counts_as_typical() -> None:
    gang = Resources(nodes=2, gpus_per_node=4, max_switches=1)
    alone = Resources(exclusive=True, only_nodes=("n1",))
    part = Resources(shards=1)
    found = on_each_node(Counter({gang: 3, alone: 1, part: 5}), 8)
    assert found == {
        Resources(gpus_per_node=4): 6 + 1,
        Resources(gpus_per_node=8): 1 + 1,
        part: 5,
        Resources(gpus_per_node=2): 1,
        Resources(gpus_per_node=1): 1,
    }


def test_each_partition_has_its_own() -> None:
    nodes = (node(1), node(2, partition="other"))
    queue = (pending(1, 1), pending(2, 2, partition="other"))
    busy = (running(3, 60, 1, resources=Resources(gpus_per_node=3)), running(4, 60, 2))
    snapshot = Snapshot(nodes, queue, busy)
    assert mix(snapshot, "gpu") == {
        Resources(gpus_per_node=1): 1, Resources(gpus_per_node=3): 1,
    }  # fmt: skip
    assert mix(snapshot, "other") == {Resources(gpus_per_node=2): 1}
