"""Nobody waits for ever: the bounds of `docs/scheduling.md`, in orders other than priority."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.policy import Order
from jobs.scheduler.rank import longest_wait_s, ranked
from jobs.scheduler.snapshot import Pending, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, late, seeds, snapshots
from tests.jobs.scheduler.play import Play, cut_short
from tests.jobs.scheduler.recount import able, enough

IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
BY_LENGTH = (Order.SHORTEST, Order.LEAST_SERVICE, Order.RESPONSE_RATIO, Order.FAIR_RATIO)


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
    play = Play(snapshot, cut_short(seed))
    queue = [job for job in ranked(play.snapshot, NOW) if _ever(snapshot, job)]
    left = [(job.ends_by - NOW).total_seconds() for job in snapshot.running]
    assert max([*left, *(job.walltime_s for job in queue)], default=0.0) <= LONGEST_S
    for turn in range(400):
        play.submit(late(seed, turn, LONGEST_S) if turn < 40 else [])
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
