"""Who may pass whom: promises are kept, and nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.rank import longest_wait_s, ranked
from jobs.scheduler.room import Hold, Room
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, request, seeds, snapshots
from tests.jobs.scheduler.play import Play, promises
from tests.jobs.scheduler.recount import able, enough
from tests.jobs.scheduler.worked_examples import table

HALF = [node(1, used={50: 2})]
UNTIL_ONE = [running(50, 60, 1)]
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)

# name: nodes, running, pending, what is not by default -> who starts
CASES: dict[str, tuple[list[Node], list[Running], list[Pending], dict[str, object], set[int]]] = {
    "one that ends before": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1)], {}, {2},
    ),
    "one that does not": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1, walltime_s=3601)], {}, set(),
    ),
    "one that stays clear of it": (
        HALF, UNTIL_ONE, [pending(1, 3), pending(2, 1, walltime_s=9999)], {}, {2},
    ),
    "two, of which one stays clear of it": (
        HALF, UNTIL_ONE,
        [pending(1, 3), pending(2, 1, walltime_s=9999), pending(3, 1, walltime_s=9999)], {}, {2},
    ),
    "on another node, if the best one is kept": (
        [node(1, used={50: 3}), node(2, used={51: 2})],
        [running(50, 60, 1), running(51, 600, 2)],
        [pending(1, 4, only_nodes=("n1",)), pending(2, 1, walltime_s=9999)], {}, {2},
    ),
    "the promise moves to another node": (
        [node(1, used={50: 3}), node(2, used={51: 4})],
        [running(50, 60, 1), running(51, 60, 2)],
        [pending(1, 4), pending(2, 1, walltime_s=9999)], {}, {2},
    ),
    "no backfill": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1)], {"backfill": Backfill.NONE}, set(),
    ),
    "whatever fits": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1, walltime_s=9999)],
        {"backfill": Backfill.GREEDY}, {2},
    ),
    "who is second is kept a place, too": (
        HALF, UNTIL_ONE,
        [pending(1, 4), pending(2, 3), pending(3, 1, walltime_s=3601)], {}, set(),
    ),
    "a lower band waits behind a higher one": (
        [node(1, 1)], [],
        [pending(1, 1, band=Band.BEST_EFFORT), pending(2, 1), pending(3, 1, band=Band.PRODUCTION)],
        {}, {3},
    ),
    "who others made room for goes first": (
        [node(1, 1)], [],
        [pending(1, 1, band=Band.PRODUCTION), pending(2, 1, claimed_at=NOW)], {}, {2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_passes(case: str) -> None:
    nodes, active, queue, changed, expected = CASES[case]
    policy = Policy(**changed)  # type: ignore[arg-type]
    decided = plan(Snapshot(tuple(nodes), tuple(queue), tuple(active), policy=policy), NOW)
    assert {start.job_id for start in decided.starts} == expected


def test_the_worked_example() -> None:
    rows = table("Example: who passes whom")
    queue = tuple(
        pending(
            int(row["job"]), int(row["GPUs"]), walltime_s=round(3600 * float(row["time limit, h"]))
        )
        for row in rows
    )
    asked = Snapshot(tuple(HALF), queue, tuple(UNTIL_ONE), policy=IN_ORDER)
    begun = {start.job_id for start in plan(asked, NOW).starts}
    given_at = promises(asked, NOW)["gpu"].promises
    told = [
        (
            "now" if job.id in begun else "",
            f"{datetime.fromtimestamp(given_at[job.id].at, UTC):%H:%M}"
            if job.id in given_at
            else "",
        )
        for job in queue
    ]
    assert told == [(row["starts"], row["promised"]) for row in rows]


@given(snapshots(plain=True), st.sampled_from([1, 2, 16]))
def test_promises_hold_side_by_side(snapshot: Snapshot, reservations: int) -> None:
    """At every moment: what is promised then, and who is still there, fit on the node together."""
    policy = replace(PLAIN, reservations=reservations)
    pools = promises(replace(snapshot, policy=policy), NOW)
    for room in (room for pool in pools.values() for room in pool.rooms):
        for moment in {held.start for held in room.booked}:
            there = [h for h in (*room.holds.values(), *room.booked) if h.start <= moment < h.end]
            _fit_together(room, there)
    given_at = {job: p for pool in pools.values() for job, p in pool.promises.items()}
    assert len(given_at) <= reservations
    for job in snapshot.pending:
        if job.id in given_at:
            chosen = [room.node for room, _ in given_at[job.id].site]
            assert len({n.id for n in chosen}) == job.resources.nodes
            assert enough(chosen, job.resources)
            assert all(able(n, job.resources) for n in chosen)


def _fit_together(room: Room, there: list[Hold]) -> None:
    whole = Counter(at for h in there for at in range(9) if h.part.gpus >> at & 1)
    parts: Counter[int] = Counter()
    for at, shards in (one for h in there for one in h.part.shards):
        parts[at] += shards
    assert not whole or max(whole.values()) == 1
    assert not set(whole) & set(parts)
    assert all(shards <= room.gpus[at].shards for at, shards in parts.items())
    assert sum(h.part.cpus for h in there) <= room.node.cpus
    assert sum(h.part.memory_mib for h in there) <= room.node.memory_mib
    assert len(there) <= 1 or not any(h.part.alone for h in there)


@given(snapshots(plain=True), seeds, st.sampled_from([Backfill.RESERVING, Backfill.EASY]))
def test_the_first_promise_is_kept_or_bettered(
    snapshot: Snapshot, seed: int, backfill: Backfill
) -> None:
    """While jobs end at their limits or before, and lower ones come all the time."""
    policy = replace(IN_ORDER, backfill=backfill, reservations=1 + seed % 3)
    play = Play(replace(snapshot, policy=policy), _cut_short(seed))
    promised: dict[int, float] = {}
    for turn in range(12):
        play.submit(_late(seed, turn))
        pools = promises(play.snapshot, play.now)
        first = [job.id for job in ranked(play.snapshot, play.now)]
        begun = {start.job_id for start in play.decide().starts}
        for job_id in begun:
            assert play.now.timestamp() <= promised.get(job_id, play.now.timestamp())
        blocked = next((job_id for job_id in first if job_id not in begun), None)
        promise = pools["gpu"].promises.get(blocked) if blocked is not None else None
        if promise is not None:
            assert promise.at <= promised.get(promise.job_id, promise.at)
            promised[promise.job_id] = promise.at
        if not play.advance():
            break


def _cut_short(seed: int):  # type: ignore[no-untyped-def]
    return lambda job_id, limit: max(1, round(limit * Random(f"{job_id} {seed}").choice([0.3, 1])))


def _late(seed: int, turn: int, longest: int = 20_000) -> list[Pending]:
    """Small ones that everybody else goes before."""
    dice = Random(f"{turn} {seed}")
    return [
        Pending(
            id=1000 + 10 * turn + number,
            submitted_at=NOW + timedelta(seconds=10 * turn + number),
            resources=request(dice, most_nodes=1, most_gpus=2),
            walltime_s=dice.choice([60, 3600, longest]),
            partition="gpu",
            band=Band.BEST_EFFORT,
        )
        for number in range(3)
    ]


@given(snapshots(most=5, plain=True), seeds, st.sampled_from([1, 2, 16]))
def test_nobody_waits_longer_than_those_before_can_take(
    snapshot: Snapshot, seed: int, reservations: int
) -> None:
    """The bound of `docs/scheduling.md`: who has k before it waits for k + 1 longest runs at most,
    promised a time or not, however many come after it and however long they are."""
    _bounded(replace(snapshot, policy=replace(IN_ORDER, reservations=reservations)), seed)


@pytest.mark.parametrize(("reservations", "waits_h"), [(1, 24), (2, 1)])
def test_who_is_promised_no_time_may_have_to_wait_for_whoever_passed_it(
    reservations: int, waits_h: int
) -> None:
    """Two wait for a node each; a long one fits on the second one's."""
    nodes = (node(1, used={50: 4}), node(2, used={51: 2}))
    active = (running(50, 60, 1), running(51, 60, 2))
    queue = (
        pending(1, 4, only_nodes=("n1",)),
        pending(2, 4, only_nodes=("n2",)),
        pending(3, 1, walltime_s=86_400, only_nodes=("n2",)),
    )
    policy = replace(IN_ORDER, reservations=reservations)
    play = Play(Snapshot(nodes, queue, active, policy=policy))
    play.decide()
    while play.advance():
        play.decide()
    assert play.started[1] == NOW + timedelta(hours=1)
    assert play.started[2] == NOW + timedelta(hours=waits_h)


@given(
    snapshots(most=5, plain=True), seeds,
    st.sampled_from(
        [Order.SHORTEST, Order.LEAST_SERVICE, Order.RESPONSE_RATIO, Order.FAIR_RATIO]
    ),
)  # fmt: skip
def test_nor_does_who_waited_too_long_behind_shorter_ones(
    snapshot: Snapshot, seed: int, order: Order
) -> None:
    """Those who come are of the same band, and all of them shorter or as long."""
    overdue = tuple(
        replace(
            job,
            band=Band.BEST_EFFORT,
            submitted_at=job.submitted_at - timedelta(seconds=longest_wait_s(LONGEST_S) + 1),
        )
        for job in snapshot.pending
    )
    _bounded(replace(snapshot, pending=overdue, policy=replace(PLAIN, order=order)), seed)


LONGEST_S = 40_000
"""Of all jobs in these tests: of those who come, some; of those who are there, none."""


def _bounded(snapshot: Snapshot, seed: int) -> None:
    play = Play(snapshot, _cut_short(seed))
    queue = [job for job in ranked(play.snapshot, NOW) if _ever(snapshot, job)]
    left = [(job.ends_by - NOW).total_seconds() for job in snapshot.running]
    assert max([*left, *(job.walltime_s for job in queue)], default=0.0) <= LONGEST_S
    for turn in range(400):
        play.submit(_late(seed, turn, LONGEST_S) if turn < 40 else [])
        play.decide()
        if all(job.id in play.started for job in queue) or not play.advance():
            break
    for ahead, job in enumerate(queue):
        waits = (play.started[job.id] - NOW).total_seconds()
        assert waits <= (ahead + 1) * LONGEST_S
        # Who is past its end has another second.
        assert ahead or waits <= max([1.0, *left])


def _ever(snapshot: Snapshot, job: Pending) -> bool:
    there = [at for at in snapshot.nodes if able(at, job.resources)]
    return enough(there, job.resources)
