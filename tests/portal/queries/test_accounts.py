"""Projects, members and quotas as the scheduler's own values, and what counts against them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.counters import Counters
from jobs.scheduler.fairshare import Member, standings
from jobs.scheduler.fairshare import Project as Node_
from jobs.scheduler.limits import Account, Demand, Holding, Limited, Limits, Quota, Scope
from jobs.scheduler.periods import CalendarMonth, Rolling
from portal import models
from portal.actions.schedule import schedule
from portal.models import Accounting, Gpu, Lease, Membership, Node, Project, User
from portal.queries import accounts
from portal.queries.books import Books
from tests.portal import cast
from tests.portal.cast import NOW


@pytest.fixture
def robots(project: Project) -> Project:
    return Project.objects.create(name="robots", parent=project, shares=3, lends=True)


def test_the_tree(project: Project, robots: Project) -> None:
    deeper = Project.objects.create(name="deeper", parent=robots)
    other = Project.objects.create(name="language", archived_at=NOW)
    assert accounts.projects() == (
        Node_(project.pk, "vision", None, 1),
        Node_(robots.pk, "robots", project.pk, 3),
        Node_(deeper.pk, "deeper", robots.pk, 1),
        Node_(other.pk, "language", None, 1),
    )
    assert accounts.below(project.pk) == {project.pk, robots.pk, deeper.pk}
    assert accounts.below(deeper.pk) == {deeper.pk}


def test_members_and_who_only_has_jobs(
    project: Project, robots: Project, alice: User, carol: User
) -> None:
    Membership.objects.filter(user=alice).update(shares=5)
    cast.job(carol, robots)
    cast.job(carol, robots)
    cast.job(alice, robots, state=State.COMPLETED)
    found = accounts.members()
    assert found == (
        Member(project.pk, alice.pk, 5, "alice"),
        Member(robots.pk, carol.pk, 1, "carol"),
    )
    assert len(standings(accounts.projects(), found, Books.read(NOW).balances())) == 2


def test_quotas(project: Project, robots: Project) -> None:
    models.Quota.objects.create(project=project, gpus=2.5, gpu_hours=100)
    models.Quota.objects.create(
        project=robots, scope="user", band="batch", gpu_hours=7, period="rolling", period_days=30,
        jobs_running=1, jobs_pending=0, walltime_s=60, partitions=["gpu"], gpu_models=[],
    )  # fmt: skip
    assert accounts.quotas() == (
        Quota(project.pk, Limits(gpus=2.5, gpu_hours=100)),
        Quota(
            robots.pk,
            Limits(
                gpu_hours=7, jobs_running=1, jobs_pending=0, walltime_s=60,
                partitions=frozenset({"gpu"}), gpu_models=frozenset(),
            ),
            Scope.USER,
            Band.BATCH,
            Rolling(30),
        ),
    )  # fmt: skip


def test_who_lends(project: Project, robots: Project) -> None:
    assert accounts.lends() == {robots.pk}
    Accounting.objects.create(lends=True)
    assert accounts.lends() == {robots.pk, None}


def test_what_counts(project: Project, node: Node, alice: User, bob: User) -> None:
    Gpu.objects.filter(node=node).update(shards=4)
    models.Quota.objects.create(project=project, gpus=4, gpu_hours=10, jobs_pending=3)
    running = cast.job(alice, project, state=State.RUNNING, started_at=NOW)
    cast.run(running, node, 0, 1)
    starting = cast.job(bob, project, state=State.CONFIGURING, band=Band.PRODUCTION)
    starting.started_at = None
    starting.save()
    part = cast.run(starting, node)
    Lease.objects.create(gpu=node.gpus.get(index=2), share=3, of=4, allocation=part)
    ended = cast.run(cast.job(alice, project, state=State.COMPLETED), node)
    Lease.objects.create(gpu=node.gpus.get(index=3), of=4, allocation=ended, released_at=NOW)
    later = NOW + timedelta(minutes=30)
    models.Allocation.objects.filter(pk=ended.pk).update(released_at=later)
    cast.job(alice, project)
    cast.job(alice, project, held=True)
    limits = accounts.quotas()
    found = accounts.counted(Books.read(later), limits)
    mine = (project.pk, alice.pk, Band.BATCH)
    bobs = (project.pk, bob.pk, Band.PRODUCTION)
    assert found.running == (
        Holding(Demand(running.pk, *mine, 2.0, 3600, "gpu"), NOW),
        Holding(Demand(starting.pk, *bobs, 0.25, 3600, "gpu"), later),
    )
    assert found.pending == {mine: 2}
    # Alice's two GPUs and the quarter that has just been released, each for half an hour.
    assert found.used == {CalendarMonth("UTC"): {mine: 2.25 * 1800, bobs: 0.25 * 1800}}
    standing = Counters(accounts.projects(), limits, found).standing(limits[0])
    assert standing[Limited.GPUS].used == pytest.approx(2.25)
    assert standing[Limited.JOBS_PENDING].used == 2
    assert standing[Limited.GPU_HOURS].held == pytest.approx(2 * 0.5 + 0.25)


def test_when_something_was_used_is_asked_for_each_limit(
    project: Project, robots: Project, node: Node, alice: User, bob: User
) -> None:
    """With all that was below the project then, and without best-effort."""
    for of in (project, robots):
        models.Quota.objects.create(project=of, gpu_hours=9, period="rolling", period_days=3)
    for index, (owner, of, band) in enumerate(
        [(alice, project, Band.BATCH), (bob, robots, Band.BATCH), (bob, robots, Band.PRODUCTION)]
    ):
        cast.run(cast.job(owner, of, state=State.RUNNING, band=band), node, index)
    cast.run(cast.job(bob, robots, state=State.RUNNING, band=Band.BEST_EFFORT), node, 3)
    told = accounts.counted(Books.read(NOW + timedelta(hours=2)), accounts.quotas()).history

    Project.objects.filter(pk=robots.pk).update(parent=None)

    def hours(*account: Any) -> float:
        return sum(one.gpu_seconds for one in told(Account(*account))) / 3600

    assert (hours(project.pk), hours(robots.pk)) == (6, 4)
    assert (hours(project.pk, alice.pk), hours(project.pk, bob.pk)) == (2, 4)
    assert hours(project.pk, None, Band.PRODUCTION) == 2
    with CaptureQueriesContext(connection) as captured:
        hours(project.pk)
    assert not captured.captured_queries, "once for all who ask"


def test_days_are_read_for_limits_that_somebody_waits_for(
    project: Project, node: Node, alice: User
) -> None:
    def days_read() -> int:
        with CaptureQueriesContext(connection) as captured:
            schedule(now=NOW)
        told = [query["sql"].partition(" FROM ")[0] for query in captured]
        return sum('"portal_dailyusage"."day"' in columns for columns in told)

    quota = models.Quota.objects.create(
        project=project, gpu_hours=1000, period="rolling", period_days=3
    )
    cast.run(cast.job(alice, project, state=State.RUNNING, gpus=4), node, 0, 1, 2, 3)
    cast.job(alice, project)
    assert days_read() == 0
    quota.gpu_hours = 2
    quota.save()
    assert days_read() == 1


def test_the_number_of_queries_is_constant(
    project: Project, node: Node, alice: User, bob: User
) -> None:
    models.Quota.objects.create(project=project, gpu_hours=1, period="rolling", period_days=3)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            limits = accounts.quotas()
            accounts.counted(Books.read(NOW + timedelta(days=5)), limits)
            accounts.projects(), accounts.members(), accounts.lends()
        return len(captured)

    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    few = queries()
    for index, owner in ((1, alice), (2, bob), (3, bob)):
        cast.run(cast.job(owner, project, state=State.RUNNING), node, index)
        cast.job(owner, project)
        child = Project.objects.create(name=f"p{index}", parent=project)
        models.Quota.objects.create(project=child, gpus=1)
    assert queries() == few
