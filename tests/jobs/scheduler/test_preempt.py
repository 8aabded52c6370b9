"""Who has to make room for whom: as few as will do, only those who may be asked, never in vain."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.closures import MARGIN_S
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Policy
from jobs.scheduler.snapshot import Pending, Reservation, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import EVERY, seeds, snapshots
from tests.jobs.scheduler.play import Play, settle
from tests.jobs.scheduler.quotas import Oracle
from tests.jobs.scheduler.recount import least, startable, without
from tests.jobs.scheduler.test_plan_properties import asked, has_room, oracle

EAGER = Policy(min_run_s=0, preempts=EVERY)


def ago(minutes: int) -> datetime:
    return NOW - timedelta(minutes=minutes)


def idle(job_id: int, node_id: int = 1, **more: object) -> Running:
    """Best-effort, one GPU, for an hour so far."""
    told: dict[str, object] = {"band": Band.BEST_EFFORT, "gpus": 1, "started_at": ago(60)}
    return replace(running(job_id, 600, node_id), **(told | more))


# name: who runs on a GPU of the one node each, who waits, what is not by default -> who has to go
CASES: dict[str, tuple[list[Running], Pending, dict[str, object], set[int]]] = {
    "whose last checkpoint is newest": (
        [idle(51), idle(52, saved_at=ago(5)), idle(53, saved_at=ago(9))],
        pending(1, 1), {}, {52},
    ),
    "of equal loss the youngest": (
        [idle(51, saved_at=ago(5)), idle(52, started_at=ago(30), saved_at=ago(5)), idle(53)],
        pending(1, 1), {}, {52},
    ),
    "as many as are needed": (
        [idle(51, started_at=ago(20)), idle(52, started_at=ago(30)), idle(53)],
        pending(1, 2), {}, {51, 52},
    ),
    "none if all would not do": ([idle(51), idle(52)], pending(1, 3), {}, set()),
    "none of its own band": (
        [idle(51, band=Band.BATCH)], pending(1, 1), {}, set(),
    ),
    "none that the policy does not name": (
        [idle(51, band=Band.BATCH)], pending(1, 1, band=Band.PRODUCTION), {}, set(),
    ),
    "one that the policy names": (
        [idle(51, band=Band.BATCH)], pending(1, 1, band=Band.PRODUCTION), {"preempts": EVERY}, {51},
    ),
    "none that has just begun": ([idle(51, started_at=ago(9))], pending(1, 1), {}, set()),
    "one that has begun long enough ago": (
        [idle(51, started_at=ago(10))], pending(1, 1), {}, {51},
    ),
    "none that had to go three times": ([idle(51, preemptions=3)], pending(1, 1), {}, set()),
    "none that is about to end anyway": (
        [replace(idle(51), ends_by=NOW + timedelta(seconds=50)), idle(52)],
        pending(1, 1), {}, set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_has_to_go(case: str) -> None:
    active, job, changed, expected = CASES[case]
    full = node(1, gpus=len(active), used={run.id: 1 for run in active})
    policy = Policy(**changed)  # type: ignore[arg-type]
    decided = plan(Snapshot((full,), (job,), tuple(active), policy=policy), NOW)
    assert {one.job_id for one in decided.preempted} == expected
    assert {one.for_id for one in decided.preempted} <= {job.id}


def test_a_place_is_kept_for_who_asked() -> None:
    """Until the victim is gone nobody else takes what it leaves, nor what was free beside it."""
    full = node(1, gpus=2, used={51: 1})
    waits = (pending(1, 2), pending(2, 1, walltime_s=7200))
    play = Play(Snapshot((full,), waits, (idle(51),), policy=Policy()))
    assert [one.job_id for one in play.decide().preempted] == [51]
    for _ in range(3):
        play.advance(play.now + timedelta(seconds=10))
        decided = play.decide()
        assert (decided.starts, decided.preempted) == ((), ())
    play.advance()
    assert [start.job_id for start in play.decide().starts] == [1]
    assert play.now == NOW + timedelta(seconds=60)


def test_who_could_end_before_what_the_admin_keeps_is_given_room() -> None:
    """Where nobody's leaving would do for a long job, it may for a short one like it."""
    full = node(1, gpus=1, used={51: 1})
    window = Reservation(
        1, "upgrade", NOW + timedelta(hours=1), NOW + timedelta(hours=5), frozenset({1})
    )
    queue = (pending(1, 1, walltime_s=7200), pending(2, 1, walltime_s=1800))
    asked = Snapshot((full,), queue, (idle(51),), reservations=(window,), policy=Policy())
    assert [(one.job_id, one.for_id) for one in plan(asked, NOW).preempted] == [(51, 2)]


@pytest.mark.parametrize(("spare_s", "gone"), [(59, []), (60, [51])])
def test_nobody_has_to_go_for_who_would_come_too_late(spare_s: int, gone: list[int]) -> None:
    """The victim is there until its grace is over, and what is promised then is kept."""
    full, hour = node(1, gpus=1, used={51: 1}), NOW + timedelta(hours=1)
    active = (replace(idle(51), ends_by=hour),)
    first = pending(1, 1, band=Band.PRODUCTION)
    job = pending(2, 1, walltime_s=3600 - spare_s)
    policy = Policy(preempts={Band.BATCH: frozenset({Band.BEST_EFFORT})})
    asked = Snapshot((full,), (first, job), active, policy=policy)
    begins = hour + timedelta(seconds=MARGIN_S)
    window = Reservation(1, "upgrade", begins, NOW + timedelta(hours=5), frozenset({1}))
    for snapshot in (asked, replace(asked, pending=(job,), reservations=(window,))):
        assert [one.job_id for one in plan(snapshot, NOW).preempted] == gone


def test_a_plan_that_preempts_keeps_to_what_is_free() -> None:
    """What a node's CPUs are is known again after it was thought to be empty."""
    full = node(1, used={51: 1}, cpus_free=0)
    queue = (pending(1, 4), pending(2, 1, walltime_s=30))
    decided = plan(Snapshot((full,), queue, (idle(51),), policy=Policy()), NOW)
    assert [one.job_id for one in decided.preempted] == [51]
    assert not decided.starts


@given(snapshots())
def test_only_those_go_who_may_be_asked(snapshot: Snapshot) -> None:
    decided = plan(snapshot, NOW)
    waiting = {job.id: job for job in snapshot.pending}
    there = {job.id: job for job in snapshot.running}
    gone = [one.job_id for one in decided.preempted]
    assert len(gone) == len(set(gone))
    begun = {start.job_id for start in decided.starts}
    over = _beyond(oracle(snapshot), snapshot)
    for one in decided.preempted:
        victim, job = there[one.job_id], waiting[one.for_id]
        assert one.for_id not in begun
        assert not victim.leaving and victim.preemptions < snapshot.policy.max_preemptions
        assert victim.started_at is not None
        assert (NOW - victim.started_at).total_seconds() >= snapshot.policy.min_run_s
        by_band = victim.band in snapshot.policy.preempts.get(job.band, frozenset())
        line = oracle(snapshot).line(victim.project_id) if snapshot.projects else []
        lent_out = victim.band is not Band.BEST_EFFORT and over & set(line)
        assert by_band or lent_out


def _beyond(counts: Oracle, snapshot: Snapshot) -> set[int]:
    """Projects that run more than their guarantee, before or after the starts of the pass."""
    for job in snapshot.pending:
        counts.active.append(asked(job, least(snapshot, job)))
    return {
        project for project, much in counts.guarantees().items() if counts.gpus_of(project) > much
    }


@given(snapshots(most=1))
def test_as_few_as_will_do_and_never_in_vain(snapshot: Snapshot) -> None:
    """One who waits: they have to go for it, all of them, and then it starts."""
    snapshot = replace(snapshot, policy=replace(snapshot.policy, preempts=EVERY, min_run_s=0))
    gone = {one.job_id for one in plan(snapshot, NOW).preempted}
    if not gone:
        return
    job = _after_grace(snapshot.pending[0])
    empty = without(snapshot, [run.id for run in snapshot.running])
    if has_room(empty, job, oracle(empty)) is None:
        return
    leaving = {run.id for run in snapshot.running if run.leaving}
    assert not _could(without(snapshot, leaving), job)
    assert _could(without(snapshot, leaving | gone), job)
    for one in gone:
        assert not _could(without(snapshot, leaving | gone - {one}), job), "not needed"


def _could(snapshot: Snapshot, job: Pending) -> bool:
    return bool(has_room(snapshot, job, oracle(snapshot)))


def _after_grace(job: Pending) -> Pending:
    """It needs the room for so long: that those have ended who go for it."""
    return replace(job, walltime_s=job.walltime_s + round(EAGER.grace_s))


@given(snapshots(most=1))
def test_who_can_be_given_room_is(snapshot: Snapshot) -> None:
    """If all who may be asked by its band were gone, and it fits then, some are asked."""
    snapshot = replace(snapshot, policy=EAGER, quotas=(), lends=frozenset())
    decided = plan(snapshot, NOW)
    for job in (one for one in snapshot.pending if one.id in decided.estimates):
        if decided.explanations[job.id].reason.value not in ("Resources", "Priority"):
            continue
        allowed = {
            run.id
            for run in snapshot.running
            if run.band in EVERY[job.band] and not run.leaving and run.preemptions < 3
        } if job.band in EVERY else set()  # fmt: skip
        soon = [
            run.id
            for run in snapshot.running
            if run.leaving or run.ends_by <= NOW + timedelta(seconds=62)
        ]
        if startable(without(snapshot, allowed), _after_grace(job), NOW):
            assert decided.preempted or startable(without(snapshot, chain(soon, allowed)), job, NOW)


@given(snapshots(most=6) | snapshots(plain=True), seeds, st.sampled_from([1, 50]))
def test_preempting_comes_to_an_end(snapshot: Snapshot, seed: int, most: int) -> None:
    """They come one by one, the lowest bands first: whoever others make room for starts before
    they have to go for it again, and nobody has to go more often in a row than the policy says."""
    policy = replace(EAGER, max_preemptions=most)
    # For who has just come nobody has made room yet.
    new = (replace(job, claimed_at=None) for job in snapshot.pending)
    come = sorted(new, key=lambda job: (-job.band.rank, -job.id))
    stay = tuple(replace(job, leaving=False) for job in snapshot.running)
    start = replace(snapshot, pending=(), running=stay, policy=policy)
    play = Play(start, lambda job_id, limit: max(1, limit // 2))
    before = {job.id: job.preemptions for job in snapshot.running}
    # Soon after each change, and else when somebody ends.
    settle(play, come, lambda: 1, rounds=400, step_s=20)
    assert {one.for_id for one in play.preempted} <= play.started.keys()
    asked = Counter(one.job_id for one in play.preempted)
    assert all(times + before.get(job_id, 0) <= most for job_id, times in asked.items())
