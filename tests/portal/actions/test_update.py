"""A waiting job is changed and stays the same: what was tried is what it becomes."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.bands import Band
from jobs.lifecycle import Reason, State
from portal.actions import charge, schedule
from portal.actions.update import Outdated
from portal.models import (
    Allocation,
    Attempt,
    Charge,
    Checkpoint,
    Event,
    Job,
    Node,
    Partition,
    Project,
    Quota,
    User,
)
from portal.queries import snapshot, sooner
from tests.portal import cast
from tests.portal.actions.scenes import (
    HOUR,
    LONG_AGO,
    SCENES,
    Scene,
    asking,
    begun,
    best_effort,
    changed,
    elsewhere,
    fewer_gpus,
    looked_for,
    remembered,
)
from tests.portal.cast import NOW


@pytest.mark.parametrize(
    ("scene", "told"), SCENES, ids=lambda value: getattr(value, "__name__", "")
)
def test_what_was_tried_is_what_it_becomes(
    alice: User, project: Project, node: Node, scene: Scene, told: str
) -> None:
    """Its age, place and all else included; so it starts when it was told to."""
    remembered(alice, project)
    job = scene(alice, project, node)
    found = looked_for(job)
    assert found.advice.change == told.format(job.pk - 1)
    changed(job, found)
    (becomes,) = (one for one in snapshot.take(NOW).pending if one.id == job.pk)
    assert becomes == found.advice.job
    event = Event.objects.get(kind="changed")
    assert (event.job, event.actor, event.detail) == (job, alice, found.advice.change)
    schedule.schedule(now=NOW)
    job.refresh_from_db()
    assert job.submitted_at == LONG_AGO
    if found.advice.at == NOW:
        assert job.state == State.CONFIGURING
    else:
        assert job.starts_at == found.advice.at


Wait = tuple[str, State | None]
RUNNING, FAILED, COMPLETED = State.RUNNING, State.FAILED, State.COMPLETED


@pytest.mark.parametrize(
    ("waits", "left"),
    [
        (
            [("afterany", RUNNING), ("afterok", FAILED), ("singleton", None)],
            [("afterany", RUNNING), ("singleton", None)],
        ),
        ([("afterok", COMPLETED), ("afterok", RUNNING)], [("afterok", COMPLETED)]),
        ([("afterok", COMPLETED), ("singleton", None)], [("afterok", COMPLETED)]),
        ([("afterok", RUNNING), ("singleton", None)], []),
    ],
)
def test_only_what_is_told_is_no_more_waited_for(
    alice: User, project: Project, node: Node, waits: list[Wait], left: list[Wait]
) -> None:
    others: dict[State | None, Job] = {
        state: cast.job(alice, project, state=state, name="mine") for state in (FAILED, COMPLETED)
    }
    others[RUNNING] = begun(alice, project, node, 0, name="mine", started_at=NOW)

    def stored(asked: list[Wait]) -> list[dict[str, Any]]:
        return [
            {"kind": kind, "job_id": others[state].pk if state else None} for kind, state in asked
        ]

    job = asking(alice, project, dependencies=stored(waits))
    assert looked_for(job).changes == {"dependencies": [stored(waits), stored(left)]}


def test_its_age_is_what_lets_it_pass_an_equal(alice: User, project: Project, node: Node) -> None:
    """Two GPUs are free, and another one has waited for a day for them."""
    begun(alice, project, node, 0, 1)
    job = asking(alice, project, resources={"gpus_per_node": 4})
    other = cast.job(alice, project, gpus=2, submitted_at=NOW - timedelta(days=1))
    changed(job, looked_for(job))
    schedule.schedule(now=NOW)
    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.state, other.state) == (State.CONFIGURING, State.PENDING)


def test_it_goes_on_from_what_it_has_saved_and_others_go_on_waiting_for_it(
    alice: User, project: Project, node: Node
) -> None:
    remembered(alice, project)
    job = fewer_gpus(alice, project, node)
    Job.objects.filter(pk=job.pk).update(preemptions=1)
    job.refresh_from_db()
    attempt = Attempt.objects.create(
        job=job, number=1, started_at=NOW - HOUR, ended_at=NOW - HOUR / 2, outcome=State.PREEMPTED
    )
    Checkpoint.objects.create(
        job=job, attempt=attempt, node=node, name="c1", path="/c1", size_bytes=1, complete=True,
        modified_at=NOW - HOUR / 2,
    )  # fmt: skip
    then = asking(alice, project, dependencies=[{"kind": "afterok", "job_id": job.pk}])
    found = looked_for(job)
    changed(job, found)
    waiting = {one.id: one for one in snapshot.take(NOW).pending}
    assert waiting[job.pk] == found.advice.job
    assert waiting[then.pk].waits_for == (job.pk,)
    assert job.checkpoints.filter(complete=True).exists()


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        ({"state": State.CONFIGURING}, "no longer waits"),
        ({"spec": {"name": "mine", "resources": {"gpus_per_node": 3}}}, "asks for something else"),
    ],
    ids=["started", "changed"],
)
def test_what_is_no_longer_as_it_was_is_not_changed(
    alice: User, project: Project, node: Node, meanwhile: dict[str, Any], why: str
) -> None:
    job = fewer_gpus(alice, project, node)
    found = looked_for(job)
    Job.objects.filter(pk=job.pk).update(**meanwhile)
    with pytest.raises(Outdated, match=why):
        changed(job, found)
    assert not Event.objects.filter(kind="changed").exists()


@pytest.mark.parametrize("scene", [elsewhere, best_effort])
def test_where_it_is_not_taken_in_any_more_it_does_not_go(
    alice: User, project: Project, node: Node, scene: Scene
) -> None:
    job = scene(alice, project, node)
    found = looked_for(job)
    Partition.objects.update(allowed_bands=[Band.PRODUCTION])
    with pytest.raises(Outdated, match="would not be taken in there by now"):
        changed(job, found)


def test_how_many_may_wait_is_no_limit_of_where_it_waits_already(
    alice: User, project: Project, node: Node
) -> None:
    job = elsewhere(alice, project, node)
    Quota.objects.create(project=project, jobs_pending=0)
    changed(job, looked_for(job))
    job.refresh_from_db()
    assert job.partition.name == "old"


def test_in_another_band_no_more_wait_than_may(alice: User, project: Project, node: Node) -> None:
    job = best_effort(alice, project, node)
    found = looked_for(job)
    Quota.objects.create(project=project, band=Band.BEST_EFFORT, jobs_pending=1)
    cast.job(alice, project, band=Band.BEST_EFFORT)
    with pytest.raises(Outdated):
        changed(job, found)


def test_what_quotas_say_is_read_once_for_all_partitions(
    alice: User, project: Project, node: Node
) -> None:
    begun(alice, project, node, 0, 1, 2, 3)
    Quota.objects.create(project=project, gpu_models=["NVIDIA A100-SXM4-80GB"])
    job = asking(alice, project, resources={"exclusive": True})
    asked = []
    for number in range(2):
        for name in (f"{number}-a", f"{number}-b"):
            cast.node(name, gpus=1, drained=True, partition=Partition.objects.create(name=name))
        with CaptureQueriesContext(connection) as seen:
            sooner.found(job, NOW)
        asked.append(Counter(re.findall(r'FROM "portal_(quota|project|gpu)"', str([*seen]))))
    assert asked[0] == asked[1]
    assert {*asked[0]} == {"quota", "project", "gpu"}


def test_room_that_others_make_for_it_is_where_it_was(
    alice: User, project: Project, node: Node
) -> None:
    job = elsewhere(alice, project, node)
    Job.objects.filter(pk=job.pk).update(claimed_at=NOW)
    found = looked_for(job)
    changed(job, found)
    job.refresh_from_db()
    assert (found.advice.job.claimed_at, job.claimed_at) == (None, None)


def test_what_it_has_used_was_used_in_the_band_it_was_in(
    alice: User, project: Project, node: Node
) -> None:
    """It ran before, made room, and nobody has charged that yet."""
    job = best_effort(alice, project, node)
    part = cast.run(job, node, 0)
    part.leases.update(released_at=NOW)
    Attempt.objects.update(started_at=NOW - HOUR, ended_at=NOW, outcome=State.PREEMPTED)
    Allocation.objects.update(
        phase=Allocation.Phase.ENDED, cause="signalled", ended_at=NOW, released_at=NOW,
        charged_until=NOW - HOUR,
    )  # fmt: skip
    changed(job, looked_for(job))
    job.refresh_from_db()
    assert job.band == Band.BEST_EFFORT
    charge.charge(now=NOW + HOUR)
    assert [(row.band, row.gpu_seconds) for row in Charge.objects.all()] == [(Band.BATCH, 3600)]


def test_one_that_is_held_is_released_as_it_is(alice: User, project: Project, node: Node) -> None:
    job = asking(alice, project)
    Job.objects.filter(pk=job.pk).update(
        held=True, held_by_owner=True, reason=Reason.HELD_USER, eligible_at=None
    )
    job.refresh_from_db()
    assert looked_for(job).changes == {}
