"""Nobody waits for ever: the bounds of `docs/scheduling.md`, in every order that can be chosen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.rules import MAX_NICE
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.priority import LONG_WAIT_S
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import Pending, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, late, seeds, snapshots
from tests.jobs.scheduler.play import Play, cut_short
from tests.jobs.scheduler.recount import able, enough

IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
BY_LENGTH = (Order.SHORTEST, Order.LEAST_SERVICE, Order.RESPONSE_RATIO, Order.FAIR_RATIO)
LONGEST_S = 40_000
"""Of all jobs in these tests: of those who come, some; of those who are there, none."""


@settings(max_examples=max(1, settings().max_examples // 2))
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


@settings(max_examples=max(1, settings().max_examples // 2))
@given(snapshots(most=5, plain=True), seeds, st.sampled_from([Order.PRIORITY, *BY_LENGTH]))
def test_nor_does_who_waited_too_long_behind_those_whom_the_order_favours(
    snapshot: Snapshot, seed: int, order: Order
) -> None:
    """Of two users who used all; those who come are of the same band, have used nothing, are moved
    forward, and are expected to run for a second. Before a job's turn there may be a start and an
    end of each that came before."""
    policy = replace(PLAIN, order=order)
    overdue = replace(_waited(snapshot, LONG_WAIT_S), policy=policy, **FAVOURED)
    ever = tuple(job for job in overdue.pending if _ever(overdue, job))
    coming = {"project_id": 2, "nice": -MAX_NICE, "expected_s": 1.0}
    _bounded(replace(overdue, pending=ever), seed, coming, 2)


FAVOURED = {
    "projects": (Project(0, "over", None), Project(2, "under", None)),
    "members": (Member(0, 1), Member(0, 2), Member(2, 0)),
    "usage": (((0, 1), 9e9), ((0, 2), 9e9)),
}


def _waited(snapshot: Snapshot, seconds: float) -> Snapshot:
    """All that wait have waited for longer, in the lowest band."""
    since = timedelta(seconds=seconds + 1)
    overdue = (
        replace(job, band=Band.BEST_EFFORT, submitted_at=job.submitted_at - since)
        for job in snapshot.pending
    )
    return replace(snapshot, pending=tuple(overdue))


def _bounded(
    snapshot: Snapshot, seed: int, coming: dict[str, object] | None = None, turns: int = 1
) -> None:
    """Each starts after so many turns of each before it, and one; `coming`: what those who come
    are like."""
    play = Play(snapshot, cut_short(seed))
    queue = [job for job in ranked(play.snapshot, NOW) if _ever(snapshot, job)]
    if turns > 1:
        queue.sort(key=lambda job: (job.submitted_at, job.id))
    stuck = any(job.is_stuck(NOW.timestamp()) for job in snapshot.running)
    left = [(job.ends_by - NOW).total_seconds() for job in snapshot.running]
    assert max([*left, *(job.walltime_s for job in queue)], default=0.0) <= LONGEST_S
    for turn in range(400):
        if turn < 40:
            play.submit(replace(job, **(coming or {})) for job in late(seed, turn, LONGEST_S))
        play.decide()
        if all(job.id in play.started for job in queue) or not play.advance():
            break
    for ahead, job in enumerate(queue):
        waits = (play.started[job.id] - NOW).total_seconds()
        assert waits <= (turns * ahead + 1) * LONGEST_S
        # Who is past its end has another second; of who is long past it nobody knows when it goes.
        assert ahead or stuck or waits <= max([1.0, *left])


def _ever(snapshot: Snapshot, job: Pending) -> bool:
    there = [at for at in snapshot.nodes if able(at, job.resources)]
    return enough(there, job.resources)


def test_by_priority_who_has_no_shares_has_a_turn_after_two_weeks() -> None:
    """One that needs the whole node, behind an endless queue of small ones that go before it."""
    projects = (Project(1, "none", None, shares=0), Project(2, "all", None))
    large = pending(1, 4, project_id=1, submitted_at=NOW)
    start = Snapshot(
        (node(1),), (large,), projects=projects, members=(Member(1, 0), Member(2, 0)),
        policy=Policy(),
    )  # fmt: skip
    play = Play(start)
    due = NOW + timedelta(seconds=LONG_WAIT_S)
    for hour in range(24 * 15):
        missing = 8 - len(play.snapshot.pending)
        play.submit(
            pending(100 * hour + n, 1, project_id=2, submitted_at=play.now, nice=-MAX_NICE)
            for n in range(2, 2 + missing)
        )
        play.decide()
        if 1 in play.started:
            break
        play.advance()
    assert due < play.started[1] <= due + timedelta(hours=2)


@pytest.mark.parametrize("order", [Order.PRIORITY, Order.SHORTEST, Order.LEAST_SERVICE])
def test_one_job_of_each_user_at_a_time_has_its_turn(order: Order) -> None:
    """Who submits a thousand does not keep all others waiting two weeks later."""
    long = NOW - timedelta(seconds=LONG_WAIT_S + 60)
    mine = [pending(n, 1, user_id=1, submitted_at=long) for n in (1, 2)]
    fresh = pending(3, 1, user_id=2, submitted_at=NOW, nice=-1, expected_s=1.0)
    known = {
        "projects": (Project(0, "lab", None),),
        "members": (Member(0, 1), Member(0, 2)),
        "usage": (((0, 1), 9e9),),
    }
    asked = Snapshot((node(1),), (*mine, fresh), policy=Policy(order), **known)
    assert [job.id for job in ranked(asked, NOW)] == [1, 3, 2]
    begun = replace(running(1, 60, 1), user_id=1, waited_s=LONG_WAIT_S + 60)
    later = replace(asked, pending=(mine[1], fresh), running=(begun,))
    assert [job.id for job in ranked(later, NOW)] == [3, 2]
    usual = replace(later, running=(replace(begun, waited_s=LONG_WAIT_S),))
    assert [job.id for job in ranked(usual, NOW)] == [2, 3]
    # One that was submitted later has passed it meanwhile.
    passed = replace(later, running=(replace(begun, submitted_at=NOW),))
    assert [job.id for job in ranked(passed, NOW)] == [2, 3]


@pytest.mark.parametrize(
    "kept_back", [{"held": True}, {"begin_at": NOW + timedelta(hours=1)}, {"eligible_at": NOW}]
)
def test_only_waiting_for_a_turn_gives_one(kept_back: dict[str, object]) -> None:
    long = NOW - timedelta(seconds=LONG_WAIT_S + 60)
    first = pending(1, 1, submitted_at=long, **kept_back)
    second = pending(2, 1, submitted_at=long + timedelta(seconds=1), nice=MAX_NICE)
    queue = (first, second, pending(3, 1, submitted_at=NOW))
    order = [job.id for job in ranked(Snapshot((node(1),), queue), NOW)]
    assert order[0] == 2
