"""Reserved nodes: whoever starts before is gone when the reservation begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.contract import Launch
from jobs.lifecycle import WALLTIME_GRACE_S
from jobs.scheduler.closures import MARGIN_S, NextClosed
from jobs.scheduler.holds import is_open
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order
from jobs.scheduler.snapshot import Reservation, Snapshot
from jobs.shepherd import launch
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN
from tests.jobs.scheduler.play import promised
from tests.jobs.scheduler.worked_examples import table

HOUR = timedelta(hours=1)
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
MAINTENANCE = Reservation(1, "maintenance", NOW + 2 * HOUR, NOW + 6 * HOUR, frozenset({1}))


def test_the_worked_example() -> None:
    told = []
    for row in table("Example: before maintenance"):
        job = pending(int(row["job"]), 1, walltime_s=60 * int(row["time limit, min"]))
        asked = Snapshot((node(1),), (job,), reservations=(MAINTENANCE,), policy=PLAIN)
        at = promised(asked, NOW).get(job.id)
        when = f"{datetime.fromtimestamp(at, UTC):%H:%M}" if at else ""
        told.append(("now" if plan(asked, NOW).starts else "", when))
    rows = table("Example: before maintenance")
    assert told == [(row["starts"], row["promised"]) for row in rows]


def test_the_grace_that_counts_is_that_which_nodes_give() -> None:
    assert Launch.grace_s == launch._DEFAULTS["grace_s"] == WALLTIME_GRACE_S < MARGIN_S


spans = st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda one: (one[0], sum(one)))


@given(st.dictionaries(st.integers(1, 3), st.lists(spans, max_size=4).map(sorted)))
def test_one_number_tells_how_long_a_node_is_open(closed: dict[int, list[tuple[int, int]]]) -> None:
    """As long as time goes on: looked at every second, and every third."""
    told = {node_id: tuple(some) for node_id, some in closed.items()}
    for step in (1, 3):
        upcoming = NextClosed(told)
        for now in range(0, 20, step):
            begins = upcoming.after(now)
            for node_id, some in told.items():
                for until in range(now + 1, 21):
                    assert (begins.get(node_id, until) >= until) == is_open(some, now, until)


def test_forecasts_go_by_time_limits_where_nodes_are_reserved() -> None:
    """Such jobs run for ten minutes, and yet this one does not start before."""
    job = pending(1, 1, walltime_s=3 * 3600, expected_s=600.0, spread_s=(300.0, 900.0))
    asked = Snapshot((node(1),), (job,), reservations=(MAINTENANCE,), policy=PLAIN)
    one = plan(asked, NOW).estimates[1]
    assert (one.early, one.at, one.late) == (MAINTENANCE.end,) * 3


def test_forecasts_keep_the_place_of_who_starts_after_a_reservation() -> None:
    """Both nodes are free, but not for so long. Another user's gang is gone before."""
    soon = {"begin_at": NOW + HOUR / 2}
    queue = (
        pending(1, 4, nodes=2, walltime_s=3 * 3600),
        pending(2, 1, walltime_s=24 * 3600, **soon),
        pending(3, 4, nodes=2, walltime_s=3600, user_id=2, **soon),
    )
    asked = Snapshot((node(1), node(2)), queue, reservations=(MAINTENANCE,), policy=IN_ORDER)
    found = plan(asked, NOW).estimates
    assert {job_id: (one.at - NOW) / HOUR for job_id, one in found.items()} == {1: 6, 2: 9, 3: 0.5}


def test_forecasts_see_reservations_end_in_their_order() -> None:
    reserved = tuple(
        Reservation(number, f"r{number}", NOW, NOW + hours * HOUR, frozenset({number}))
        for number, hours in ((1, 8), (2, 2))
    )
    nodes = (node(1), node(2), node(3, used={50: 4}))
    greedy = replace(IN_ORDER, backfill=Backfill.GREEDY)
    asked = Snapshot(
        nodes, (pending(1, 1),), (running(50, 3 * 60, 4),), reservations=reserved, policy=greedy
    )
    assert plan(asked, NOW).estimates[1].at == NOW + 2 * HOUR


def test_a_gang_past_a_reservation_is_not_put_off_in_forecasts() -> None:
    """One node is free until the reservation, the other one only after that has begun."""
    nodes = (node(1), node(2, used={50: 2}))
    queue = (pending(1, 4, nodes=2, walltime_s=5 * 3600), pending(2, 1, walltime_s=24 * 3600))
    asked = Snapshot(
        nodes, queue, (running(50, 3 * 60, 2),), reservations=(MAINTENANCE,), policy=IN_ORDER
    )
    found = plan(asked, NOW).estimates
    assert {job_id: (one.at - NOW) / HOUR for job_id, one in found.items()} == {1: 6, 2: 11}
