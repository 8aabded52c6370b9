"""What fair share looks at, under a half-life that changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle import State
from jobs.scheduler.usage import WEEK_S, Decay, usage_of
from jobs.scheduler.usage import Charge as Cost
from portal.actions import accounting, charge
from portal.models import Allocation, Node, Project, UsageBalance, User
from portal.queries.books import Books
from tests.portal import cast
from tests.portal.cast import NOW

DAY_S = 86_400.0
RATE = 1 + 4 * 0.02
"""Of one GPU and the CPUs of `cast.run`."""
LATELY = timedelta(minutes=10)
Ran = Callable[..., None]


@pytest.fixture
def ran(node: Node, alice: User, project: Project) -> Ran:
    def run(owner: User, ago: timedelta, hours: float = 1) -> None:
        """One GPU, for so many hours; charged when it ended."""
        part = cast.run(cast.job(owner, project, state=State.COMPLETED), node, 0)
        start = NOW - ago
        end = start + timedelta(hours=hours)
        Allocation.objects.filter(pk=part.pk).update(charged_until=start, released_at=end)
        part.leases.update(released_at=end)
        charge.charge(now=end)

    return run


def counted(owner: User) -> float:
    return sum(value for (_, user), value in Books.read(NOW).balances().items() if user == owner.pk)


def by_hand(ago: timedelta, half_life_s: float, hours: float = 1) -> float:
    start, decay = NOW - ago, Decay(half_life_s)
    spent = usage_of(Cost(RATE, start, start + timedelta(hours=hours)), decay)
    return spent.seen(NOW, decay).value


def test_who_used_the_same_stays_equal_whenever_each_was_charged_last(
    ran: Ran, alice: User, bob: User
) -> None:
    long_ago = timedelta(days=14)
    for owner in (alice, bob):
        ran(owner, long_ago)
    ran(bob, LATELY, hours=0.1)
    for half_life_s in (DAY_S, 30 * DAY_S, WEEK_S):
        accounting.set_terms(half_life_s=half_life_s, actor=None, now=NOW)
        assert counted(alice) == pytest.approx(by_hand(long_ago, half_life_s))
        little = by_hand(LATELY, half_life_s, hours=0.1)
        assert counted(bob) - little == pytest.approx(counted(alice))


@pytest.mark.parametrize("half_life_s", [WEEK_S / 2, 41 * DAY_S, 3650 * DAY_S])
@pytest.mark.parametrize("days_ago", [59, 62, 400])
def test_of_days_long_ago_the_sums_are_near_enough(
    ran: Ran, alice: User, half_life_s: float, days_ago: int
) -> None:
    ago = timedelta(days=days_ago)
    ran(alice, ago)
    ran(alice, LATELY, hours=0.1)
    accounting.set_terms(half_life_s=half_life_s, actor=None, now=NOW)
    wanted = by_hand(ago, half_life_s) + by_hand(LATELY, half_life_s, hours=0.1)
    assert counted(alice) == pytest.approx(wanted, abs=3600 * RATE / 300)


def test_what_was_charged_by_a_clock_that_was_ahead_does_not_grow(ran: Ran, alice: User) -> None:
    ran(alice, timedelta(hours=-2))
    accounting.set_terms(half_life_s=600, actor=None, now=NOW)
    assert 0 < UsageBalance.objects.get().value < 3600 * RATE


def test_many_charges_take_as_many_queries_as_few(ran: Ran, alice: User, bob: User) -> None:
    def queries(half_life_s: float) -> int:
        with CaptureQueriesContext(connection) as seen:
            accounting.set_terms(half_life_s=half_life_s, actor=None, now=NOW)
        return len(seen)

    ran(alice, timedelta(days=1))
    queries(2 * DAY_S)
    few = queries(DAY_S)
    for number in range(20):
        ran((alice, bob)[number % 2], timedelta(days=10 * number + 2))
    assert queries(3 * DAY_S) == few
