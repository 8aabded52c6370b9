"""The jobs of a past time as the simulation is told of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle import State
from jobs.scheduler.limits import Limits
from jobs.scheduler.simulate.workload import Trial
from portal.models import Accounting, Attempt, Job, Node, Project, Quota, User
from portal.queries import workload
from tests.portal import cast

SINCE = cast.NOW - timedelta(days=7)


def hours(number: float) -> datetime:
    """After the beginning."""
    return SINCE + timedelta(hours=number)


def past(
    owner: User,
    project: Project,
    came: float,
    began: float | None,
    ended: float | None,
    **more: Any,
) -> Job:
    """A job with one attempt; times in hours after the beginning."""
    if began is None:
        state = State.PENDING if ended is None else State.CANCELLED
    else:
        state = State.RUNNING if ended is None else State.COMPLETED
    waited = {} if began is None else {"waited_before_s": 3600 * (began - came)}
    made = cast.job(
        owner, project, state=state, submitted_at=hours(came),
        started_at=None if began is None else hours(began),
        ended_at=None if ended is None else hours(ended),
        **waited | more,
    )  # fmt: skip
    if began is not None:
        attempt(made, 1, began, ended)
    return made


def attempt(job: Job, number: int, began: float, ended: float | None) -> None:
    Attempt.objects.create(
        job=job, number=number, started_at=hours(began),
        ended_at=None if ended is None else hours(ended),
        outcome="" if ended is None else State.COMPLETED,
    )  # fmt: skip


def read() -> workload.Recorded:
    return workload.read(SINCE, cast.NOW, cast.NOW)


def trials() -> dict[int, Trial]:
    return {trial.id: trial for trial in read().workload.jobs}


def test_a_job_comes_as_it_came_and_runs_as_long_as_it_ran(
    alice: User, project: Project, node: Node
) -> None:
    job = past(
        alice, project, 1, 3, 4.5, gpus=2, name="fit", nice=7, band="production", walltime_s=7200
    )
    found = trials()[job.pk]
    assert (found.submit_s, found.run_s, found.gpus, found.request_s) == (3600, 5400, 2, 7200)
    assert (found.user_id, found.project_id, found.partition) == (alice.pk, project.pk, "gpu")
    assert (found.name, found.nice, found.band, found.counts) == ("fit", 7, "production", True)
    assert found.resources is not None and found.resources.gpus_per_node == 2


def test_what_held_it_back_is_not_waiting_for_room(alice: User, project: Project) -> None:
    held = past(alice, project, 1, 30, 31, waited_before_s=3600)
    begin = hours(20).isoformat()
    timed = past(alice, project, 1, 22, 23, spec={"name": "x", "begin_at": begin})
    before_ages_were_known = past(alice, project, 2, 5, 6, waited_before_s=0)
    found = trials()
    assert found[held.pk].submit_s == 29 * 3600
    assert found[timed.pk].submit_s == 20 * 3600
    assert found[before_ages_were_known.pk].submit_s == 2 * 3600


def test_all_its_runs_count_and_one_that_goes_on_until_now(alice: User, project: Project) -> None:
    twice = past(alice, project, 1, 2, 3)
    attempt(twice, 2, 5, 7)
    runs = past(alice, project, 160, 160, None)
    found = trials()
    assert (found[twice.pk].run_s, found[twice.pk].submit_s) == (3 * 3600, 3600)
    assert found[runs.pk].run_s == 8 * 3600


def test_what_was_there_before_fills_the_nodes_and_is_not_counted(
    alice: User, project: Project
) -> None:
    ran = past(alice, project, -10, -5, 5)
    waited = past(alice, project, -10, 2, 3)
    past(alice, project, -10, -5, -1)
    found = read()
    assert {trial.id: (trial.submit_s, trial.counts) for trial in found.workload.jobs} == {
        ran.pk: (-5 * 3600, False),
        waited.pk: (0, False),
    }
    assert (found.jobs, found.before) == (0, 2)


def test_who_came_before_and_began_in_that_time_was_kept_back_as_long(
    alice: User, project: Project
) -> None:
    begin = hours(72).isoformat()
    timed = past(alice, project, -24, 72, 73, spec={"name": "x", "begin_at": begin})
    held = past(alice, project, -24, 30, 31, waited_before_s=3600)
    long_over = hours(-12).isoformat()
    ready = past(alice, project, -24, 2, 3, spec={"name": "x", "begin_at": long_over})
    found = trials()
    assert [found[job.pk].submit_s / 3600 for job in (timed, held, ready)] == [72, 29, 0]
    assert not any(trial.counts for trial in found.values())


def test_who_never_began_is_left_out_and_told(alice: User, project: Project) -> None:
    past(alice, project, 1, None, 2)
    past(alice, project, 1, None, None)
    past(alice, project, 1, None, None)
    found = read()
    assert found.workload.jobs == ()
    assert found.left_out == ("2 jobs still waiting", "1 job ended before ever starting")


def test_what_it_waited_for_of_others(alice: User, bob: User, project: Project) -> None:
    first = past(alice, project, 1, 1, 2, name="train")
    past(bob, project, 1, 1, 2, name="train")
    head = past(alice, project, 1, 1, 2, array_index=1, spec=_array(2, 3))
    Job.objects.filter(pk=head.pk).update(array_id=head.pk)
    task = past(alice, project, 1, 1, 2, array_index=2, array_id=head.pk, spec=_array(2, 3))
    after = past(alice, project, 1, 2, 3, spec=_after("afterany", first.pk, head.pk))
    single = past(alice, project, 1, 3, 4, name="train", spec=_after("singleton", None))
    found = trials()
    assert (found[after.pk].after, found[after.pk].after_arrays) == ((first.pk,), (head.pk,))
    assert found[single.pk].after == (first.pk, head.pk, task.pk, after.pk)
    assert (found[first.pk].after, found[single.pk].after_arrays) == ((), ())
    assert (found[task.pk].array_id, found[task.pk].array_limit) == (head.pk, 2)


def test_who_waits_for_its_like_waits_for_the_last_that_did_so(
    alice: User, project: Project
) -> None:
    """As that one waited for the rest; not if it is not played."""
    alone = _after("singleton", None)
    first = past(alice, project, 1, 1, 2)
    second = past(alice, project, 1, 2, 3, spec=alone)
    third = past(alice, project, 1, 3, 4, spec=alone)
    past(alice, project, 1, None, 4, spec=alone)
    other = past(alice, project, 1, 4, 5)
    last = past(alice, project, 1, 5, 6, spec=alone)
    found = trials()
    assert [found[job.pk].after for job in (first, second, third, last)] == [
        (), (first.pk,), (second.pk,), (third.pk, other.pk),
    ]  # fmt: skip


def _array(limit: int, tasks: int) -> dict[str, Any]:
    return {"name": "train", "array": {"indices": list(range(1, tasks)), "limit": limit}}


def _after(kind: str, *ids: int | None) -> dict[str, Any]:
    waits = [{"kind": kind, "job_id": pk} for pk in ids]
    return {"name": "train", "dependencies": waits}


def test_a_part_of_a_gpu_is_a_fraction(alice: User, project: Project, node: Node) -> None:
    node.gpus.update(shards=4)
    job = past(alice, project, 1, 1, 2, spec={"name": "x", "resources": {"shards": 3}})
    assert trials()[job.pk].gpus == 0.75


def test_the_lab_is_the_one_of_now_with_all_nodes_up(
    alice: User, project: Project, node: Node
) -> None:
    Node.objects.update(drained=True)
    cast.node("unseen", cpus=0)
    Quota.objects.create(project=project, gpus=3, gpu_hours=10, jobs_pending=0)
    Accounting.objects.create(lends=True, half_life_s=3600)
    found = read().workload
    assert [(one.name, one.unavailable, len(one.gpus)) for one in found.nodes] == [("gpu-1", "", 4)]
    (quota,) = found.quotas
    limits = Limits(gpus=3, gpu_hours=10)
    assert quota.limits == limits, "what is not played refuses nobody either"
    assert found.lends == {None} and found.decay.half_life_s == 3600
    assert [(one.project_id, one.user_id) for one in found.members] == [(project.pk, alice.pk)]


def test_how_long_they_really_waited(alice: User, project: Project) -> None:
    for number in (1, 2, 3):
        past(alice, project, 1, 1 + number, 10)
    past(alice, project, 1, 5, 10, waited_before_s=0)
    real = read().real
    assert (real.mean_wait_s, real.median_wait_s) == (9000, 9000)


def test_the_number_of_queries_does_not_grow(alice: User, project: Project, node: Node) -> None:
    past(alice, project, 1, 2, 3)
    with CaptureQueriesContext(connection) as few:
        read()
    for number in range(20):
        past(alice, project, 1, 2, 3, spec=_after("afterany", number + 1))
    with CaptureQueriesContext(connection) as many:
        read()
    assert len(many) == len(few)


def test_more_than_can_be_played_are_refused(
    alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "MOST_JOBS", 2)
    for _ in range(3):
        past(alice, project, 1, 2, 3)
    with pytest.raises(workload.TooMany, match="3 jobs are of that time, and at most 2 can be"):
        read()
