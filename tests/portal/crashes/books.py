"""What must hold in the database at every moment, whoever was killed where."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

import pytest
from django.db.models import Sum

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import Decay, Usage, usage_of
from portal.models import (
    Allocation,
    Attempt,
    Charge,
    DailyUsage,
    Event,
    Job,
    Lease,
    Quota,
    Reservation,
    UsageBalance,
)
from tests.portal.crashes.scene import SHARES

CPU, MEMORY_GIB = 0.02, 0.0025
"""What they cost by default, and a GPU 1."""


class Standing(NamedTuple):
    """Where a job stands."""

    state: str
    reason: str
    outcomes: tuple[str, ...]
    """Of its attempts."""
    shares: dict[str, int]
    """Of GPUs, that it holds by node."""


Outcome = dict[str, Standing]


def hold(charged_from: datetime) -> None:
    """`charged_from`: since when what ran in the scene is charged."""
    _nothing_is_leased_twice()
    for job in Job.objects.prefetch_related("attempts__allocations__leases__gpu"):
        _attempts_fit(job)
        _history_fits(job)
    _who_leaves_is_recorded()
    _limits_hold()
    _ledger_fits(charged_from)


def outcome() -> Outcome:
    """By the names of the jobs."""
    return {job.name: _standing(job) for job in Job.objects.prefetch_related("attempts")}


def _standing(job: Job) -> Standing:
    leases = Lease.objects.filter(allocation__attempt__job=job, released_at=None)
    return Standing(
        job.state,
        job.reason,
        tuple(attempt.outcome for attempt in job.attempts.all()),
        dict(Counter(leases.values_list("allocation__node__name", flat=True))),
    )


def _nothing_is_leased_twice() -> None:
    """As the constraint says; and a GPU is divided in one way at a time."""
    open_ = list(Lease.objects.filter(released_at=None).values_list("gpu", "share", "of"))
    assert len({(gpu, share) for gpu, share, _ in open_}) == len(open_)
    assert len({(gpu, of) for gpu, _, of in open_}) == len({gpu for gpu, _, _ in open_})


def _attempts_fit(job: Job) -> None:
    """One open attempt of a job that holds something, and none of any other; each is whole."""
    attempts = list(job.attempts.all())
    assert [attempt.number for attempt in attempts] == list(range(1, len(attempts) + 1))
    open_ = [attempt.number for attempt in attempts if attempt.ended_at is None]
    assert open_ == ([len(attempts)] if job.active else []), job.name
    for attempt in attempts:
        _is_whole(job, attempt)
    outcomes = Counter(attempt.outcome for attempt in attempts)
    assert job.preemptions == outcomes[State.PREEMPTED], job.name


def _is_whole(job: Job, attempt: Attempt) -> None:
    """A part on each node, with all that was asked for; all of it is held, or all given back."""
    parts = sorted(attempt.allocations.all(), key=lambda part: part.rank)
    assert [part.rank for part in parts] == list(range(job.node_count)), job.name
    shards = job.spec["resources"].get("shards", 0)
    asked = Fraction(shards, SHARES) or job.gpus_per_node
    for part in parts:
        assert sum(Fraction(1, lease.of) for lease in part.leases.all()) == asked, job.name
        ends = {lease.released_at is not None for lease in part.leases.all()}
        assert ends <= {attempt.ended_at is not None}, job.name
        assert (part.released_at is None) == (attempt.ended_at is None), job.name
        assert part.phase not in Allocation.OPEN or attempt.ended_at is None, job.name
    if job.state == State.RUNNING:
        assert {part.phase for part in parts if not attempt.ended_at} <= {"running"}


def _history_fits(job: Job) -> None:
    """Each move begins where the one before ended, and the last one ended where the job is."""
    moves = Event.objects.filter(job=job, kind="state").order_by("pk").values_list("old", "new")
    began = State.RUNNING if job.name in ("gives-way-gang", "gives-way", "stays") else "PENDING"
    states = [began, *(new for _, new in moves)]
    assert [old for old, _ in moves] == states[:-1], job.name
    assert states[-1] == job.state, job.name


def _who_leaves_is_recorded() -> None:
    """Nobody gets a signal without the record of for whom, and nobody is recorded without one."""
    for attempt in Attempt.objects.prefetch_related("allocations").select_related("job"):
        told = {part.stop_wanted_at is not None for part in attempt.allocations.all()}
        assert told == {bool(attempt.preempted_by)}, attempt.job.name
        if not attempt.preempted_by:
            continue
        assert attempt.preemptor is not None and attempt.leaves_by is not None
        assert {part.stop_signal for part in attempt.allocations.all()} == {15}
        moved = Event.objects.filter(job=attempt.job, reason="Preempted", new="COMPLETING")
        assert moved.count() == 1, attempt.job.name
        words = f"Job {attempt.job.label} makes room."
        said = Event.objects.filter(job=attempt.preemptor, kind="preempts", detail=words)
        assert said.count() == 1, attempt.job.name
        if attempt.ended_at is None:
            assert attempt.job.state == State.COMPLETING
            assert attempt.preemptor.claimed_at or attempt.preemptor.state != State.PENDING


def _limits_hold() -> None:
    for quota in Quota.objects.all():
        counted = Lease.objects.filter(
            released_at=None, allocation__attempt__job__project=quota.project
        ).exclude(allocation__attempt__job__band=Band.BEST_EFFORT)
        assert sum(1 / of for of in counted.values_list("of", flat=True)) <= quota.gpus
    assert Job.objects.filter(name__startswith="task-").exclude(state=State.PENDING).count() <= 1
    for window in Reservation.objects.all():
        for part in Allocation.objects.filter(node__in=window.nodes.all()):
            walltime = timedelta(seconds=part.attempt.job.walltime_s)
            assert part.attempt.started_at + walltime <= window.starts_at


def _ledger_fits(charged_from: datetime) -> None:
    """Of each allocation its GPUs x time and its weight x time are charged, each moment once; the
    sums of days and the fading balances are those of the charges."""
    costs: dict[tuple[object, ...], list[Cost]] = {}
    for part in Allocation.objects.select_related("attempt__job").prefetch_related("charges"):
        held = sum(1 / lease.of for lease in part.leases.all())
        weight = held + max(part.cpus * CPU, part.memory_mib / 1024 * MEMORY_GIB)
        start = max(charged_from, part.attempt.started_at)
        seconds = (part.charged_until - start).total_seconds()
        charges = part.charges.all()
        assert sum(row.gpu_seconds for row in charges) == pytest.approx(held * seconds)
        assert sum(row.weighted for row in charges) == pytest.approx(weight * seconds)
        assert not part.charged or part.charged_until == part.released_at
        job = part.attempt.job
        if charges:
            cost = Cost(weight, start, part.charged_until)
            costs.setdefault((job.project_id, job.owner_id, job.band), []).append(cost)
    total = {"g": Sum("gpu_seconds"), "w": Sum("weighted")}
    charged, of_days = Charge.objects.aggregate(**total), DailyUsage.objects.aggregate(**total)
    assert of_days == (pytest.approx(charged) if Charge.objects.exists() else charged)
    balances = {
        (row.project_id, row.user_id, row.band): Usage(row.value, row.at)
        for row in UsageBalance.objects.all()
    }
    decay = Decay()
    assert balances.keys() == costs.keys()
    for account, balance in balances.items():
        seen = (usage_of(cost, decay).seen(balance.at, decay).value for cost in costs[account])
        assert balance.value == pytest.approx(sum(seen))
