"""Jobs that cannot be told to stop, or do not: others are, and nobody waits for them for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.bands import Band
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Policy
from jobs.scheduler.snapshot import DependencyState, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.play import Play

WAITS = pending(1, 1, band=Band.PRODUCTION)
TENTH = timedelta(seconds=10)


def idle(job_id: int, **more: object) -> Running:
    """Best-effort, one GPU, for an hour so far."""
    long_ago = NOW - timedelta(hours=1)
    told: dict[str, object] = {"band": Band.BEST_EFFORT, "gpus": 1, "started_at": long_ago}
    return replace(running(job_id, 600, 1), **(told | more))


def play(*active: Running) -> Play:
    """On one node, which is full. Number 51 never ends."""
    full = node(1, gpus=len(active), used={job.id: 1 for job in active})
    snapshot = Snapshot((full,), (WAITS,), active, policy=Policy())
    return Play(snapshot, lambda job_id, limit: 10**6 if job_id == 51 else limit)


def told(playing: Play, steps: int) -> dict[int, int]:
    """Who was told to stop, and how many seconds after the beginning."""
    found = {}
    for _ in range(steps):
        at = round((playing.now - NOW).total_seconds())
        found |= {one.job_id: at for one in playing.decide().preempted}
        playing.advance(playing.now + TENTH)
    return found


def test_who_cannot_be_told_is_not_and_another_is() -> None:
    """Though it would lose least, having saved its work just now."""
    playing = play(idle(51, preemptible=False, saved_at=NOW), idle(52))
    assert told(playing, 10) == {52: 0}
    assert playing.started == {1: NOW + timedelta(seconds=60)}


def test_alone_it_is_waited_for() -> None:
    playing = play(idle(51, preemptible=False))
    assert told(playing, 10) == {}


@pytest.mark.parametrize("leaving", [True, False], ids=["told to make room", "cancelled"])
def test_who_should_be_gone_soon_is_waited_for_and_not_for_ever(leaving: bool) -> None:
    """A minute beyond the end that it should have come to, another is told."""
    soon = NOW + timedelta(seconds=20)
    playing = play(idle(51, preemptible=False, leaving=leaving, ends_by=soon), idle(52))
    assert told(playing, 20) == {52: 90}
    assert playing.started == {1: NOW + timedelta(seconds=150)}


def test_who_waits_for_one_that_should_have_ended_is_told_so() -> None:
    late = replace(idle(51), ends_by=NOW - timedelta(hours=1), band=Band.PRODUCTION)
    after = pending(2, dependency=DependencyState.WAITING, waits_for=(51,))
    found = plan(Snapshot((node(1, 1, {51: 1}),), (WAITS, after), (late,)), NOW)
    assert {job_id: why.detail for job_id, why in found.explanations.items()} == {
        1: "Needs 1 GPU on one node; none is free. "
        "Job 51 should have ended by now: when that will be free is not known.",
        2: "Waits for job 51 to end, due since 11:00 UTC.",
    }
    assert not found.estimates
