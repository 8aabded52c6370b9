"""A job that can start only when it could no longer end before its deadline: it is promised
nothing, nobody is kept back or stopped for it, and its owner is told."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given

from jobs.bands import Band
from jobs.scheduler.decide import VAIN
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.pool import Pool
from jobs.scheduler.rank import ranked
from jobs.scheduler.shape import Promise
from jobs.scheduler.snapshot import Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN, snapshots
from tests.jobs.scheduler.play import promised

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
HALF = (node(1, used={50: 2}),)
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
LONG = {"walltime_s": 36_000}
SHORT = {"walltime_s": 1800}
TOO_LATE = (
    "It has to start by 13:00 UTC to end before its deadline, and as far as is known it cannot."
)


def by_two(job_id: int = 1, gpus: int = 4) -> Pending:
    """An hour, that has to end by 14:00."""
    return pending(job_id, gpus, deadline_at=NOW + 2 * HOUR)


def asked(minutes: int, *queue: Pending, **more: object) -> Snapshot:
    """Half of the node is free, the other half in so many minutes at the latest."""
    active = replace(running(50, minutes, 1), **more)
    return Snapshot(HALF, queue, (active,), policy=IN_ORDER)


def bound(backfill: Backfill, reservations: int, *queue: Pending) -> Snapshot:
    """The same for five hours, with another policy."""
    policy = replace(IN_ORDER, backfill=backfill, reservations=reservations)
    return replace(asked(300, *queue), policy=policy)


def test_nobody_is_kept_back_for_who_would_come_too_late() -> None:
    late = asked(300, by_two(), pending(2, 2, walltime_s=36_000))
    found = plan(late, NOW)
    assert promised(late, NOW) == {}
    assert [start.job_id for start in found.starts] == [2]
    assert found.estimates.keys() == set()
    assert found.explanations[1].detail == "Needs 4 GPUs on one node; none is free."
    assert found.explanations[1].more == (TOO_LATE,)


@pytest.mark.parametrize("backfill", [Backfill.RESERVING, Backfill.EASY])
@pytest.mark.parametrize(("doomed", "reservations"), [(1, 1), (15, 16), (16, 16), (200, 16)])
def test_they_leave_the_promises_to_others(
    doomed: int, reservations: int, backfill: Backfill
) -> None:
    """However many of them there are, and whatever time limits they have."""
    late = [
        pending(number, 4, walltime_s=7200 - 30 * number, deadline_at=NOW + 3 * HOUR)
        for number in range(1, doomed + 1)
    ]
    snapshot = bound(backfill, reservations, *late, pending(500, 4), pending(501, 2, **LONG))
    assert promised(snapshot, NOW)[500] == (NOW + 5 * HOUR).timestamp()
    assert not plan(snapshot, NOW).starts


@pytest.mark.parametrize("backfill", [Backfill.RESERVING, Backfill.EASY])
@pytest.mark.parametrize("doomed", [1, 15, 16, 200])
def test_nor_do_those_count_who_are_late_by_what_is_promised(
    doomed: int, backfill: Backfill
) -> None:
    """At 17:00 the first starts; they could do so then, but for that."""
    late = [
        pending(number, 4, walltime_s=7200 - 30 * number, deadline_at=NOW + 7.2 * HOUR)
        for number in range(2, doomed + 2)
    ]
    queue = (pending(1, 4, walltime_s=7200), *late, pending(500, 4), pending(501, 2, **LONG))
    given_at = promised(bound(backfill, 2, *queue), NOW)
    assert given_at == {1: (NOW + 5 * HOUR).timestamp(), 500: (NOW + 7 * HOUR).timestamp()}


@pytest.mark.parametrize("doomed", [1, 15, 16, 200])
@pytest.mark.parametrize("backfill", Backfill)
def test_nobody_is_kept_back_by_them(doomed: int, backfill: Backfill) -> None:
    late = [by_two(number) for number in range(1, doomed + 1)]
    found = plan(bound(backfill, 1, *late, pending(500, 2, **LONG)), NOW)
    assert [start.job_id for start in found.starts] == [500]


def test_who_fits_now_but_for_a_promise_to_another_is_promised_the_time_behind_it() -> None:
    second = pending(2, 2, walltime_s=7200, deadline_at=NOW + 5 * HOUR)
    snapshot = bound(Backfill.RESERVING, 2, pending(1, 4), second)
    snapshot = replace(snapshot, running=(running(50, 60, 1),))
    assert promised(snapshot, NOW)[2] == (NOW + 2 * HOUR).timestamp()


def test_who_is_promised_a_time_before_its_deadline_is_not_told_that_it_is_too_late() -> None:
    """Job 3 fits now, but is not to be in its way."""
    nodes = (node(1, used={50: 4}), node(2, used={51: 3}))
    second = pending(2, 4, deadline_at=NOW + 3.1 * HOUR)
    queue = (pending(1, 4, walltime_s=36_000), second, pending(3, 1, walltime_s=18_000))
    active = (running(50, 60, 1), running(51, 120, 2))
    found = plan(Snapshot(nodes, queue, active, policy=IN_ORDER), NOW)
    assert found.estimates[2].at == NOW + 2 * HOUR
    assert "cannot" not in found.explanations[2].more[-1]


def test_where_nobody_may_pass_who_can_start_in_time_is_not_passed() -> None:
    early = asked(60, by_two(), pending(2, 2))
    none = replace(early, policy=replace(IN_ORDER, backfill=Backfill.NONE))
    assert not plan(none, NOW).starts


@pytest.mark.parametrize("backfill", Backfill)
def test_others_still_have_to_go_for_who_comes_behind_them(backfill: Backfill) -> None:
    """With one promise."""
    policy = Policy(order=Order.SUBMISSION, backfill=backfill, reservations=1)
    idle = Running(
        51, NOW + 5 * HOUR, (1,), band=Band.BEST_EFFORT, gpus=2, started_at=NOW - 3 * HOUR
    )
    nodes = (node(1, used={50: 2, 51: 2}),)
    queue = (by_two(1), pending(2, 2))
    found = plan(Snapshot(nodes, queue, (running(50, 300, 1), idle), policy=policy), NOW)
    assert [(one.job_id, one.for_id) for one in found.preempted] == [(51, 2)]


def test_a_place_is_searched_for_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """For none that is late by who runs, and else for a number that does not grow with theirs."""
    searched: list[int] = []
    foresee = Pool.foresee

    def counted(pool: Pool, job_id: int, *asked: Any) -> Promise | None:
        searched.append(job_id)
        return foresee(pool, job_id, *asked)

    monkeypatch.setattr(Pool, "foresee", counted)
    queue = [by_two(number) for number in range(1, 1000)]
    promised(bound(Backfill.RESERVING, 16, *queue), NOW)
    assert searched == []
    equal = [pending(n, 4, deadline_at=NOW + 5.5 * HOUR, **SHORT) for n in range(2, 1000)]
    promised(bound(Backfill.RESERVING, 16, pending(1, 4), *equal), NOW)
    assert searched == [1, 2]
    other = [replace(job, walltime_s=1801 - job.id) for job in equal]
    promised(bound(Backfill.RESERVING, 16, pending(1, 4, **LONG), *other), NOW)
    assert len(searched) == 2 + 1 + VAIN


def test_who_can_start_in_time_is_promised_that() -> None:
    early = asked(60, by_two(), pending(2, 2, walltime_s=36_000))
    found = plan(early, NOW)
    assert promised(early, NOW)[1] == (NOW + HOUR).timestamp()
    assert not found.starts
    assert found.estimates[1].late == NOW + HOUR
    assert found.explanations[1].more == (
        "It has to start by 13:00 UTC to end before its deadline.",
    )


def test_who_may_come_in_time_is_told_the_last_moment() -> None:
    """By history the other is gone in half an hour, by its time limit only in five."""
    likely = asked(300, by_two(), expected_end=NOW + HOUR / 2, early_end=NOW + HOUR / 4)
    found = plan(likely, NOW)
    assert promised(likely, NOW) == {}
    one = found.estimates[1]
    assert (one.early, one.at, one.late) == (NOW + HOUR / 4, NOW + HOUR / 2, NOW + HOUR)
    assert found.explanations[1].more == (
        "It has to start by 13:00 UTC to end before its deadline.",
    )


def test_whoever_is_behind_is_not_expected_to_wait_for_it() -> None:
    after = asked(300, by_two(), pending(2, 4), pending(3, 4))
    found = plan(after, NOW).estimates
    assert {job_id: one.at for job_id, one in found.items()} == {
        2: NOW + 5 * HOUR,
        3: NOW + 6 * HOUR,
    }


def test_none_is_expected_to_pass_others_after_its_time() -> None:
    """At 14:00 there is room for two hours before the first, but by 13:00 there was none."""
    nodes = (node(1, used={50: 2, 51: 2}),)
    active = (running(50, 120, 1), running(51, 240, 1))
    queue = (pending(1, 4), pending(2, 2, walltime_s=36_000), by_two(3, 2), pending(4, 2))
    found = plan(Snapshot(nodes, queue, active, policy=IN_ORDER), NOW)
    assert {job_id: one.at for job_id, one in found.estimates.items()} == {
        1: NOW + 4 * HOUR, 2: NOW + 5 * HOUR, 4: NOW + 2 * HOUR
    }  # fmt: skip
    assert found.explanations[3].more == (TOO_LATE,)


def test_until_when_it_can_start_is_told_whatever_it_waits_for() -> None:
    held = replace(by_two(), held=True)
    assert plan(asked(60, held), NOW).explanations[1].more == (
        "It has to start by 13:00 UTC to end before its deadline.",
    )


@pytest.mark.parametrize(("spare_s", "gone"), [(59, []), (60, [50])])
def test_nobody_has_to_go_for_who_would_miss_the_deadline_meanwhile(
    spare_s: int, gone: list[int]
) -> None:
    """The victim is there until its grace of a minute is over."""
    idle = Running(
        50, NOW + 5 * HOUR, (1,), band=Band.BEST_EFFORT, gpus=2, started_at=NOW - 3 * HOUR
    )
    job = pending(1, 4, deadline_at=NOW + HOUR + timedelta(seconds=spare_s))
    found = plan(Snapshot(HALF, (job,), (idle,), policy=Policy()), NOW)
    assert [one.job_id for one in found.preempted] == gone
    assert found.estimates.keys() == ({1} if gone else set())


@given(snapshots())
def test_no_promise_and_no_estimate_is_later_than_it_can_start(snapshot: Snapshot) -> None:
    """Who has a promise has an estimate, but for those whose place somebody is expected to take who
    is promised nothing; of the others those are told who have none."""
    # Who comes back after making room is told to nobody, but may be the one who takes it.
    active = tuple(replace(job, again=None) for job in snapshot.running)
    snapshot = replace(snapshot, running=active)
    found, given_at = plan(snapshot, NOW), promised(snapshot, NOW)
    order = [job.id for job in ranked(snapshot, NOW)]
    for job in snapshot.pending:
        assert given_at.get(job.id, 0.0) <= job.starts_by
        if job.id in found.estimates:
            assert found.estimates[job.id].late.timestamp() <= job.starts_by
        if job.id in given_at:
            before = [one for one in order[: order.index(job.id)] if one not in given_at]
            others = [found.estimates[one].at for one in before if one in found.estimates]
            first = min((at.timestamp() for at in others), default=math.inf)
            assert job.id in found.estimates or first <= given_at[job.id]
        if job.id in found.explanations:
            told = found.explanations[job.id].more[-1:]
            assert bool(told and "deadline" in told[0]) == (job.deadline_at is not None)


@given(snapshots(plain=True))
def test_a_deadline_by_which_all_have_ended_changes_nothing(snapshot: Snapshot) -> None:
    # Nobody comes back to the queue who was told to stop.
    snapshot = replace(
        snapshot, running=tuple(replace(job, again=None) for job in snapshot.running)
    )
    last = max((job.ends_by for job in snapshot.running), default=NOW)
    end = max(last, NOW) + sum((job.walltime_s + 2) for job in snapshot.pending) * SECOND
    queue = tuple(replace(job, deadline_at=end) for job in snapshot.pending)
    without, bound = plan(snapshot, NOW), plan(replace(snapshot, pending=queue), NOW)
    assert (bound.starts, bound.estimates) == (without.starts, without.estimates)
