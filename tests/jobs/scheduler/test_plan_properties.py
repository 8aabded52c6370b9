"""What must hold for every cluster, not only for those we thought of."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.rank import ranked
from jobs.scheduler.snapshot import DependencyState, Pending, Snapshot
from tests.jobs.scheduler.clusters import A100, H100, NOW
from tests.jobs.scheduler.generated import ARRAY, snapshots
from tests.jobs.scheduler.play import promised
from tests.jobs.scheduler.quotas import Job, Lab, Oracle
from tests.jobs.scheduler.recount import (
    applied,
    counted,
    demand,
    enough,
    fitting,
    least,
    may_count,
    seen,
    startable,
    without,
)

OWN_WAITS = {
    Reason.HELD_USER,
    Reason.DEPENDENCY,
    Reason.DEPENDENCY_NEVER,
    Reason.BEGIN_TIME,
    Reason.ARRAY_LIMIT,
}
STUCK = {
    Reason.HELD_USER,
    Reason.DEPENDENCY_NEVER,
    Reason.BAD_CONSTRAINTS,
    Reason.NODE_DOWN,
    Reason.PARTITION_DOWN,
}


def oracle(snapshot: Snapshot) -> Oracle:
    """What counts against quotas before the pass."""
    usage = snapshot.quota_usage
    assert usage is not None
    active = []
    for held in usage.running:
        left = round(held.seconds_left(NOW))
        exact = Fraction(held.demand.gpus).limit_denominator(100)
        active.append(Job(replace(held.demand, walltime_s=left), exact))
    used = {key: round(sum(one.gpu_seconds for one in some)) for key, some in usage.history.items()}
    return Oracle(Lab(snapshot.projects, snapshot.quotas, snapshot.lends), active, used)


def asked(job: Pending, gpus: Fraction) -> Job:
    """As quotas see it, on so many GPUs."""
    return Job(demand(job, float(gpus)), gpus)


def has_room(snapshot: Snapshot, job: Pending, counts: Oracle, lent: bool = True) -> bool | None:
    """Whether it fits now with all quotas; None for gangs that do not count the same everywhere.

    `lent`: also on what others lend.
    """
    request, there = job.resources, fitting(snapshot, job, NOW)
    ways = {count for node in there for count in may_count(node, request)}
    if len(ways) > 1 and request.nodes > 1:
        return None
    good = [
        count
        for count in ways
        if not counts.exceeded(asked(job, count * request.nodes))
        and (lent or not counts.borrows(asked(job, count * request.nodes)))
    ]
    return bool(good) and enough(there, request)


@given(snapshots())
def test_a_plan_can_be_carried_out(snapshot: Snapshot) -> None:
    """No GPU or part of one twice, gangs whole, nothing but what was asked for, and nothing on
    what an admin keeps for others."""
    applied(snapshot, plan(snapshot, NOW), NOW)


@given(snapshots())
def test_nothing_runs_into_what_is_kept_for_nobody(snapshot: Snapshot) -> None:
    """The first reservation of each cluster is for maintenance."""
    ends = {job.id: NOW + timedelta(seconds=job.walltime_s + 60) for job in snapshot.pending}
    for start in plan(snapshot, NOW).starts:
        for kept in snapshot.reservations[:1]:
            there = kept.node_ids & {part.node_id for part in start.placements}
            assert not there or ends[start.job_id] <= kept.start or kept.end <= NOW


@given(snapshots())
def test_who_may_use_what_is_kept_starts_as_if_it_was_not(snapshot: Snapshot) -> None:
    ids = frozenset(kept.id for kept in snapshot.reservations)
    snapshot = replace(
        snapshot,
        pending=tuple(replace(job, reservations=ids) for job in snapshot.pending),
        running=tuple(
            replace(job, again=job.again and replace(job.again, reservations=ids))
            for job in snapshot.running
        ),
    )
    kept, free = plan(snapshot, NOW), plan(replace(snapshot, reservations=()), NOW)
    assert (kept.starts, kept.preempted) == (free.starts, free.preempted)
    assert kept.explanations == free.explanations


@given(snapshots())
def test_no_quota_is_exceeded(snapshot: Snapshot) -> None:
    keeps_to_quotas(snapshot)


@given(snapshots(), st.sets(st.sampled_from((A100, H100))), st.sampled_from((60, 3600, 20_000)))
def test_nobody_gets_what_is_forbidden(snapshot: Snapshot, models: set[str], limit: int) -> None:
    """Also who was taken in before it was, and who leaves it open."""
    projects = snapshot.projects or (Project(0, "p0", None),)
    narrow = Limits(gpu_models=frozenset(models), walltime_s=limit)
    more = tuple(Quota(project.id, narrow, band=band) for project in projects for band in Band)
    keeps_to_quotas(replace(snapshot, projects=projects, quotas=(*snapshot.quotas, *more)))


def keeps_to_quotas(snapshot: Snapshot) -> None:
    """All that start, one after the other, with what they are given."""
    jobs = {job.id: job for job in snapshot.pending}
    nodes = {node.id: node for node in snapshot.nodes}
    counts = oracle(snapshot)
    for start in plan(snapshot, NOW).starts:
        waits = jobs[start.job_id]
        job = asked(waits, counted(start.placements, nodes, waits.resources))
        assert not counts.exceeded(job) and not counts.forbids(job.demand)
        counts.active.append(job)
        given = {uuid for part in start.placements for uuid in part.gpu_uuids}
        models = {gpu.model for node in nodes.values() for gpu in node.gpus if gpu.uuid in given}
        assert models <= counts.models(waits.project_id, waits.band)


@given(snapshots())
def test_no_array_runs_more_tasks_than_it_may(snapshot: Snapshot) -> None:
    """Those without a limit start whatever runs, and are counted by the others."""
    begun = {start.job_id for start in plan(snapshot, NOW).starts}
    tasks = [job for job in snapshot.pending if job.id in begun and job.array_id == ARRAY]
    limits = [job.array_limit for job in tasks if job.array_limit is not None]
    before = sum(job.array_id == ARRAY for job in snapshot.running)
    assert not limits or before + len(limits) <= max(limits)


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_input_means_nothing(snapshot: Snapshot, shuffler: random.Random) -> None:
    def shuffled(items: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(shuffler.sample(items, len(items)))

    usage = snapshot.quota_usage
    assert usage is not None
    other = replace(
        snapshot,
        nodes=shuffled(
            tuple(
                replace(
                    node,
                    gpus=shuffled(
                        tuple(replace(g, sharers=shuffled(g.sharers)) for g in node.gpus)
                    ),
                    jobs=shuffled(node.jobs),
                )
                for node in snapshot.nodes
            )
        ),
        pending=shuffled(snapshot.pending),
        running=shuffled(snapshot.running),
        projects=shuffled(snapshot.projects),
        members=shuffled(snapshot.members),
        usage=shuffled(snapshot.usage),
        quotas=shuffled(snapshot.quotas),
        quota_usage=replace(
            usage,
            running=shuffled(usage.running),
            history=replace(usage.history, by_key=dict(shuffled(tuple(usage.history.items())))),
        ),
        reservations=shuffled(snapshot.reservations),
    )
    decided, again = plan(snapshot, NOW), plan(other, NOW)
    assert again.starts == decided.starts
    assert again.explanations == decided.explanations
    assert again == decided


@given(snapshots())
def test_equal_snapshots_give_equal_plans_explained_or_not(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    assert plan(replace(snapshot), NOW) == decided
    bare = plan(snapshot, NOW, explained=False)
    told = (decided.starts, decided.expired, decided.preempted)
    assert (bare.starts, bare.expired, bare.preempted) == told


@given(snapshots())
def test_every_pending_job_starts_expires_or_is_told_why_it_waits(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    told = [start.job_id for start in decided.starts]
    told += [*decided.expired, *decided.explanations]
    assert sorted(told) == sorted(job.id for job in snapshot.pending)
    names = {node.name for node in snapshot.nodes}
    for found in decided.explanations.values():
        assert found.reason is not Reason.NONE
        for sentence in (found.detail, *found.more):
            assert sentence.endswith(".")
            assert sentence[0].isupper() or sentence.split()[0].rstrip(",") in names
            assert " 1 jobs" not in sentence and " 0 jobs wait" not in sentence


@given(snapshots())
def test_every_job_that_can_start_has_an_estimate(snapshot: Snapshot) -> None:
    decided, jobs = plan(snapshot, NOW), {job.id: job for job in snapshot.pending}
    assert set(decided.estimates) <= set(decided.explanations)
    for job_id, estimate in decided.estimates.items():
        begin_at = jobs[job_id].begin_at
        assert NOW <= estimate.early <= estimate.at <= estimate.late
        assert decided.explanations[job_id].reason not in STUCK
        assert begin_at is None or estimate.at >= begin_at
    # Nobody knows when those are gone that should have ended long ago.
    stuck = {job.id: job.array_id for job in snapshot.running if job.is_stuck(NOW.timestamp())}
    known = [job.id for job in snapshot.running if job.id not in stuck]
    empty = replace(without(snapshot, known), reservations=())
    ever = Oracle(Lab(snapshot.projects, snapshot.quotas, snapshot.lends), [])
    for job_id, why in decided.explanations.items():
        job, arrays = jobs[job_id], {*stuck.values()} - {None}
        free = job.dependency in (DependencyState.NONE, DependencyState.MET) and not job.held
        if free and job.array_id not in arrays and has_room(empty, job, ever):
            assert (job_id in decided.estimates) != ("known it cannot" in str(why)), why


@given(snapshots())
def test_the_highest_ranked_job_that_can_start_does(snapshot: Snapshot) -> None:
    """As long as all before it start, there is nothing that could be in its way."""
    decided = plan(snapshot, NOW)
    leave = bool(decided.preempted) or any(run.leaving for run in snapshot.running)
    begun = {start.job_id for start in decided.starts}
    counts = oracle(snapshot)
    for job in ranked(snapshot, NOW):
        why = decided.explanations.get(job.id)
        kept_back = job.id in decided.expired or (
            why is not None and why.reason in OWN_WAITS | STUCK
        )
        if kept_back:
            continue
        fewest = asked(job, least(snapshot, job))
        if counts.exceeded(fewest):
            # Its place is kept where those who leave give back what it needs of its quota.
            if leave:
                return
            continue
        if not counts.borrows(fewest) and has_room(snapshot, job, counts, lent=False):
            assert job.id in begun
        return


@given(snapshots())
def test_waits_of_its_own_are_told_only_when_they_are_so(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    for job in snapshot.pending:
        length = timedelta(seconds=job.walltime_s)
        late = (
            job.deadline_at is not None and max(NOW, job.begin_at or NOW) + length > job.deadline_at
        )
        assert (job.id in decided.expired) == late
        if late:
            continue
        why = decided.explanations.get(job.id)
        kept_back = (
            job.held
            or job.dependency in {DependencyState.WAITING, DependencyState.NEVER}
            or (job.begin_at is not None and job.begin_at > NOW)
        )
        if kept_back:
            assert why is not None and why.reason in OWN_WAITS
        if why is not None and why.reason is Reason.ARRAY_LIMIT:
            begun = {start.job_id for start in decided.starts}
            tasks = Counter(job.array_id for job in snapshot.running)
            next_ = begun | promised(snapshot, NOW).keys()
            tasks.update(other.array_id for other in snapshot.pending if other.id in next_)
            assert job.array_limit is not None and tasks[job.array_id] >= job.array_limit


@given(snapshots())
def test_what_is_told_of_room_is_so(snapshot: Snapshot) -> None:
    """Resources: there is none after all that start. Priority: there is, but not for it."""
    decided = plan(snapshot, NOW)
    after = applied(snapshot, decided, NOW)
    whenever = replace(after, reservations=())
    counts = oracle(after)
    for job in after.pending:
        reason = decided.explanations[job.id].reason
        if reason is Reason.RESOURCES:
            assert not has_room(after, job, counts, lent=False)
        elif reason is Reason.PRIORITY:
            assert startable(after, job, NOW)
        elif reason is Reason.RESERVATION:
            assert startable(whenever, job, NOW) and not has_room(after, job, counts, lent=False)
        elif reason is Reason.NODE_DOWN:
            assert len(seen(after, job)) >= job.resources.nodes
        elif reason is Reason.BAD_CONSTRAINTS:
            assert not enough(seen(after, job), job.resources)
