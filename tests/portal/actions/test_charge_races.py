"""Several charge at once, while jobs go on and end: everything is charged once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle import State
from jobs.scheduler.periods import CalendarMonth
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import Decay, usage_of
from portal.actions import charge, settle
from portal.models import (
    Allocation,
    Attempt,
    Charge,
    DailyUsage,
    Lease,
    Node,
    Project,
    UsageBalance,
    User,
)
from portal.queries.books import Books
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.together import at_once


@pytest.fixture
def parts(
    transactional_db: None, node: Node, project: Project, alice: User, bob: User
) -> list[Allocation]:
    made = []
    for number in range(12):
        owner = (alice, bob)[number % 2]
        job = cast.job(owner, project, state=State.RUNNING, gpus=0)
        made.append(cast.run(job, node, *([number] if number < 4 else [])))
    return made


def test_three_charge_at_once(parts: list[Allocation], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charge, "BATCH", 3)
    minutes = (5, 10, 15)
    for minute in minutes:
        now = NOW + timedelta(minutes=minute)
        at_once(*[lambda now=now: charge.charge(now=now)] * 3)
    charge.charge(now=NOW + timedelta(minutes=20))
    assert Charge.objects.count() == len(parts)
    seconds = 20 * 60
    assert Charge.objects.aggregate(n=Sum("gpu_seconds"))["n"] == pytest.approx(4 * seconds)
    assert DailyUsage.objects.aggregate(n=Sum("gpu_seconds"))["n"] == pytest.approx(4 * seconds)
    rate = 4 + 12 * 0.08
    end = NOW + timedelta(seconds=seconds)
    wanted = usage_of(Cost(rate, NOW, end), Decay()).value
    assert sum(row.value for row in UsageBalance.objects.filter(at=end)) == pytest.approx(wanted)


def test_what_ends_while_it_is_charged_is_charged_to_its_end(parts: list[Allocation]) -> None:
    end = NOW + timedelta(minutes=7)

    def ends() -> None:
        for part in parts:
            with transaction.atomic():
                part.phase = Allocation.Phase.ENDED
                Allocation.objects.filter(pk=part.pk).update(
                    phase=part.phase, ended_at=end, cause="exited", exit_code=0
                )
                settle.settle(attempt=Attempt.objects.get(pk=part.attempt_id), now=end)

    # Its clock is ahead of the one of who sees the ends.
    ahead = NOW + timedelta(minutes=8)
    at_once(ends, *[lambda: charge.charge(now=ahead)] * 2)
    charge.charge(now=ahead + timedelta(hours=1))
    assert not Allocation.objects.filter(charged=False).exists()
    assert not Lease.objects.filter(released_at=None).exists()
    for part in Allocation.objects.prefetch_related("charges"):
        assert part.released_at in (end, ahead)
        (row,) = part.charges.all()
        assert (row.starts_at, row.ends_at) == (NOW, part.released_at)


def told(books: Books) -> list[dict[Any, float]]:
    """All that is asked of the ledger."""
    sums = books.sums(("project_id", "user_id"), NOW, books.now)
    return [
        books.balances(),
        books.used([CalendarMonth()])[CalendarMonth()],
        {key: amount.weighted for key, amount in sums.items()},
    ]


def ends(part: Allocation, when: datetime) -> None:
    Lease.objects.filter(allocation=part).update(released_at=when)
    Allocation.objects.filter(pk=part.pk).update(
        phase=Allocation.Phase.ENDED, ended_at=when, released_at=when
    )


@pytest.mark.parametrize("ended", [False, True], ids=["goes on", "has ended"])
def test_what_is_charged_while_it_is_asked_for_counts_once(
    parts: list[Allocation], ended: bool
) -> None:
    """As on PostgreSQL, where each query sees what was committed before it."""
    now = NOW + timedelta(minutes=10)
    if ended:
        ends(parts[0], now - timedelta(minutes=3))
    as_it_is = told(Books.read(now))
    books = Books.read(now)
    at_once(lambda: charge.charge(now=now))
    assert Charge.objects.exists()
    for before, after in zip(as_it_is, told(books), strict=True):
        assert after == pytest.approx(before)


def test_who_holds_what_is_asked_again_only_where_others_may_have_charged(
    parts: list[Allocation],
) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as seen:
            Books.read(NOW).balances()
        return sum(query["sql"].startswith('SELECT "portal_allocation".') for query in seen)

    assert asked() == 2
    with transaction.atomic():
        assert asked() == (1 if connection.vendor == "sqlite" else 2)


def test_what_is_charged_meanwhile_counts_once_in_a_transaction(parts: list[Allocation]) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite keeps transactions apart")
    now = NOW + timedelta(minutes=10)
    as_it_is = told(Books.read(now))
    with transaction.atomic():
        books = Books.read(now)
        at_once(lambda: charge.charge(now=now))
        found = told(books)
    assert Charge.objects.exists()
    for before, after in zip(as_it_is, found, strict=True):
        assert after == pytest.approx(before)
