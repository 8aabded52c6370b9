"""What one project lends another is taken back, and whoever borrows keeps to the rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Policy
from jobs.scheduler.snapshot import Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending
from tests.jobs.scheduler.generated import EVERY, usage
from tests.jobs.scheduler.play import Play
from tests.jobs.scheduler.test_preempt import EAGER, ago, idle

LENDING = (
    (Project(1, "lender", None), Project(2, "borrower", None), Project(3, "rich", None)),
    (Quota(1, Limits(gpus=2)), Quota(2, Limits(gpus=2))),
)
MUCH = (Quota(3, Limits(gpus=9)),)


def lent(active: list[Running], *jobs: Pending) -> Snapshot:
    full = node(1, used={run.id: 1 for run in active})
    projects, quotas = LENDING
    told = usage(list(jobs), active)
    return Snapshot(
        (full,), jobs, tuple(active), projects=projects, quotas=quotas,
        lends=frozenset({None}), quota_usage=told, policy=EAGER,
    )  # fmt: skip


def borrows(job_id: int) -> Running:
    return idle(job_id, band=Band.BATCH, project_id=2, started_at=ago(job_id))


def test_what_is_lent_is_taken_back() -> None:
    four = [borrows(number) for number in (51, 52, 53, 54)]
    asked = lent(four, pending(1, 2, project_id=1), pending(2, 1, project_id=1))
    assert {one.job_id for one in plan(asked, NOW).preempted} == {51, 52}
    beyond = lent(four, pending(1, 3, project_id=1))
    assert not plan(beyond, NOW).preempted, "it would itself run on borrowed GPUs"
    within = lent(four[:2], pending(1, 4, project_id=1))
    assert not plan(within, NOW).preempted, "nobody is beyond the guarantee"


def test_what_is_lent_is_taken_back_once() -> None:
    play = Play(lent([borrows(n) for n in (51, 52, 53, 54)], pending(1, 1, project_id=1)))
    for _ in range(4):
        play.decide()
        play.advance(play.now + timedelta(seconds=10))
    assert [one.job_id for one in play.preempted] == [51]


def later(play: Play, minutes: float, step_s: int = 30) -> None:
    """Passes by the clock, as in a lab, and not only when somebody ends."""
    until = play.now + timedelta(minutes=minutes)
    while play.now < until:
        play.advance(min(until, play.now + timedelta(seconds=step_s)))
        play.decide()


def scene(owner: int) -> Play:
    """Job 1, batch, of this project has all GPUs when job 2 comes, which would borrow them all."""
    quotas = (Quota(1, Limits(gpus=2)), Quota(2, Limits(gpus=0)))
    waits = (pending(1, 2, project_id=owner),)
    play = Play(Snapshot(
        (node(1, gpus=2),), waits, projects=LENDING[0], quotas=quotas, lends=frozenset({None}),
        quota_usage=usage(list(waits), []), policy=Policy(preempts=EVERY),
    ))  # fmt: skip
    play.decide()
    later(play, 11)
    play.submit([pending(2, 2, project_id=2, band=Band.PRODUCTION)])
    play.decide()
    return play


def test_who_borrows_gets_the_room_that_was_made_for_it() -> None:
    """Not whoever had to go: it is back in the queue, and has a right to what it asks for."""
    play = scene(owner=3)
    assert [(one.job_id, one.for_id) for one in play.preempted] == [(1, 2)]
    began = play.now
    later(play, 30)
    assert play.started[2] == began + timedelta(seconds=60)
    assert len(play.preempted) == 1


def test_nobody_borrows_by_its_band_what_others_have_a_right_to() -> None:
    play = scene(owner=1)
    later(play, 60)
    assert not play.preempted
    assert play.started[2] == NOW + timedelta(hours=1), "when the other has ended"


def test_who_had_to_go_too_often_in_a_row_is_left_alone() -> None:
    one = pending(1, 1, walltime_s=36_000, band=Band.BEST_EFFORT)
    play = Play(Snapshot((node(1, gpus=1),), (one,), policy=Policy()))
    play.decide()
    for number in range(2, 8):
        later(play, 11)
        play.submit([pending(number, 1, walltime_s=60)])
        play.decide()
    later(play, 11)
    assert [(gone.job_id, gone.for_id) for gone in play.preempted] == [(1, 2), (1, 3), (1, 4)]
    assert play.started.keys() == {1, 2, 3, 4}


def test_its_own_project_is_preempted_within_its_guarantee() -> None:
    batch = [idle(n, band=Band.BATCH, project_id=1) for n in (51, 52)]
    others = [idle(n, band=Band.BATCH, project_id=2) for n in (53, 54)]
    asked = lent([*batch, *others], pending(1, 2, project_id=1, band=Band.PRODUCTION))
    assert {one.job_id for one in plan(asked, NOW).preempted} == {51, 52}


def test_what_is_lent_is_taken_back_from_another_partition() -> None:
    four = [borrows(number) for number in (51, 52, 53, 54)]
    asked = lent(four, pending(1, 1, project_id=1, partition="other"))
    both = replace(asked, nodes=(*asked.nodes, node(2, partition="other")))
    assert [one.job_id for one in plan(both, NOW).preempted] == [51]


def test_who_borrows_keeps_to_the_limit_of_its_array() -> None:
    tasks = [
        pending(number, 3, nodes=1, project_id=2, array_id=7, array_limit=1) for number in (1, 2)
    ]
    asked = lent([], *tasks)
    two_nodes = replace(asked, nodes=(node(1), node(2)), quotas=(*LENDING[1], *MUCH))
    assert [start.job_id for start in plan(two_nodes, NOW).starts] == [1]


def test_it_is_taken_back_from_who_is_most_beyond_the_guarantee() -> None:
    """However little work is lost elsewhere; and of a project's jobs, the lowest band."""
    quotas = tuple(Quota(number, Limits(gpus=gpus)) for number, gpus in ((1, 5), (2, 4), (3, 1)))
    least = [borrows(number) for number in (40, 41, 42, 43, 44, 45)]
    most = [
        replace(borrows(51), project_id=3, band=Band.PRODUCTION, saved_at=NOW),
        replace(borrows(52), project_id=3),
        replace(borrows(53), project_id=3),
        replace(borrows(54), project_id=3),
    ]
    active = [*least, *most]
    asked = lent(active, pending(1, 1, project_id=1))
    full = node(1, gpus=len(active), used={run.id: 1 for run in active})
    asked = replace(asked, nodes=(full,), quotas=quotas)
    assert [one.job_id for one in plan(asked, NOW).preempted] == [52]
    two = replace(asked, pending=(pending(1, 4, project_id=1),))
    assert {one.job_id for one in plan(two, NOW).preempted} == {52, 53, 54, 40}
