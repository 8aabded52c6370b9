"""What a waiting job's page tells of its turn is what the scheduler goes by."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobs.lifecycle import Reason, State
from jobs.scheduler.policy import Order
from jobs.scheduler.priority import AFTER_LONG
from jobs.scheduler.rank import points_of
from portal.models import Attempt, Node, Project, SchedulingPolicy, UsageBalance, User
from portal.queries import snapshot, why
from tests.portal import cast
from tests.portal.cast import NOW

DAY = timedelta(days=1)
KEPT_BACK = {"held": True, "reason": Reason.HELD_USER, "eligible_at": None}
PREEMPTED = {"preemptions": 1, "eligible_at": NOW - DAY / 2}


@pytest.mark.parametrize("columns", [KEPT_BACK, PREEMPTED], ids=["held", "preempted"])
def test_its_points_are_those_that_it_is_ranked_by(
    alice: User, project: Project, node: Node, columns: dict[str, object]
) -> None:
    """Submitted long ago, of which most did not count."""
    job = cast.job(
        alice, project, submitted_at=NOW - 6 * DAY, waited_before_s=DAY.total_seconds(), **columns
    )
    present = snapshot.take(NOW)
    (pending,) = present.pending
    told = why.of(job, NOW).priority
    assert told is not None
    assert told.total == points_of(present, NOW)(pending)
    assert 0 < told.parts[1].factor < 0.25


FIGURES = {
    Order.SUBMISSION: "It came at 10:00 UTC.",
    Order.SHORTEST: "It counts as a run of 4 h.",
    Order.LEAST_SERVICE: "2 GPUs x 4 h = 8.00 GPU-hours.",
    Order.RESPONSE_RATIO: "(7,200 s + 60 s) / the root of (14,400 s + 60 s) = 60.4.",
    Order.FAIR_RATIO: "= 60.4, x 0.50 of fair share = 30.2.",
}


@pytest.mark.parametrize("order", FIGURES)
def test_in_other_orders_it_tells_what_those_go_by(
    alice: User, bob: User, project: Project, node: Node, order: Order
) -> None:
    """Of two users alice has used more."""
    UsageBalance.objects.create(project=project, user=alice, band="batch", value=1e6, at=NOW)
    assert why.of(cast.job(alice, project), NOW).turn is None
    SchedulingPolicy.objects.create(order=order)
    came = NOW - timedelta(hours=2)
    job = cast.job(alice, project, gpus=2, walltime_s=4 * 3600, submitted_at=came)
    told = why.of(job, NOW).turn
    assert told is not None
    assert told.own.endswith(FIGURES[order])


@pytest.mark.parametrize("order", [order for order in FIGURES if order is not Order.SUBMISSION])
def test_who_waited_too_long_is_told_so(
    alice: User, project: Project, node: Node, order: Order
) -> None:
    SchedulingPolicy.objects.create(order=order)
    told = why.of(cast.job(alice, project, submitted_at=NOW - 15 * DAY), NOW).turn
    assert told is not None
    assert told.own.endswith(f" {AFTER_LONG}")


def test_who_makes_room_is_there_until_its_grace_is_over(
    alice: User, project: Project, node: Node
) -> None:
    stops, goes_on = (cast.job(alice, project, state=State.RUNNING) for _ in range(2))
    for index, holder in enumerate((stops, goes_on)):
        cast.run(holder, node, index)
    by = NOW + timedelta(minutes=1)
    Attempt.objects.filter(job=stops).update(leaves_by=by)
    names = f"Jobs {stops.pk} and {goes_on.pk} make room for it."
    waits = cast.job(alice, project, gpus=4, detail=names)
    assert [holder.until for holder in why.of(waits, NOW).holders] == [
        by, goes_on.started_at + timedelta(seconds=goes_on.walltime_s),
    ]  # fmt: skip
