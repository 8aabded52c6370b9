"""A running job makes room for another: what is written down, and what becomes of it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import transaction

from jobs.bands import Band
from jobs.lifecycle import Reason, State
from jobs.scheduler.policy import Policy
from jobs.scheduler.preempt import LONG_RUN_S
from portal.actions import cancel, hold, preempt, requeue, settle
from portal.models import Allocation, Attempt, Checkpoint, Event, Job, Lease, Node, Project, User
from tests.portal import cast
from tests.portal.cast import NOW
from tests.portal.killed import at_every_line

POLICY = Policy(grace_s=45.5)
LATER = NOW + timedelta(seconds=20)


@pytest.fixture
def victim(alice: User, project: Project, node: Node) -> Job:
    job = cast.job(alice, project, state=State.RUNNING, gpus=2, band=Band.BEST_EFFORT)
    Job.objects.filter(pk=job.pk).update(started_at=NOW - timedelta(hours=3))
    cast.run(job, node, 0, 1)
    Allocation.objects.update(started_at=NOW - timedelta(hours=3))
    return fresh(job)


@pytest.fixture
def other(bob: User, project: Project) -> Job:
    return cast.job(bob, project, gpus=2, band=Band.PRODUCTION)


def fresh(job: Job) -> Job:
    job.refresh_from_db()
    return job


@transaction.atomic
def make_room(victim: Job, other: Job, now: datetime = NOW) -> list[int]:
    return preempt.preempt({victim.pk: other.pk}, policy=POLICY, now=now)


@transaction.atomic
def ends(
    job: Job, cause: str = "stopped", exit_code: int | None = None, signal: int | None = None,
    *, rank: int = 0, now: datetime = LATER, message: str = "",
) -> None:  # fmt: skip
    """As a look at its node would write it down."""
    jobs = settle.lock([job.pk])
    parts = Allocation.objects.filter(attempt__job=job, attempt__ended_at=None, rank=rank)
    parts.update(
        phase=Allocation.Phase.ENDED, ended_at=now, cause=cause, exit_code=exit_code,
        signal=signal, message=message,
    )  # fmt: skip
    settle.settle_locked(jobs=jobs, now=now)


def saved(job: Job, step: int | None, minutes: int, *, complete: bool = True) -> Checkpoint:
    attempt = job.attempts.order_by("number").last()
    name = "last.pt" if step is None else f"step_{step}.pt"
    return Checkpoint.objects.create(
        job=job, attempt=attempt, node=Node.objects.get(name="gpu-1"), name=name,
        path=f"/ckpt/{name}", step=step, size_bytes=1, complete=complete,
        modified_at=NOW - timedelta(minutes=minutes),
    )  # fmt: skip


def open_leases() -> int:
    return Lease.objects.filter(released_at=None).count()


def test_it_is_told_to_stop_and_for_whom(victim: Job, other: Job) -> None:
    assert make_room(victim, other) == [victim.pk]
    assert (fresh(victim).state, victim.reason) == (State.COMPLETING, Reason.PREEMPTED)
    who = f"job {other.pk} (production)"
    assert victim.detail == f"Makes room for {who}: it gets SIGTERM and 46 s to end."
    part = Allocation.objects.get()
    assert (part.stop_wanted_at, part.stop_signal, part.stop_grace_s) == (NOW, 15, 46)
    attempt = Attempt.objects.get()
    assert (attempt.preemptor, attempt.preempted_by) == (other, who)
    assert attempt.leaves_by == NOW + timedelta(seconds=46)
    assert fresh(other).claimed_at == NOW
    assert open_leases() == 2
    told = Event.objects.get(job=other)
    assert (told.kind, told.detail) == ("preempts", f"Job {victim.pk} makes room.")
    # Once is enough.
    assert make_room(victim, other, LATER) == []


def test_it_gets_the_signal_it_asked_to_be_warned_with(victim: Job, other: Job) -> None:
    warned = victim.spec | {"warning": {"number": 10, "before_s": 120}}
    Job.objects.filter(pk=victim.pk).update(spec=warned)
    make_room(victim, other)
    assert Allocation.objects.get().stop_signal == 10
    assert "SIGUSR1" in fresh(victim).detail


def test_what_was_lent_is_taken_back_in_these_words(victim: Job, other: Job) -> None:
    Job.objects.update(band=Band.BATCH)
    make_room(victim, other)
    words = f"job {other.pk} (what was lent goes back to project vision)"
    assert Attempt.objects.get().preempted_by == words


def _cancel(job: Job, actor: User) -> None:
    assert cancel.cancel(job=job, actor=actor, now=NOW)


@pytest.mark.parametrize("gone", ["victim cancelled", "victim ended", "cancelled", "held"])
def test_nobody_is_told_what_no_longer_holds(
    victim: Job, other: Job, alice: User, gone: str
) -> None:
    match gone:
        case "victim cancelled":
            _cancel(victim, alice)
        case "victim ended":
            ends(victim, "exited", 0)
        case "cancelled":
            _cancel(other, alice)
        case "held":
            assert hold.hold(job=other, actor=alice, now=NOW)
    before = Job.objects.values_list("state", "reason", "detail")
    was = list(before)
    assert make_room(victim, other) == []
    assert list(before.all()) == was
    assert fresh(other).claimed_at is None
    assert Allocation.objects.get().stop_signal is None


def test_it_comes_back_and_resumes(victim: Job, other: Job) -> None:
    saved(victim, 1100, 9)
    newest = saved(victim, 1200, 3)
    saved(victim, 1300, 1, complete=False)
    make_room(victim, other)
    ends(victim, signal=15)
    assert (fresh(victim).state, victim.reason) == (State.PENDING, Reason.PREEMPTED)
    why = f"Preempted by job {other.pk} (production) after 3 h. It resumes from step 1200: "
    why += "step 1300 was cut off while it was being written."
    attempt = Attempt.objects.get()
    assert (attempt.outcome, attempt.detail, attempt.ended_at) == (State.PREEMPTED, why, LATER)
    assert (victim.detail, victim.resume_from) == (why, newest.path)
    assert (victim.preemptions, victim.started_at, victim.ended_at) == (1, None, None)
    assert (victim.exit_code, victim.signal) == (None, None)
    assert open_leases() == 0
    states = list(Event.objects.filter(job=victim).values_list("new", "reason"))
    assert states == [("COMPLETING", "Preempted"), ("PENDING", "Preempted")]


@pytest.mark.parametrize(
    ("before", "checkpoint", "words", "path"),
    [
        ("", False, "no complete checkpoint and starts again from the beginning.", ""),
        ("/old", False, "and starts again from the checkpoint it was given.", "/old"),
        ("/old", True, "It resumes from last.pt.", "/ckpt/last.pt"),
    ],
)
def test_where_it_goes_on_is_told(
    victim: Job, other: Job, before: str, checkpoint: bool, words: str, path: str
) -> None:
    Job.objects.filter(pk=victim.pk).update(resume_from=before)
    if checkpoint:
        saved(victim, None, 3)
    make_room(victim, other)
    ends(victim, signal=9)
    assert fresh(victim).resume_from == path
    assert victim.detail.endswith(words)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (400, "It resumes from step 400: step 500 is not whole: a is empty."),
        (600, "It resumes from step 600."),
    ],
)
def test_why_not_from_a_later_one(victim: Job, other: Job, step: int, words: str) -> None:
    saved(victim, step, 1000 - step)
    half = saved(victim, 500, 500, complete=False)
    Checkpoint.objects.filter(pk=half.pk).update(problem="a is empty")
    make_room(victim, other)
    ends(victim, signal=9)
    assert fresh(victim).detail.endswith(words)


def test_who_asked_not_to_be_started_again_is_preempted_for_good(victim: Job, other: Job) -> None:
    Job.objects.filter(pk=victim.pk).update(spec=victim.spec | {"requeue": False})
    make_room(victim, other)
    ends(victim, signal=15)
    assert (fresh(victim).state, victim.reason, victim.signal) == ("PREEMPTED", "Preempted", 15)
    assert (victim.ended_at, victim.preemptions, victim.resume_from) == (LATER, 0, "")
    assert victim.detail.endswith("It had asked not to be started again.")
    assert Attempt.objects.get().detail == victim.detail


@pytest.mark.parametrize(
    ("end", "state", "words"),
    [
        (("stopped", 0), State.COMPLETED, "and ended well."),
        (("exited", 0), State.COMPLETED, ""),
        (("exited", 3), State.FAILED, "It ended with exit code 3."),
        (("memory", None, 9), State.OUT_OF_MEMORY, "used more memory than it had asked for."),
        (("walltime", None, 9), State.TIMEOUT, "Its walltime was over."),
    ],
)
def test_an_end_of_its_own_is_not_the_preemptors(
    victim: Job, other: Job, end: tuple[object, ...], state: State, words: str
) -> None:
    make_room(victim, other)
    ends(victim, *end)
    assert fresh(victim).state == state
    assert victim.detail.endswith(words)
    assert (victim.preemptions, open_leases()) == (0, 0)


def test_a_cancellation_meanwhile_wins(victim: Job, other: Job, alice: User) -> None:
    make_room(victim, other)
    Allocation.objects.update(stop_sent_at=NOW)
    _cancel(victim, alice)
    part = Allocation.objects.get()
    # It is told anew, as anybody else who is cancelled; but once.
    assert (part.stop_signal, part.stop_grace_s, part.stop_sent_at) == (None, None, None)
    assert (fresh(victim).state, victim.reason) == (State.COMPLETING, Reason.CANCELLED_BY_USER)
    assert "alice" in victim.detail
    Allocation.objects.update(stop_sent_at=LATER)
    settle.settle(attempt=Attempt.objects.get(), now=LATER)
    assert Allocation.objects.get().stop_sent_at == LATER
    ends(victim, signal=15)
    assert (fresh(victim).state, victim.detail) == (State.CANCELLED, "Cancelled by alice.")
    assert Attempt.objects.get().outcome == State.CANCELLED


def test_a_gang_is_gone_everywhere_before_it_waits_again(
    victim: Job, other: Job, node: Node
) -> None:
    second = cast.node("gpu-2")
    first = Allocation.objects.get()
    part = Allocation.objects.create(
        attempt=first.attempt, node=second, rank=1, key="second", cpus=4, memory_mib=0,
        phase=Allocation.Phase.RUNNING, started_at=first.started_at, charged_until=NOW,
    )  # fmt: skip
    Lease.objects.create(gpu=second.gpus.get(index=0), allocation=part)
    make_room(victim, other)
    assert set(Allocation.objects.values_list("stop_grace_s", flat=True)) == {46}
    ends(victim, signal=15)
    assert (fresh(victim).state, victim.reason) == (State.COMPLETING, Reason.PREEMPTED)
    assert open_leases() == 3
    # It was lost without the other, before it heard of it itself.
    ends(victim, "exited", 1, rank=1, now=LATER + timedelta(seconds=1))
    assert (fresh(victim).state, victim.preemptions, open_leases()) == (State.PENDING, 1, 0)


def test_preemptions_count_in_a_row(victim: Job, other: Job) -> None:
    Job.objects.filter(pk=victim.pk).update(preemptions=2)
    make_room(victim, other)
    ends(victim, signal=15)
    assert fresh(victim).preemptions == 3


def test_a_long_run_ends_the_row(victim: Job, other: Job) -> None:
    Job.objects.filter(pk=victim.pk).update(preemptions=2)
    Allocation.objects.update(started_at=NOW - timedelta(seconds=LONG_RUN_S))
    make_room(victim, other)
    ends(victim, signal=15)
    assert fresh(victim).preemptions == 1


def test_what_it_ran_before_does_not_count_as_failed_launches(victim: Job, other: Job) -> None:
    for _ in range(settle.MAX_LAUNCH_TRIES - 1):
        make_room(victim, other)
        ends(victim, signal=15)
        cast.run(victim, Node.objects.get())
        Job.objects.filter(pk=victim.pk).update(state=State.RUNNING, started_at=NOW)
    Job.objects.filter(pk=victim.pk).update(state=State.CONFIGURING, started_at=None)
    attempt = victim.attempts.get(ended_at=None)
    attempt.allocations.update(phase=Allocation.Phase.VOID, message="n1 was away.")
    settle.settle(attempt=attempt, now=LATER)
    assert attempt.number == settle.MAX_LAUNCH_TRIES
    assert (fresh(victim).state, victim.held) == (State.PENDING, False)


def test_a_claim_ends_with_the_wait(victim: Job, other: Job) -> None:
    make_room(victim, other)
    fresh(other).move(State.CONFIGURING, now=LATER)
    assert fresh(other).claimed_at is None


def test_a_hold_ends_a_claim(victim: Job, other: Job, alice: User) -> None:
    make_room(victim, other)
    assert hold.hold(job=other, actor=alice, now=LATER)
    assert fresh(other).claimed_at is None


def test_a_claim_is_not_for_ever(victim: Job, other: Job) -> None:
    make_room(victim, other)
    due = NOW + timedelta(seconds=46) + preempt.CLAIM_LASTS
    assert preempt.drop_claims(now=due - timedelta(seconds=1)) == 0
    assert preempt.drop_claims(now=due) == 1
    assert fresh(other).claimed_at is None
    (told,) = Event.objects.filter(job=other, kind="claim dropped")
    assert told.detail.startswith("It did not take the room made for it within 10 min")
    assert preempt.drop_claims(now=due) == 0


def test_killed_at_any_line_it_has_done_all_or_nothing(victim: Job, other: Job) -> None:
    for kill in at_every_line(lambda: make_room(victim, other), preempt):
        assert (fresh(victim).state, fresh(other).claimed_at) == (State.RUNNING, None)
        assert not Event.objects.exists(), kill
        assert Allocation.objects.get().stop_wanted_at is None
    assert kill > 5
    assert fresh(victim).state == State.COMPLETING
    for kill in at_every_line(lambda: ends(victim, signal=15), settle, requeue):
        assert (fresh(victim).state, open_leases()) == (State.COMPLETING, 2)
        assert (victim.preemptions, Attempt.objects.get().ended_at) == (0, None), kill
    assert kill > 5
    assert (fresh(victim).state, victim.preemptions, open_leases()) == (State.PENDING, 1, 0)
