"""As how many GPUs jobs count that ask for parts of one, or for whole nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.lifecycle import Reason
from jobs.scheduler.demand import counts, least
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.priority import PriorityWeights
from jobs.scheduler.rank import points_of
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import usage

VISION = 1


def divided(number: int, *parts: int) -> Node:
    """Its GPUs, each into so many parts."""
    whole = node(number, len(parts))
    cards = zip(whole.gpus, parts, strict=True)
    return replace(whole, gpus=tuple(replace(gpu, shards=part) for gpu, part in cards))


def waits(job_id: int, gpus: int = 0, nodes: int = 1, **more: object) -> Pending:
    return pending(job_id, gpus, nodes, project_id=VISION, **more)


def lab(
    gpus: float, nodes: list[Node], queue: list[Pending], active: tuple[Running, ...] = ()
) -> Snapshot:
    """Of one project with a quota of so many GPUs."""
    return Snapshot(
        tuple(nodes), tuple(queue), active, projects=(Project(VISION, "vision", None),),
        quotas=(Quota(VISION, Limits(gpus=gpus)),), quota_usage=usage(queue, list(active)),
        policy=Policy(order=Order.SUBMISSION),
    )  # fmt: skip


PART = Resources(shards=1)
WHOLE = Resources(exclusive=True)
TWO_WHOLE = Resources(nodes=2, gpus_per_node=1, exclusive=True)


@pytest.mark.parametrize(
    ("nodes", "asked", "expected"),
    [
        ([divided(1, 4)], PART, 0.25),
        ([divided(1, 4, 2, 0)], PART, 0.25),
        ([divided(1, 2), divided(2, 4)], replace(PART, nodes=2), 0.75),
        ([divided(1, 2), divided(2, 4)], replace(PART, shards=3), 0.75),
        ([node(1, 4), node(2, 2)], WHOLE, 2),
        ([node(1, 4), node(2, 2), node(3, 0)], TWO_WHOLE, 6),
        ([node(1, 4)], Resources(nodes=3, gpus_per_node=2), 6),
        ([node(1, 4)], Resources(), 0),
        ([node(1, 4)], TWO_WHOLE, 4),
        ([], TWO_WHOLE, 2),
    ],
)
def test_the_fewest_that_a_request_comes_to(
    nodes: list[Node], asked: Resources, expected: float
) -> None:
    assert least(nodes, asked) == expected


def test_what_it_may_come_to_on_a_node() -> None:
    assert counts(divided(1, 4, 2, 0), PART) == (0.25, 0.5)
    assert counts(divided(1, 4, 2, 0), PART, most=0.25) == (0.25,)
    assert counts(divided(1, 4, 2, 0), replace(PART, shards=3)) == (0.75,)
    assert counts(node(1, 4), WHOLE, most=3) == ()


# name: quota, nodes, waiting -> {job: its nodes}
CASES: dict[str, tuple[float, list[Node], list[Pending], dict[int, list[int]]]] = {
    "parts are fractions": (
        0.5, [divided(1, 4)], [waits(number, shards=1) for number in (1, 2, 3)],
        {1: [1], 2: [1]},
    ),
    "a whole node is all its GPUs": (
        4, [node(1), node(2)], [waits(1, 1, exclusive=True), waits(2, 1)], {1: [1]},
    ),
    "and all of them have to be left": (
        4, [node(1), node(2)], [waits(1, 1), waits(2, exclusive=True), waits(3, 3)],
        {1: [1], 3: [1]},
    ),
    "on a node that its quota allows": (
        4, [node(1, 8, cpus=4), node(2, 4)], [waits(1, exclusive=True)], {1: [2]},
    ),
    "on any node that its quota allows": (
        8, [node(1, 8, cpus=4), node(2, 8, cpus=64), node(3, 16)], [waits(1, exclusive=True)],
        {1: [1]},
    ),
    "several as their quota allows": (
        12, [node(1, 8), node(2, 8), node(3, 4)], [waits(1, exclusive=True, nodes=2)],
        {1: [1, 3]},
    ),
    "several that together are within it": (
        12, [node(1, 8), node(2, 4)], [waits(1, exclusive=True, nodes=2)], {1: [1, 2]},
    ),
    "on a GPU of which the part is small enough": (
        0.25, [divided(1, 2, 4)], [waits(1, shards=1)], {1: [1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_starts(case: str) -> None:
    quota, nodes, queue, expected = CASES[case]
    decided = plan(lab(quota, nodes, queue), NOW)
    assert {
        start.job_id: [part.node_id for part in start.placements] for start in decided.starts
    } == expected


def test_a_quota_is_told_of_parts_and_of_whole_nodes() -> None:
    queue = [waits(number, shards=1) for number in (1, 2, 3)]
    told = plan(lab(0.5, [divided(1, 4)], queue), NOW).explanations[3]
    assert told.reason is Reason.QUOTA_GPUS
    assert told.detail == (
        "Project vision may use 0.5 GPUs at once: 0.5 are in use, this asks for 0.25, "
        "0.25 too many."
    )
    told = plan(lab(4, [node(1), node(2)], [waits(1, 1), waits(2, exclusive=True)]), NOW)
    assert "1 is in use, this asks for 4, 1 too many" in told.explanations[2].detail


def test_what_keeps_it_from_larger_nodes_is_told() -> None:
    small, large = node(1, 2, used={50: 1}), node(2, 4)
    asked = lab(2, [small, large], [waits(1, exclusive=True)], (running(50, 60, 1),))
    told = plan(replace(asked, quota_usage=usage(list(asked.pending), [])), NOW)
    assert told.explanations[1].reason is Reason.RESOURCES
    assert told.explanations[1].more == (
        "On other nodes it would count as more GPUs. Project vision may use 2 GPUs at once: "
        "0 are in use, this asks for 4, 2 too many.",
    )
    assert told.estimates[1].at.timestamp() == NOW.timestamp() + 3600


def test_a_job_of_parts_that_runs_counts_as_parts() -> None:
    """The next ones wait until it ends, and no longer."""
    machine = divided(1, 4)
    queue = [waits(number, shards=2) for number in (1, 2)]
    found = plan(lab(0.5, [machine], queue), NOW)
    assert [start.job_id for start in found.starts] == [1]
    assert found.estimates[2].at.timestamp() == NOW.timestamp() + 3600


def test_size_is_what_it_counts_as() -> None:
    weights = PriorityWeights(fair_share=0, age=0, size=100, nice=0)
    queue = (waits(1, shards=1), waits(2, 1, exclusive=True), waits(3, 2))
    asked = Snapshot(
        (divided(1, 4, 4, 4, 4), divided(2, 4, 4, 4, 4)), queue,
        projects=(Project(VISION, "vision", None),), members=(Member(VISION, 0),),
        weights=(("gpu", weights),),
    )  # fmt: skip
    points = points_of(asked, NOW)
    found = {job.id: points(job) for job in queue}
    assert found == {1: pytest.approx(100 / 32), 2: pytest.approx(50), 3: pytest.approx(25)}
