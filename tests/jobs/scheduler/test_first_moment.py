"""A job that does not fit is promised the very first moment at which it surely fits."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from jobs.lifecycle import Reason
from jobs.scheduler.plan import plan
from jobs.scheduler.pool import Pool
from jobs.scheduler.rank import ranked
from jobs.scheduler.room import NOW as ALWAYS
from jobs.scheduler.room import Room
from jobs.scheduler.shape import Promise
from jobs.scheduler.snapshot import Reservation, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, reserved, seeds, snapshots
from tests.jobs.scheduler.play import promised, promises
from tests.jobs.scheduler.recount import enough

HOUR = 3600
MAINTENANCE = Reservation(
    1, "maintenance", NOW + timedelta(hours=10), NOW + timedelta(hours=12), frozenset({1})
)
AROUND_MAINTENANCE = Snapshot(
    (node(1), node(2, used={50: 2})),
    (pending(1, 4, nodes=2, walltime_s=5 * HOUR), pending(2, 1, walltime_s=24 * HOUR)),
    (running(50, 9 * 60, 2),), reservations=(MAINTENANCE,), policy=PLAIN,
)  # fmt: skip
BETWEEN_GANGS = Snapshot(
    (node(1), node(2, used={50: 2}), node(3, used={51: 4})),
    (
        pending(1, 4, nodes=2, walltime_s=5 * HOUR, only_nodes=("n1", "n3")),
        pending(2, 4, nodes=2, walltime_s=5 * HOUR, only_nodes=("n1", "n2")),
        pending(3, 1, walltime_s=24 * HOUR, only_nodes=("n2",)),
    ),
    (running(50, 9 * 60, 2), running(51, 10 * 60, 3)), policy=PLAIN,
)  # fmt: skip


def test_after_a_reservation_of_a_node_that_is_free_before() -> None:
    assert promised(AROUND_MAINTENANCE, NOW)[1] == NOW.timestamp() + 12 * HOUR
    found = plan(AROUND_MAINTENANCE, NOW)
    assert not found.starts, "it would put the gang off"
    assert found.explanations[1].reason is Reason.RESOURCES
    assert found.explanations[1].detail == (
        "Needs 2 nodes with 4 GPUs each; 1 has that free now (n1). n1 is reserved for maintenance "
        "from 22:00 UTC to 00:00 UTC on 22 Nov. It has its place on n1, n2 by 00:00 UTC on 22 Nov "
        "at the latest."
    )
    assert found.estimates[1].late == NOW + timedelta(hours=12)


def test_after_a_promise_of_a_node_that_is_free_before() -> None:
    at = NOW.timestamp()
    given_at = promised(BETWEEN_GANGS, NOW)
    assert (given_at[1], given_at[2]) == (at + 10 * HOUR, at + 15 * HOUR)
    found = plan(BETWEEN_GANGS, NOW)
    assert not found.starts, "it would put the second gang off"
    assert found.explanations[2].detail == (
        "Needs 2 nodes with 4 GPUs each; 1 has that free now (n1). Job 1 goes first; there is room "
        "for it on n1, n2 by 03:00 UTC on 22 Nov at the latest."
    )


def gangs(seed: int) -> Snapshot:
    """Large jobs for nodes that are free at many times, and reserved at others."""
    dice = Random(seed)
    nodes, active = [], []
    for number in range(1, dice.randint(3, 6)):
        used = {10 * number + at: dice.randint(1, 2) for at in range(dice.randint(0, 2))}
        nodes.append(node(number, used=used, switches=(dice.choice("ab"), "top")))
        active += [running(job_id, 60 * dice.randint(1, 9), number) for job_id in used]
    queue = [
        pending(
            100 + number,
            dice.randint(1, 4),
            nodes=dice.randint(1, len(nodes)),
            walltime_s=HOUR * dice.randint(1, 8),
            max_switches=dice.choice([None, None, 1]),
            reservations=dice.choice([frozenset[int](), frozenset({2})]),
        )
        for number in range(dice.randint(2, 7))
    ]
    kept = reserved(dice, nodes)
    return Snapshot(
        tuple(nodes), tuple(queue), tuple(active), reservations=tuple(kept), policy=PLAIN
    )


@given(seeds.map(gangs) | snapshots(plain=True), st.sampled_from([1, 2, 16]))
@example(AROUND_MAINTENANCE, 16)
@example(BETWEEN_GANGS, 16)
def test_no_moment_before_the_promised_one_would_do(snapshot: Snapshot, reservations: int) -> None:
    """All ends of jobs, promises and reservations are tried, for each as if nobody was behind."""
    asked = replace(snapshot, policy=replace(PLAIN, reservations=reservations))
    order = ranked(asked, NOW)
    why = plan(asked, NOW).explanations
    waiting = [
        job for job in order if job.id in why and why[job.id].reason is not Reason.BAD_CONSTRAINTS
    ]
    for job in waiting[:reservations]:
        behind = {one.id for one in order[order.index(job) + 1 :]}
        queue = tuple(replace(one, held=one.id in behind) for one in asked.pending)
        pool = promises(replace(asked, pending=queue), NOW)[job.partition]
        given_at = pool.withdraw(job.id)
        shape = pool.shape_of(job)
        first = _first(pool, Promise(job.id, shape, math.inf, float(job.walltime_s), []))
        assert (given_at.at if given_at else math.inf) == first


def _first(pool: Pool, wanted: Promise) -> float:
    """When enough nodes fit at once, beside what is promised and not reserved for others."""
    now = NOW.timestamp()
    ends = {held.end for room in pool.rooms for held in (*room.holds.values(), *room.booked)}
    ends |= {closure.end for closure in pool.closures}
    moments = [now, *sorted({max(end, now + 1) for end in ends if end < math.inf})]
    for at in moments:
        there = [room.node for room in wanted.shape.ready if _fits(room, wanted, at, now)]
        if enough(there, wanted.shape.asked):
            return at
    return math.inf


def _fits(room: Room, wanted: Promise, at: float, now: float) -> bool:
    """Now only beside all who are there, though some may be past their end."""
    shape, until = wanted.shape, at + wanted.length
    closed = shape.closed.get(room.node.id, ())
    start = ALWAYS if at == now else at
    return room.fits_at(shape.asked, shape.masks[room.node.id], start, until) and all(
        until <= begins or ends <= at for begins, ends in closed
    )
