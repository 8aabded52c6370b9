"""The cluster as the scheduler is told of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.snapshot import DependencyState
from jobs.spec import Dependency, DependencyKind, JobSpec
from portal.actions.schedule import schedule
from portal.models import Attempt, Job, Lease, Node, Project, Reservation, User
from portal.queries import dependencies, pass_rows, snapshot, window
from tests.portal import cast

DAY = timedelta(days=1)


def test_held_jobs_do_not_keep_others_out_of_sight(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 2)
    for _ in range(3):
        cast.job(alice, project, held=True)
    able = cast.job(alice, project)
    Job.objects.update(spec={"name": "train", "resources": {}})
    assert able.pk in [job.id for job in snapshot.take(cast.NOW).pending]


def test_of_too_many_the_highest_bands_are_looked_at_and_the_next_tasks_of_an_array(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 6)
    monkeypatch.setattr(window, "SPARE", 1)
    tasks = cast.array(alice, project, *[State.PENDING] * 9, submitted_at=cast.NOW - DAY)
    limited = {"name": "train", "array": {"indices": list(range(1, 10)), "limit": 1}}
    Job.objects.update(spec=limited)
    behind = [cast.job(alice, project, submitted_at=cast.NOW) for _ in range(2)]
    urgent = cast.job(alice, project, band=Band.PRODUCTION, submitted_at=cast.NOW)
    cast.job(alice, project, band=Band.BEST_EFFORT, submitted_at=cast.NOW - 2 * DAY)
    claimed = cast.job(
        alice, project, band=Band.BEST_EFFORT, claimed_at=cast.NOW, submitted_at=cast.NOW
    )
    found = {job.id for job in snapshot.take(cast.NOW).pending}
    assert found == {job.pk for job in (*tasks[:2], *behind, urgent, claimed)}


def test_of_too_many_everybodys_first_are_looked_at_before_anybodys_second(
    alice: User, bob: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 4)
    many = [cast.job(alice, project, submitted_at=cast.NOW - 2 * DAY) for _ in range(9)]
    late = [cast.job(bob, project, submitted_at=cast.NOW) for _ in range(2)]
    Job.objects.update(spec={"name": "train", "resources": {}})
    found = {job.id for job in snapshot.take(cast.NOW).pending}
    assert found == {job.pk for job in (*many[:2], *late)}


def test_of_an_array_without_a_limit_as_many_as_of_other_jobs(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pass_rows, "MAX_PENDING", 3)
    monkeypatch.setattr(window, "SPARE", 1)
    tasks = cast.array(alice, project, *[State.PENDING] * 4)
    Job.objects.update(spec={"name": "train", "array": {"indices": [1, 2, 3, 4], "limit": None}})
    found = {job.id for job in snapshot.take(cast.NOW).pending}
    assert found == {job.pk for job in tasks[:3]}


def test_a_job_about_to_start_has_its_walltime_before_it(
    alice: User, project: Project, node: Node
) -> None:
    waited = cast.job(
        alice, project, state=State.CONFIGURING, started_at=None,
        submitted_at=cast.NOW - timedelta(days=2),
    )  # fmt: skip
    cast.run(waited, node, 0)
    Attempt.objects.update(started_at=cast.NOW)
    (running,) = snapshot.take(cast.NOW).running
    assert running.ends_by == cast.NOW + timedelta(seconds=waited.walltime_s)


def test_how_long_a_job_waited_is_known_while_it_runs(
    alice: User, project: Project, node: Node
) -> None:
    """What says that it has had the turn of who waited for too long."""
    cast.job(alice, project, gpus=1, submitted_at=cast.NOW - 20 * DAY)
    schedule(now=cast.NOW)
    (running,) = snapshot.take(cast.NOW + DAY).running
    assert running.waited_s == (20 * DAY).total_seconds()


def test_of_several_dependencies_those_that_failed_are_what_it_waits_for_in_vain(
    alice: User, project: Project
) -> None:
    failed = cast.job(alice, project, state=State.FAILED)
    well = cast.job(alice, project, state=State.COMPLETED)
    waiting = cast.array(alice, project, State.PENDING)[0]
    job = cast.job(alice, project)
    waits = [{"kind": "afterok", "job_id": other.pk} for other in (failed, well, waiting)]
    Job.objects.filter(pk=job.pk).update(spec={"name": "train", "dependencies": waits})
    taken = {pending.id: pending for pending in snapshot.take(cast.NOW).pending}
    assert taken[job.pk].waits_for == (failed.pk,)
    assert taken[job.pk].waits_besides == (waiting.pk,)
    assert (taken[job.pk].label, taken[waiting.pk].label) == (str(job.pk), f"{waiting.pk}_1")


def test_who_waits_for_its_like_waits_for_the_last_that_does_so(
    alice: User, bob: User, project: Project
) -> None:
    """As that one waits for the rest: a thousand of them are not half a million waits."""
    alone = {"name": "train", "dependencies": [{"kind": "singleton", "job_id": None}]}
    runs = cast.job(alice, project, state=State.RUNNING)
    second = cast.job(alice, project, spec=alone)
    cast.job(bob, project)
    third = cast.job(alice, project, spec=alone)
    cast.job(alice, project, state=State.COMPLETED)
    other = cast.job(alice, project)
    last = cast.job(alice, project, spec=alone)
    free = cast.job(bob, project, name="fit", spec=alone | {"name": "fit"})
    taken = {pending.id: pending for pending in snapshot.take(cast.NOW).pending}
    waits = {job.pk: taken[job.pk].waits_for for job in (second, third, last, other, free)}
    assert waits == {
        second.pk: (runs.pk,), third.pk: (second.pk,), last.pk: (third.pk, other.pk),
        other.pk: (), free.pk: (),
    }  # fmt: skip
    assert taken[third.pk].dependency is DependencyState.WAITING
    assert taken[free.pk].dependency is DependencyState.MET


def test_what_all_tasks_of_an_array_wait_for_is_looked_at_once(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cast.array(alice, project, *[State.PENDING] * 3)[0]
    waits = [{"kind": "afterany", "job_id": first.pk}]
    second = cast.array(
        alice, project, *[State.PENDING] * 4, spec={"name": "x", "dependencies": waits}
    )
    asked: list[Dependency] = []

    def judge(wait: Dependency, *known: Any) -> DependencyState:
        asked.append(wait)
        return DependencyState.WAITING

    monkeypatch.setattr(dependencies, "judge", judge)
    taken = {pending.id: pending for pending in snapshot.take(cast.NOW).pending}
    assert [taken[job.pk].waits_for for job in second] == [(first.pk,)] * 4
    assert asked == [Dependency(DependencyKind.AFTER_ANY, first.pk)]


def test_who_runs_counts_as_what_it_holds(alice: User, project: Project, node: Node) -> None:
    """Parts as fractions, and of a whole node all, whatever was asked for."""
    node.gpus.filter(index=3).update(shards=4)
    part = cast.run(cast.job(alice, project, state=State.RUNNING, gpus=0), node)
    Lease.objects.create(gpu=node.gpus.get(index=3), share=0, of=4, allocation=part)
    other = cast.node("gpu-2")
    whole = cast.job(alice, project, state=State.RUNNING, gpus=1)
    cast.run(whole, other, 0, 1, 2, 3)
    found = {run.id: run.gpus for run in snapshot.take(cast.NOW).running}
    assert found == {part.attempt.job_id: 0.25, whole.pk: 4}


def test_who_makes_room_waits_again_unless_it_asked_not_to(
    alice: User, project: Project, node: Node
) -> None:
    """As it waited before: with its age, its request and its place in its array."""
    comes, goes = (
        cast.job(alice, project, state=State.RUNNING, band=Band.BEST_EFFORT, waited_before_s=90)
        for _ in range(2)
    )
    cast.run(comes, node, 0)
    cast.run(goes, node, 1)
    Job.objects.filter(pk=goes.pk).update(spec={"name": "train", "requeue": False})
    found = {run.id: run.again for run in snapshot.take(cast.NOW).running}
    assert found[goes.pk] is None
    again = found[comes.pk]
    assert again is not None
    assert (again.id, again.band, again.waited_before_s) == (comes.pk, Band.BEST_EFFORT, 90)
    assert (again.resources.gpus_per_node, again.eligible_at) == (1, cast.NOW)


def test_nodes_reserved_for_a_project_are_for_all_below_it(
    alice: User, project: Project, node: Node
) -> None:
    below = Project.objects.create(name="robots", parent=project)
    lowest = Project.objects.create(name="arms", parent=below)
    beside = Project.objects.create(name="language")
    spans = {"starts_at": cast.NOW - DAY, "ends_at": cast.NOW + DAY}
    wide, narrow = (Reservation.objects.create(name=name, **spans) for name in ("wide", "narrow"))
    wide.projects.add(project)
    narrow.projects.add(lowest)
    for row in (wide, narrow):
        row.nodes.add(node)
    jobs = {of.name: cast.job(alice, of) for of in (project, below, lowest, beside)}
    taken = {job.id: job.reservations for job in snapshot.take(cast.NOW).pending}
    assert {name: taken[job.pk] for name, job in jobs.items()} == {
        "vision": {wide.pk}, "robots": {wide.pk}, "arms": {wide.pk, narrow.pk}, "language": set(),
    }  # fmt: skip
    for job in jobs.values():
        asked = snapshot.waiting(job, JobSpec("train", ":"), job.pk, cast.NOW)
        assert asked.reservations == taken[job.pk]
