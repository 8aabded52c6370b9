"""Who starts where, as bare data: a cluster and a queue in, placements out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import DependencyState, Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import H100, NOW, node, pending, running

MIXED = replace(
    node(1),
    gpus=(
        *node(1, gpus=2).gpus,
        *(replace(g, index=g.index + 2) for g in node(9, 2, model=H100).gpus),
    ),
)
HOUR = timedelta(hours=1)

# name: nodes, running, pending -> {job: {node: GPU indices}}
STARTS: dict[
    str, tuple[list[Node], list[Running], list[Pending], dict[int, dict[int, list[int]]]]
] = {
    "the first takes the lowest GPUs": ([node(1)], [], [pending(1, 2)], {1: {1: [0, 1]}}),
    "in order of submission, not of number": (
        [node(1, 1)],
        [],
        [pending(1, 1), pending(2, 1, submitted_at=NOW - timedelta(days=2))],
        {2: {1: [0]}},
    ),
    "at the same moment the lower number": (
        [node(1, 1)],
        [],
        [pending(5, 1, submitted_at=NOW), pending(4, 1, submitted_at=NOW)],
        {4: {1: [0]}},
    ),
    "the fullest node that fits": (
        [node(1), node(2, used={50: 2}), node(3, used={51: 3})],
        [running(50, 9, 2), running(51, 9, 3)],
        [pending(1, 2)],
        {1: {2: [2, 3]}},
    ),
    "no GPUs: away from the GPUs": ([node(1), node(2, 0)], [], [pending(1)], {1: {2: []}}),
    "a gang, rank 0 on the first by name": (
        [node(10), node(9), node(2, used={50: 1})],
        [running(50, 9, 2)],
        [pending(1, 3, nodes=2)],
        {1: {2: [1, 2, 3], 9: [0, 1, 2]}},
    ),
    "a gang waits whole": ([node(1)], [], [pending(1, 4, nodes=2)], {}),
    "nothing passes a job that waits and would be delayed": (
        [node(1, used={50: 2})],
        [running(50, 9, 1)],
        [pending(1, 4), pending(2, 1)],
        {},
    ),
    "other partitions go on": (
        [node(1, used={50: 1}), node(2, partition="old")],
        [running(50, 9, 1)],
        [pending(1, 4), pending(2, 1, partition="old")],
        {2: {2: [0]}},
    ),
    "what waits for itself lets others pass": (
        [node(1, 3)],
        [running(50, 9, 1, array_id=7)],
        [
            pending(1, 4, held=True),
            pending(2, 3, begin_at=NOW + HOUR),
            pending(3, 3, dependency=DependencyState.WAITING, waits_for=(50,)),
            pending(4, 3, dependency=DependencyState.NEVER, waits_for=(50,)),
            pending(5, 3, array_id=7, array_limit=1),
            pending(6, 3),
        ],
        {6: {1: [0, 1, 2]}},
    ),
    "a node that takes no jobs holds nobody up": (
        [node(1, unavailable="down"), node(2, 2)],
        [],
        [pending(1, 4), pending(2, 2)],
        {2: {2: [0, 1]}},
    ),
    "an array starts up to its limit": (
        [node(1)],
        [],
        [pending(number, 1, array_id=1, array_limit=2) for number in (1, 2, 3)] + [pending(4, 1)],
        {1: {1: [0]}, 2: {1: [1]}, 4: {1: [2]}},
    ),
    "CPUs run out before GPUs": (
        [node(1, cpus=8)],
        [],
        [pending(1, 1, cpus_per_task=6), pending(2, 1, cpus_per_task=3)],
        {1: {1: [0]}},
    ),
    "memory runs out before GPUs": (
        [node(1, memory_free_mib=1000)],
        [],
        [pending(1, 1, memory_mib=800), pending(2, 1, memory_mib=201)],
        {1: {1: [0]}},
    ),
    "without a memory request none is accounted": (
        [node(1, memory_free_mib=0)],
        [],
        [pending(1, 1)],
        {1: {1: [0]}},
    ),
    "a whole node gets all its GPUs, and nobody joins": (
        [node(1)],
        [],
        [pending(1, 2, exclusive=True), pending(2, 1)],
        {1: {1: [0, 1, 2, 3]}},
    ),
    "a whole node must be empty": (
        [node(1, used={50: 1}), node(2)],
        [running(50, 9, 1)],
        [pending(1, 1, exclusive=True)],
        {1: {2: [0, 1, 2, 3]}},
    ),
    "nobody joins a job that has the node alone": (
        [node(1, used={50: 1}, exclusive=True)],
        [running(50, 9, 1)],
        [pending(1, 1)],
        {},
    ),
    "a model": (
        [node(1), node(2, model=H100)],
        [],
        [pending(1, 1, gpu_model="h100")],
        {1: {2: [0]}},
    ),
    "a model on a mixed node": ([MIXED], [], [pending(1, 2, gpu_model="H100")], {1: {1: [2, 3]}}),
    "a model named as a feature": ([MIXED], [], [pending(1, 1, features=("h100",))], {1: {1: [2]}}),
    "any model: one kind, if one has enough": ([MIXED], [], [pending(1, 2)], {1: {1: [0, 1]}}),
    "any model: both, if neither has": ([MIXED], [], [pending(1, 3)], {1: {1: [0, 1, 2]}}),
    "a feature": (
        [node(1), node(2, features=("nvlink", "ib"))],
        [],
        [pending(1, 1, features=("ib", "nvlink"))],
        {1: {2: [0]}},
    ),
    "only these nodes": (
        [node(1, 1), node(2), node(3)],
        [],
        [pending(1, 1, only_nodes=("n3", "n2"))],
        {1: {2: [0]}},
    ),
    "not these nodes": ([node(1), node(2)], [], [pending(1, 1, not_nodes=("n1",))], {1: {2: [0]}}),
    "a deadline that can be met": (
        [node(1)],
        [],
        [pending(1, 1, deadline_at=NOW + HOUR)],
        {1: {1: [0]}},
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_who_runs_where(case: str) -> None:
    nodes, active, queue, expected = STARTS[case]
    index = {gpu.uuid: gpu.index for at in nodes for gpu in at.gpus}
    decided = plan(Snapshot(tuple(nodes), tuple(queue), tuple(active)), NOW)
    assert {
        start.job_id: {
            part.node_id: [index[uuid] for uuid in part.gpu_uuids] for part in start.placements
        }
        for start in decided.starts
    } == expected


@pytest.mark.parametrize(
    ("begin", "deadline", "expired"),
    [(None, 60, False), (None, 59, True), (30, 90, False), (30, 89, True), (-30, 60, False)],
)
def test_a_deadline_that_can_no_longer_be_met(
    begin: int | None, deadline: int, expired: bool
) -> None:
    job = pending(
        1,
        1,
        begin_at=None if begin is None else NOW + timedelta(minutes=begin),
        deadline_at=NOW + timedelta(minutes=deadline),
        held=True,
    )
    assert plan(Snapshot((node(1),), (job,)), NOW).expired == ((1,) if expired else ())
