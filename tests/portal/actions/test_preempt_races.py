"""A preemption meets a cancellation and an end: in whichever order, nothing is left behind."""

from __future__ import annotations

import pytest
from django.db import transaction

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.policy import Policy
from portal.actions import cancel, preempt, settle
from portal.models import Allocation, Attempt, Job, Lease, Node, Project, User
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.together import at_once


@pytest.fixture
def pair(transactional_db: None, node: Node, project: Project, alice: User) -> tuple[Job, Job]:
    victim = cast.job(alice, project, state=State.RUNNING, band=Band.BEST_EFFORT)
    cast.run(victim, node, 0)
    return victim, cast.job(alice, project, band=Band.PRODUCTION)


@transaction.atomic
def _preempt(pair: tuple[Job, Job]) -> None:
    preempt.preempt({pair[0].pk: pair[1].pk}, policy=Policy(), now=NOW)


@transaction.atomic
def _end(job: Job, cause: str, exit_code: int) -> None:
    jobs = settle.lock([job.pk])
    Allocation.objects.filter(attempt__job=job).update(
        phase=Allocation.Phase.ENDED, ended_at=NOW, cause=cause, exit_code=exit_code
    )
    settle.settle_locked(jobs=jobs, now=NOW)


@pytest.mark.parametrize("_", range(3))
def test_with_a_cancellation_of_the_victim(pair: tuple[Job, Job], alice: User, _: int) -> None:
    victim, _other = pair
    again = Job.objects.get(pk=victim.pk)
    at_once(lambda: _preempt(pair), lambda: cancel.cancel(job=again, actor=alice, now=NOW))
    part = Allocation.objects.get()
    assert (part.stop_wanted_at, part.stop_signal) == (NOW, None)
    _end(victim, "stopped", 143)
    victim.refresh_from_db()
    assert victim.state == State.CANCELLED
    assert not Lease.objects.filter(released_at=None).exists()


@pytest.mark.parametrize("_", range(3))
def test_with_the_victims_own_end(pair: tuple[Job, Job], _: int) -> None:
    victim, other = pair
    at_once(lambda: _preempt(pair), lambda: _end(victim, "exited", 0), lambda: _preempt(pair))
    victim.refresh_from_db()
    other.refresh_from_db()
    assert (victim.state, victim.preemptions) == (State.COMPLETED, 0)
    assert bool(other.claimed_at) == bool(Attempt.objects.get().preempted_by)
    assert not Lease.objects.filter(released_at=None).exists()


@pytest.mark.parametrize("_", range(3))
def test_with_a_cancellation_of_the_preemptor(pair: tuple[Job, Job], alice: User, _: int) -> None:
    victim, other = pair
    again = Job.objects.get(pk=other.pk)
    at_once(lambda: _preempt(pair), lambda: cancel.cancel(job=again, actor=alice, now=NOW))
    victim.refresh_from_db()
    other.refresh_from_db()
    assert (other.state, other.claimed_at) == (State.CANCELLED, None)
    assert victim.state in (State.RUNNING, State.COMPLETING)
    assert (victim.state == State.COMPLETING) == bool(Attempt.objects.get().preempted_by)
