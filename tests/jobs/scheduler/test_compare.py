"""What a change would make of the queue: two plans side by side."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

from jobs.bands import Band
from jobs.scheduler.compare import Difference, First, Moved, compare
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota, Usage
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.snapshot import Preempted, Running, Snapshot
from tests.jobs.scheduler.clusters import A100, H100, NOW, node, pending

HOUR = timedelta(hours=1)
NOTHING = Difference((), (), (), (), (), (), (), ())


def ran(job_id: int, minutes: int, band: Band, **more: object) -> Running:
    """On all GPUs of node 1, so long already, and for three hours from now at most."""
    began = NOW - timedelta(minutes=minutes)
    return Running(job_id, NOW + 3 * HOUR, (1,), band=band, gpus=4.0, started_at=began, **more)  # type: ignore[arg-type]


def under(snapshot: Snapshot, **policy: object) -> Snapshot:
    return replace(snapshot, policy=Policy(**policy))  # type: ignore[arg-type]


def test_the_same_makes_no_difference() -> None:
    present = Snapshot((node(1),), (pending(1, 4), pending(2, 2)))
    assert compare(present, present, NOW) == NOTHING


def test_another_order_puts_another_job_first() -> None:
    long, short = pending(12, 4, walltime_s=7200), pending(17, 4, walltime_s=3600)
    free = under(Snapshot((node(1),), (long, short)), order=Order.SUBMISSION)
    found = compare(free, under(free, order=Order.SHORTEST), NOW)
    assert found.first == (First("gpu", before=12, after=17),)
    assert (found.starting, found.kept_waiting) == ((17,), (12,))
    late = replace(ran(9, 60, Band.BATCH), ends_by=NOW - HOUR)
    stuck = replace(free, nodes=(node(1, used={9: 4}),), running=(late,))
    found = compare(stuck, under(stuck, order=Order.SHORTEST), NOW)
    assert found.first == (First("gpu", before=12, after=17),), "though nobody can tell when"
    busy = replace(stuck, running=(ran(9, 60, Band.BATCH),))
    found = compare(busy, under(busy, order=Order.SHORTEST), NOW)
    assert (found.starting, found.kept_waiting) == ((), ())
    # 12 then 17: at 3 h and 5 h; 17 then 12: at 3 h and 4 h.
    assert found.moved == (
        Moved(17, NOW + 5 * HOUR, NOW + 3 * HOUR),
        Moved(12, NOW + 3 * HOUR, NOW + 4 * HOUR),
    )


def test_who_has_no_turn_is_not_first() -> None:
    waiting = (
        pending(1, 1, walltime_s=60, held=True),
        pending(2, 1, walltime_s=60, begin_at=NOW + HOUR),
        pending(3, 9, walltime_s=60),
        pending(4, 4, walltime_s=7200),
        pending(5, 4, walltime_s=3600),
    )
    asked = under(Snapshot((node(1),), waiting), order=Order.SUBMISSION)
    found = compare(asked, under(asked, order=Order.SHORTEST), NOW)
    assert found.first == (First("gpu", before=4, after=5),)


def test_bands_that_may_preempt_expose_those_who_run() -> None:
    """One has run for long enough, one has just begun, one was preempted three times."""
    jobs = (ran(1, 60, Band.BATCH), ran(2, 5, Band.BATCH), ran(3, 60, Band.BATCH, preemptions=3))
    nodes = tuple(node(number, used={number: 4}) for number in (1, 2, 3))
    there = tuple(replace(job, node_ids=(job.id,)) for job in jobs)
    urgent = pending(7, 4, band=Band.PRODUCTION)
    usual = Snapshot(nodes, (urgent,), there)
    strict = under(usual, preempts={Band.PRODUCTION: frozenset({Band.BATCH})})
    found = compare(usual, strict, NOW)
    assert (found.exposed, found.safe) == ((1,), ())
    assert found.preempted == (Preempted(1, 7),)
    back = compare(strict, usual, NOW)
    assert (back.exposed, back.safe, back.preempted) == ((), (1,), ())
    soon = under(usual, preempts=strict.policy.preempts, min_run_s=0.0, max_preemptions=9)
    assert compare(usual, soon, NOW).exposed == (1, 2, 3)


def test_more_room_starts_more() -> None:
    waiting = (pending(1, 4), pending(2, 4))
    small, large = Snapshot((node(1),), waiting), Snapshot((node(1), node(2)), waiting)
    assert compare(small, large, NOW).starting == (2,)
    assert compare(large, small, NOW).kept_waiting == (2,)


def test_who_loses_the_expected_start_is_told_why_and_who_gets_one_is_told_when() -> None:
    """Two nodes of the model are needed, of which a quota leaves one."""
    names = (A100, H100)
    nodes = (node(1, used={9: 4}), node(2, model=H100))
    projects, runs = (Project(0, "vision", None),), (ran(9, 60, Band.BATCH),)
    usual = Snapshot(
        nodes, (pending(1, 4, nodes=2), pending(2, 1)), runs, projects, quota_usage=Usage(NOW)
    )
    free, narrow = (
        replace(usual, quotas=(Quota(0, Limits(gpu_models=frozenset(models))),))
        for models in (names, (H100,))
    )
    found = compare(free, narrow, NOW)
    assert [one.job_id for one in found.lost] == [1]
    assert found.lost[0].why.startswith(f"Its quotas allow GPUs of these models only: {H100};")
    back = compare(narrow, free, NOW)
    assert (back.moved, back.lost) == ((Moved(1, None, NOW + 3 * HOUR),), ())
    shut = compare(free, replace(free, quotas=(Quota(0, Limits(gpu_models=frozenset())),)), NOW)
    assert [one.job_id for one in shut.lost] == [1, 2], "also who would start now"
    assert shut.kept_waiting == ()


def test_the_order_of_the_input_changes_nothing() -> None:
    rng = random.Random(3)
    waiting = [pending(number, rng.choice((1, 2, 4)), walltime_s=600 * number)
               for number in range(1, 20)]  # fmt: skip
    nodes = [node(number) for number in range(1, 4)]
    found = set()
    for _ in range(5):
        rng.shuffle(waiting)
        rng.shuffle(nodes)
        present = Snapshot(tuple(nodes), tuple(waiting))
        found.add(compare(present, under(present, order=Order.SHORTEST), NOW))
    assert len(found) == 1
    assert found != {NOTHING}
