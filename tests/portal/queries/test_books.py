"""What was used, by anything and for any time, is what allocations held then."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.periods import CalendarMonth, Rolling
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import Decay, usage_of
from portal.actions import charge, schedule
from portal.models import (
    Accounting,
    Allocation,
    Charge,
    Gpu,
    Job,
    Lease,
    Node,
    Project,
    UsageBalance,
    User,
)
from portal.queries import days
from portal.queries.books import Books, Only
from portal.queries.usage import By, Used, usage
from tests.portal import cast

START = datetime(2026, 10, 20, 15, 30, tzinfo=UTC)
SPAN_H = 24 * 20
CPUS = 4 * 0.02
MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100")


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


@pytest.fixture
def owners(alice: User, bob: User) -> tuple[User, User]:
    return alice, bob


@pytest.fixture
def fleet(node: Node) -> Node:
    node.gpus.filter(index__gt=1).update(model=MODELS[1])
    return node


Spent = tuple[Project, User, Band, str, datetime, datetime | None]


def random_work(
    seed: int, node: Node, projects: list[Project], owners: tuple[User, User]
) -> tuple[list[Spent], datetime]:
    """One GPU each, one after the other; charged at odd times. What was held, and when it is."""
    odd = random.Random(seed)
    spent: list[Spent] = []
    charges = sorted(odd.uniform(0, SPAN_H) for _ in range(12))
    for index in range(4):
        gpu = Gpu.objects.get(node=node, index=index)
        hours = odd.uniform(0, 50)
        while hours < SPAN_H:
            end = hours + odd.choice((0.1, 3, 9, 40))
            project, owner = odd.choice(projects), odd.choice(owners)
            band = odd.choice((Band.BATCH, Band.PRODUCTION, Band.BEST_EFFORT))
            released = at(end) if end < SPAN_H else None
            job = cast.job(owner, project, state=State.RUNNING, band=band)
            part = cast.run(job, node)
            Lease.objects.create(gpu=gpu, allocation=part, released_at=released)
            Allocation.objects.filter(pk=part.pk).update(
                charged_until=at(hours), released_at=released
            )
            spent.append((project, owner, band, gpu.model, at(hours), released))
            ends[part.pk] = released
            begins[part.pk] = at(hours)
            hours = end + odd.uniform(0, 10)
    for moment in charges:
        _charge_as_of(at(moment))
    return spent, at(SPAN_H)


ends: dict[int, datetime | None] = {}
begins: dict[int, datetime] = {}


def _charge_as_of(now: datetime) -> None:
    """Those that had not begun by then are not there yet, and those that ended later hold it."""
    later = Allocation.objects.filter(pk__in=[pk for pk, begin in begins.items() if begin > now])
    open_ = [Allocation(pk=pk, released_at=end) for pk, end in ends.items() if end and end > now]
    Allocation.objects.filter(pk__in=[part.pk for part in open_]).update(released_at=None)
    later.update(charged=True)
    charge.charge(now=now)
    later.update(charged=False)
    Allocation.objects.bulk_update(open_, ["released_at"])


@pytest.fixture(autouse=True)
def _forget() -> None:
    ends.clear()
    begins.clear()


def hours_of(one: Spent, since: datetime, until: datetime) -> float:
    start, end = max(one[4], since), min(one[5] or until, until)
    return max(0.0, (end - start).total_seconds()) / 3600


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_any_time_is_told_as_it_was(
    seed: int, zone: str, fleet: Node, owners: tuple[User, User], project: Project,
    settings: object,
) -> None:  # fmt: skip
    """In New York the clocks are set back in between."""
    settings.TIME_ZONE = zone  # type: ignore[attr-defined]
    other = Project.objects.create(name="language")
    spent, now = random_work(seed, fleet, [project, other], owners)
    assert Charge.objects.count() > 20
    odd = random.Random(seed)
    local = ZoneInfo(zone)
    spans = [(START, now), (START - timedelta(days=9), now + timedelta(days=9))]
    spans += [tuple(sorted(at(odd.uniform(0, SPAN_H)) for _ in "ab")) for _ in range(6)]
    noon = datetime(2026, 11, 1, 12, tzinfo=local)
    spans += [
        (noon, noon + timedelta(hours=3)),
        (noon, noon + timedelta(hours=18)),
        (days.begin(noon), days.end(noon)),
        (noon, noon),
    ]
    for since, until in spans:
        wanted: dict[object, float] = defaultdict(float)
        for one in spent:
            wanted[one[0].pk, one[1].pk, one[2], one[3]] += hours_of(one, since, min(until, now))
        sums = Books.read(now).sums(("project_id", "user_id", "band", "gpu_model"), since, until)
        found = {key: amount.gpu_seconds / 3600 for key, amount in sums.items()}
        assert found == pytest.approx({k: v for k, v in wanted.items() if v}, abs=1e-6)
        weighted = sum(amount.weighted for amount in sums.values()) / 3600
        assert weighted == pytest.approx(sum(wanted.values()) * (1 + CPUS))
    by_day = Books.read(now).sums(("day",), START, now)
    assert sum(amount.gpu_seconds for amount in by_day.values()) / 3600 == pytest.approx(
        sum(hours_of(one, START, now) for one in spent)
    )
    for (day,), amount in by_day.items():
        hours = sum(hours_of(one, max(day, START), min(days.end(day), now)) for one in spent)
        assert amount.gpu_seconds / 3600 == pytest.approx(hours)
        assert day.astimezone(local).hour == 0


@pytest.mark.parametrize("seed", range(2))
def test_balances_do_not_depend_on_when_was_charged(
    seed: int, fleet: Node, owners: tuple[User, User], project: Project
) -> None:
    spent, now = random_work(seed, fleet, [project], owners)
    decay = Decay()
    wanted: dict[tuple[int, int], float] = defaultdict(float)
    for of, owner, _, _, start, end in spent:
        cost = Cost(1 + CPUS, start, end or now)
        wanted[of.pk, owner.pk] += usage_of(cost, decay).seen(now, decay).value
    assert Books.read(now).balances() == pytest.approx(wanted)


def test_quotas_see_their_periods_to_the_second(
    fleet: Node, owners: tuple[User, User], project: Project
) -> None:
    spent, now = random_work(7, fleet, [project], owners)
    month, week = CalendarMonth("Asia/Tokyo"), Rolling(7)
    books = Books.read(now)
    used = books.used([month, week])
    for period in (month, week):
        wanted: dict[object, float] = defaultdict(float)
        for one in spent:
            wanted[project.pk, one[1].pk, one[2]] += 3600 * hours_of(one, period.begin(now), now)
        assert used[period] == pytest.approx({k: v for k, v in wanted.items() if v}, abs=1e-3)
    for (_, user_id, band), seconds in used[week].items():
        only = Only(users=frozenset({user_id}), bands=frozenset({band}))
        slices = books.history(week.begin(now), only)
        assert sum(one.gpu_seconds for one in slices) == pytest.approx(seconds)
        assert all(week.begin(now) <= one.begin < one.end <= now for one in slices)


def test_who_has_just_begun_counts_as_if_further(
    node: Node, project: Project, alice: User, bob: User
) -> None:
    for owner, gpus in ((alice, (0,)), (alice, (1,)), (bob, (2,))):
        cast.run(cast.job(owner, project, state=State.RUNNING), node, *gpus)
    Job.objects.update(walltime_s=36_000)
    ended = cast.run(cast.job(bob, project, state=State.COMPLETED), node, 3)
    Allocation.objects.filter(pk=ended.pk).update(released_at=cast.NOW)
    rate = 1 + CPUS

    def balances(minutes: int) -> list[float]:
        found = Books.read(cast.NOW + timedelta(minutes=minutes)).balances()
        return [found[project.pk, owner.pk] / rate for owner in (alice, bob)]

    # A tenth of ten hours, and less of it the more has passed.
    assert balances(0) == pytest.approx([2 * 3600, 3600])
    assert balances(15) == pytest.approx([2 * 3600, 3600], rel=1e-3)
    charge.charge(now=cast.NOW + timedelta(minutes=15))
    assert balances(15) == pytest.approx([2 * 3600, 3600], rel=1e-3)
    assert balances(120) == pytest.approx([2 * 7200, 7200], rel=1e-2)
    Accounting.objects.update(entry_penalty=0)
    assert balances(15) == pytest.approx([2 * 900, 900], rel=1e-3)


def test_only_some_are_counted(fleet: Node, owners: tuple[User, User], project: Project) -> None:
    spent, now = random_work(3, fleet, [project], owners)
    alice = owners[0]
    only = Only(
        users=frozenset({alice.pk}), bands=frozenset({"batch", "production"}),
        gpu_models=frozenset({MODELS[1]}),
    )  # fmt: skip
    (found,) = usage(By.MODEL, START, now, now=now, only=only)
    hours = sum(
        hours_of(one, START, now)
        for one in spent
        if one[1] == alice and one[2] != Band.BEST_EFFORT and one[3] == MODELS[1]
    )
    assert (found.key, found.name) == (MODELS[1], MODELS[1])
    assert found.gpu_hours == pytest.approx(hours)
    nobody = Only(projects=frozenset())
    assert usage(By.USER, START, now, now=now, only=nobody) == []


def test_who_used_most_comes_first(node: Node, project: Project, alice: User, bob: User) -> None:
    for owner, gpus in ((alice, (0,)), (bob, (1, 2)), (bob, ())):
        cast.run(cast.job(owner, project, state=State.RUNNING), node, *gpus)
    now = cast.NOW + timedelta(hours=2)
    hour = 2 * CPUS
    wanted = [
        Used(bob.pk, "bob", 4.0, pytest.approx(4 + 2 * hour)),
        Used(alice.pk, "alice", 2.0, pytest.approx(2 + hour)),
    ]
    assert usage(By.USER, cast.NOW, now, now=now) == wanted
    charge.charge(now=now - timedelta(minutes=30))
    assert usage(By.USER, cast.NOW, now, now=now) == wanted
    (whole,) = usage(By.PROJECT, cast.NOW, now, now=now)
    assert (whole.name, whole.gpu_hours) == ("vision", 6.0)
    (day,) = usage(By.DAY, cast.NOW, now, now=now)
    assert (day.key, day.name) == ("2026-11-03", "2026-11-03")
    assert [used.name for used in usage(By.MODEL, cast.NOW, now, now=now)] == [
        MODELS[0], "no GPU",
    ]  # fmt: skip


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(days=365), timedelta(days=9000)])
def test_what_a_clock_once_ahead_wrote_down_is_worth_no_more(
    node: Node, project: Project, alice: User, ahead: timedelta
) -> None:
    at = cast.NOW + ahead
    UsageBalance.objects.create(project=project, user=alice, band="batch", value=1e6, at=at)
    assert Books.read(cast.NOW).balances() == {(project.pk, alice.pk): 1e6}
    later = Books.read(at + timedelta(seconds=Accounting.current().half_life_s)).balances()
    assert later == {(project.pk, alice.pk): pytest.approx(5e5)}
    cast.job(alice, project)
    assert schedule.schedule(now=cast.NOW) == 1


def test_a_year_takes_as_many_queries_as_an_hour(
    fleet: Node, owners: tuple[User, User], project: Project
) -> None:
    _, now = random_work(5, fleet, [project], owners)

    def queries(since: datetime) -> int:
        with CaptureQueriesContext(connection) as captured:
            usage(By.USER, since, now, now=now)
        return len(captured)

    assert queries(START + timedelta(days=1)) == queries(START + timedelta(days=15)) <= 12
