"""What would start a waiting job sooner: every advice is followed, and the plan is asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.advise import SOONER, Advice, advise
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.snapshot import (
    DependencyState,
    Node,
    Pending,
    Plan,
    Reservation,
    Running,
    Snapshot,
)
from tests.jobs.scheduler.clusters import H100, NOW, node, pending, running
from tests.jobs.scheduler.generated import snapshots, usage

HOUR = timedelta(hours=1)
IN_ORDER = Policy(order=Order.SUBMISSION)
WAITING, NEVER = DependencyState.WAITING, DependencyState.NEVER
FULL = [node(1, used={50: 4})]
DAY = [running(50, 24 * 60, 1)]

# name: nodes, running, pending of which the first is asked about, the sentence
CASES: dict[str, tuple[list[Node], list[Running], list[Pending], str]] = {
    "less time before who is promised the place": (
        [node(1, used={50: 3})], [running(50, 55, 1)],
        [pending(2, 1, walltime_s=28_800), pending(1, 4)],
        "With a time limit of 50 min in place of 8 h it would start now.",
    ),
    "the most GPUs that are free": (
        [node(1, used={50: 1})], DAY, [pending(1, 4)],
        "With 3 GPUs in place of 4 it would start now.",
    ),
    "as many as any node has": (
        [node(1)], [], [pending(1, 16)], "With 4 GPUs in place of 16 it would start now.",
    ),
    "the most nodes that are free": (
        [node(1), node(2), node(3, used={50: 1})], [running(50, 60, 3)],
        [pending(1, 4, nodes=3)], "On 2 nodes in place of 3 it would start now.",
    ),
    "another model, where there is one": (
        [node(1, used={50: 4}), node(2, model=H100)], DAY, [pending(1, 2, gpu_model="a100")],
        "On any GPU in place of a100 it would start now.",
    ),
    "a model that nobody has": (
        [node(1)], [], [pending(1, 2, gpu_model="h100")],
        "On any GPU in place of h100 it would start now.",
    ),
    "a feature that no node has": (
        [node(1)], [], [pending(1, 2, features=("infiniband",))],
        "Without infiniband it would start now.",
    ),
    "any switch": (
        [node(n, switches=(f"s{n % 2}", "top"), used={50: 1} if n == 1 else {}) for n in (1, 2, 3)],
        [running(50, 60, 1)], [pending(1, 4, nodes=2, max_switches=1)],
        "Without a limit on switches it would start now.",
    ),
    "not alone": (
        [node(1, used={50: 1})], DAY, [pending(1, 1, exclusive=True)],
        "Without asking for whole nodes it would start now.",
    ),
    "any node": (
        [*FULL, node(2)], DAY, [pending(1, 1, only_nodes=("n1",))],
        "On any node in place of those named it would start now.",
    ),
    "a node that was left out": (
        [*FULL, node(2)], DAY, [pending(1, 1, not_nodes=("n2",))],
        "Without nodes left out it would start now.",
    ),
    "fewer CPUs": (
        [node(1, cpus_free=20, jobs=(50,))], DAY, [pending(1, 1, cpus_per_task=32)],
        "With 20 CPUs in place of 32 it would start now.",
    ),
    "less memory": (
        [node(1, memory_free_mib=50_000, jobs=(50,))], DAY, [pending(1, 1, memory_mib=65_536)],
        "With 48 GiB of memory in place of 64 GiB it would start now.",
    ),
    "another partition": (
        [*FULL, node(2, partition="old")], DAY, [pending(1, 4)],
        "In partition old it would start now.",
    ),
    "once it is released": (
        [node(1)], [], [pending(1, 1, held=True)], "Released, it would start now.",
    ),
    "once an administrator releases it": (
        [node(1)], [], [pending(1, 1, held=True, hold_reason=Reason.HELD_ADMIN)],
        "Once an administrator releases it, it would start now.",
    ),
    "without its deadline": (
        FULL, [running(50, 90, 1)], [pending(1, 1, walltime_s=600, deadline_at=NOW + HOUR)],
        "Without its deadline it is expected to start about 13:30.",
    ),
    "less time than to its deadline": (
        FULL, [running(50, 25, 1)], [pending(1, 1, deadline_at=NOW + HOUR)],
        "With a time limit of 30 min in place of 1 h it is expected to start in about 25 min.",
    ),
    "released, it waits for others": (
        FULL, [running(50, 90, 1)], [pending(1, 1, held=True)],
        "Released, it is expected to start about 13:30.",
    ),
    "without its begin time": (
        [node(1)], [], [pending(1, 1, begin_at=NOW + HOUR)],
        "Without its begin time it would start now.",
    ),
    "without what it waits for": (
        [node(1, used={50: 1})], DAY, [pending(1, 1, dependency=WAITING, waits_for=(50,))],
        "Without waiting for job 50 it would start now.",
    ),
    "without what it waits for in vain": (
        [node(1)], [], [pending(1, 1, dependency=NEVER, waits_for=(16,))],
        "Without waiting for job 16 it would start now.",
    ),
    "without what it waits for in vain, and then after others": (
        [node(1, used={50: 1})], [running(50, 90, 1)],
        [pending(1, 1, dependency=NEVER, waits_for=(16,), waits_besides=(50,))],
        "Without waiting for job 16 it is expected to start about 13:30.",
    ),
    "outside its array's limit": (
        [node(1, used={50: 1})], [running(50, 60, 1, array_id=7)],
        [pending(8, 1, array_id=7, array_index=2, array_limit=1)],
        "Outside its array's limit of 1 task at once it would start now.",
    ),
}  # fmt: skip


def followed(snapshot: Snapshot, advice: Advice) -> Plan:
    others = [job for job in snapshot.pending if job.id != advice.job.id]
    return plan(replace(snapshot, pending=(*others, advice.job)), NOW)


@pytest.mark.parametrize("case", CASES)
def test_the_change_that_helps(case: str) -> None:
    nodes, active, queue, sentence = CASES[case]
    found = advise(
        Snapshot(tuple(nodes), tuple(queue), tuple(active), policy=IN_ORDER),
        queue[0].id, NOW, ["old"] if case == "another partition" else [],
    )  # fmt: skip
    assert found is not None
    assert found.sentence == sentence


def test_before_maintenance() -> None:
    closed = Reservation(1, "fans", NOW + 5 * HOUR, NOW + 9 * HOUR, frozenset({1}))
    asked = Snapshot((node(1),), (pending(1, 1, walltime_s=86_400),), reservations=(closed,))
    found = advise(asked, 1, NOW)
    assert found is not None
    assert found.sentence == "With a time limit of 4 h in place of 24 h it would start now."


def test_within_what_a_quota_leaves() -> None:
    held = replace(DAY[0], project_id=1, gpus=2, started_at=NOW)
    queue = (pending(1, 4, project_id=1),)
    asked = Snapshot(
        (node(1, used={50: 2}), node(2)), queue, (held,),
        projects=(Project(1, "vision", None),),
        quotas=(Quota(1, Limits(gpus=5)),), quota_usage=usage(list(queue), [held]),
    )  # fmt: skip
    found = advise(asked, 1, NOW)
    assert found is not None
    assert found.sentence == "With 3 GPUs in place of 4 it would start now."


def test_where_no_quota_counts() -> None:
    held = replace(DAY[0], project_id=1, gpus=4, started_at=NOW)
    queue = (pending(1, 1, project_id=1),)
    asked = Snapshot(
        (node(1, used={50: 4}), node(2)), queue, (held,),
        projects=(Project(1, "vision", None),),
        quotas=(Quota(1, Limits(gpus=4)),), quota_usage=usage(list(queue), [held]),
    )  # fmt: skip
    assert advise(asked, 1, NOW) is None
    found = advise(asked, 1, NOW, bands=[Band.BEST_EFFORT])
    assert found is not None
    assert found.sentence == (
        "In band best-effort, where others may take its place, it would start now."
    )
    assert followed(asked, found).starts


def test_when_nothing_helps_nothing_is_advised() -> None:
    asked = Snapshot(tuple(FULL), (pending(1, 1),), tuple(DAY))
    assert advise(asked, 1, NOW) is None


def test_a_later_start_is_compared_with_what_is_expected_as_it_is() -> None:
    busy = [node(1, used={50: 4}), node(2, used={51: 4}, model=H100)]
    active = (running(50, 300, 1), running(51, 20, 2))
    asked = Snapshot(tuple(busy), (pending(1, 2, gpu_model="a100"),), active)
    found = advise(asked, 1, NOW)
    assert found is not None
    assert found.sentence == (
        "On any GPU in place of a100 it is expected to start in about 20 min; "
        "as it is, about 17:00."
    )


@given(snapshots(most=5))
def test_who_follows_an_advice_starts_sooner(snapshot: Snapshot) -> None:
    as_it_is = plan(snapshot, NOW)
    for job_id in as_it_is.explanations:
        advice = advise(snapshot, job_id, NOW, bands=[Band.BEST_EFFORT])
        if advice is None:
            continue
        changed = followed(snapshot, advice)
        usual = as_it_is.estimates.get(job_id)
        if advice.at == NOW:
            assert job_id in [start.job_id for start in changed.starts]
        else:
            assert job_id not in [start.job_id for start in changed.starts]
            assert changed.estimates[job_id].at == advice.at
            assert usual is None or usual.at - advice.at >= SOONER


@given(snapshots(most=5))
def test_an_advice_changes_one_thing_and_asks_for_no_more(snapshot: Snapshot) -> None:
    asked = {job.id: job for job in snapshot.pending}
    for job_id in plan(snapshot, NOW).explanations:
        advice = advise(snapshot, job_id, NOW)
        if advice is None:
            continue
        old, new = asked[job_id], advice.job
        assert (new.walltime_s != old.walltime_s) + (new.resources != old.resources) <= 1
        assert new.walltime_s <= old.walltime_s
        assert new.resources.nodes <= old.resources.nodes
        assert new.resources.gpus <= old.resources.gpus
        assert new.resources.cpus <= old.resources.cpus
        assert new != old
