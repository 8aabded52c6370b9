"""GPU-hours that had been used when a past time began, as its simulation is told of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.limits import Account, Usage
from jobs.scheduler.periods import CalendarMonth, Rolling
from jobs.scheduler.simulate.quota_change import QuotaChange
from portal.actions import charge, what_if
from portal.models import Allocation, Attempt, Lease, Node, Project, Quota, User
from portal.queries import workload
from tests.portal import cast

SINCE = cast.NOW - timedelta(days=7)
"""27 October, 12:00 UTC."""
MONTH = CalendarMonth("UTC")


def held(owner: User, project: Project, node: Node, begin: datetime, hours: float) -> None:
    """All four GPUs of the node; charged."""
    end = begin + timedelta(hours=hours)
    job = cast.job(
        owner, project, gpus=4, state=State.COMPLETED, submitted_at=begin, started_at=begin,
        ended_at=end, walltime_s=round(3600 * hours),
    )  # fmt: skip
    part = cast.run(job, node, 0, 1, 2, 3)
    Attempt.objects.filter(job=job).update(started_at=begin, ended_at=end, outcome="COMPLETED")
    Lease.objects.filter(allocation=part).update(released_at=end)
    Allocation.objects.filter(pk=part.pk).update(
        charged_until=begin, released_at=end, phase=Allocation.Phase.ENDED
    )


def usage(*changes: QuotaChange) -> Usage:
    return workload.read(SINCE, cast.NOW, cast.NOW, changes).workload.usage


def test_what_is_limited_now_or_would_be_is_summed_up_to_the_beginning(
    alice: User, project: Project, node: Node
) -> None:
    Quota.objects.create(project=project, gpu_hours=100)
    for begin, hours in (
        (SINCE - timedelta(days=30), 5),
        (SINCE - timedelta(days=2), 3),
        (SINCE - timedelta(hours=2), 4),
        (SINCE + timedelta(days=1), 6),
    ):
        held(alice, project, node, begin, hours)
    mine = (project.pk, alice.pk, Band.BATCH)
    for charged in (False, True):
        if charged:
            charge.charge(now=cast.NOW)
        found = usage(QuotaChange(project.pk, period_days=40))
        assert (found.at, found.running, dict(found.pending)) == (SINCE, (), {})
        # In October 3 h and 2 h of 4; in 40 days 5 h more. On 4 GPUs.
        assert dict(found.used) == {
            MONTH: {mine: (3 + 2) * 4 * 3600}, Rolling(40): {mine: (5 + 3 + 2) * 4 * 3600},
        }  # fmt: skip
        told = sum(one.gpu_seconds for one in found.history(Account(project.pk)))
        assert told == (5 + 3 + 2) * 4 * 3600


def test_where_nothing_is_limited_nothing_is_summed_up(
    alice: User, project: Project, node: Node
) -> None:
    held(alice, project, node, SINCE - timedelta(days=1), 3)
    assert dict(usage().used) == {}


def test_a_trial_counts_what_was_used_before_it(
    alice: User, project: Project, node: Node, admin: User
) -> None:
    """40 were used in October, then 40 are asked for, with and without 60 more."""
    held(alice, project, node, SINCE - timedelta(days=2), 10)
    held(alice, project, node, SINCE + timedelta(hours=1), 10)
    charge.charge(now=cast.NOW)
    Quota.objects.create(project=project, gpu_hours=60)
    row = what_if.ask(
        actor=admin, since=SINCE, until=cast.NOW, now=cast.NOW,
        changes=what_if.Changes(quotas=(QuotaChange(project.pk, gpu_hours=80),)),
    )  # fmt: skip
    what_if._begin(cast.NOW)
    what_if.play(pk=row.pk, clock=lambda: cast.NOW, told=lambda part: None)
    row.refresh_from_db()
    # The job came at 13:00 on 27 October, and November begins 107 hours later.
    waits = [row.result[side]["mean_wait_s"] / 3600 for side in ("now", "then")]
    assert waits == [107, 0]
