"""A job's page, and each thing its buttons do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import Reason, State
from portal.models import Attempt, Checkpoint, Event, Gpu, Job, Lease, Node, Project, User
from tests.portal import cast
from tests.portal.views.pages import job_page as page


def checkpoint(job: Job, name: str, *, complete: bool = True) -> Checkpoint:
    part = job.attempts.get().allocations.get()
    return Checkpoint.objects.create(
        job=job, attempt=part.attempt, node=part.node, name=name, path=f"/ckpt/{name}", step=7,
        size_bytes=2048, modified_at=cast.NOW, complete=complete,
    )  # fmt: skip


def test_parts_of_a_gpu_are_told_as_parts(
    as_alice: Client, alice: User, project: Project, node: Node
) -> None:
    gpu = node.gpus.get(index=3)
    Gpu.objects.filter(pk=gpu.pk).update(shards=4)
    spec = {"name": "notebook", "resources": {"gpus_per_node": 0, "shards": 2}}
    job = cast.job(alice, project, state=State.RUNNING, gpus=0, spec=spec)
    part = cast.run(job, node)
    for share in (0, 1):
        Lease.objects.create(gpu=gpu, share=share, of=4, allocation=part)
    shown = page(as_alice, job)
    assert "2 parts of a GPU on 1 node" in shown
    assert "2 of 4 parts" in shown and shown.count(gpu.uuid) == 1
    assert '2 <span class="quiet">parts</span>' in as_alice.get("/queue/").text
    tile = as_alice.get("/nodes/gpu-1/").text
    assert "2 of 4 parts" in tile and "2 parts free" in tile


@pytest.mark.parametrize("number", [1, 99999999999999999999999])
def test_no_such_job(as_alice: Client, number: int):
    assert as_alice.get(f"/jobs/{number}/").status_code == 404


def test_everybody_may_look_and_only_some_act(as_bob: Client, as_admin: Client, pending: Job):
    assert "cancel-dialog" not in page(as_bob, pending)
    assert "cancel-dialog" in page(as_admin, pending)


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_line(as_alice: Client, alice: User, project: Project, state: State):
    job = cast.job(alice, project, state=state, exit_code=None)
    assert f"state-{state.lower().replace('_', '-')}" in page(as_alice, job)


def test_the_job_it_waits_for_is_a_link(as_alice: Client, alice: User, project: Project):
    first = cast.job(alice, project)
    job = cast.job(alice, project, detail=f"Job {first.pk} is ahead of it.")
    page = as_alice.get(f"/jobs/{job.pk}/").text
    assert f'Job <a href="/jobs/{first.pk}/">{first.pk}</a> is ahead of it.' in page


def test_why_it_waits_and_its_place(as_alice: Client, alice: User, project: Project):
    cast.job(alice, project, submitted_at=cast.NOW - timedelta(days=1))
    job = cast.job(
        alice, project, reason=Reason.RESOURCES, detail="gpu-1 has 1 GPU free.", position=2
    )
    shown = page(as_alice, job)
    assert "gpu-1 has 1 GPU free." in shown
    assert "2nd of 2" in shown


def test_what_it_waits_for_is_linked(as_alice: Client, alice: User, project: Project, pending: Job):
    job = cast.job(alice, project, reason=Reason.DEPENDENCY)
    waits = [{"kind": "afterok", "job_id": pending.pk}, {"kind": "singleton", "job_id": None}]
    Job.objects.filter(pk=job.pk).update(spec={"name": "train", "dependencies": waits})
    shown = page(as_alice, job)
    assert f'<a href="/jobs/{pending.pk}/">' in shown
    assert "your earlier jobs of the same name" in shown


def test_the_allocation_names_each_gpu(as_alice: Client, running: Job, node: Node):
    shown = page(as_alice, running)
    uuids = node.gpus.order_by("index").values_list("uuid", flat=True)
    assert [uuid in shown for uuid in uuids] == [True, True, False, False]
    assert "A100 80GB" in shown


def test_a_running_job_has_walltime_left(as_alice: Client, running: Job):
    shown = page(as_alice, running)
    assert "of 1 h left" in shown
    assert "<progress" in shown


def test_how_it_ended_in_words(as_alice: Client, alice: User, project: Project):
    job = cast.job(
        alice, project, state=State.FAILED, exit_code=3, reason=Reason.NON_ZERO_EXIT,
        detail="It ended with exit code 3.",
    )  # fmt: skip
    shown = page(as_alice, job)
    assert "exit code 3" in shown
    assert "The end of the log usually says why." in shown


def test_checkpoints(as_alice: Client, as_bob: Client, running: Job):
    done = checkpoint(running, "step_7.pt")
    half = checkpoint(running, "step_8.pt", complete=False)
    shown = page(as_alice, running)
    assert "unfinished" in shown
    assert "when the run has ended" in shown
    assert "2 KiB" in shown
    assert f"?checkpoint={done.pk}" in shown
    assert f"?checkpoint={half.pk}" not in shown
    assert f"?checkpoint={done.pk}" not in page(as_bob, running)


def test_what_is_missing_and_how_long_it_took(as_alice: Client, running: Job):
    done, bad = checkpoint(running, "step_7.pt"), checkpoint(running, "step_8.pt", complete=False)
    Checkpoint.objects.filter(pk=done.pk).update(write_s=2.52)
    Checkpoint.objects.filter(pk=bad.pk).update(problem="the file is empty")
    shown = page(as_alice, running)
    assert "not whole" in shown and "the file is empty" in shown
    assert "2.5 s" in shown and "unfinished" not in shown
    Attempt.objects.update(number=2)
    assert "attempt 2" in page(as_alice, running, "?part=record")


def test_what_nobody_will_finish_was_cut_off(as_alice: Client, running: Job):
    half = checkpoint(running, "step_8.pt", complete=False)
    first = running.attempts.get()
    Attempt.objects.filter(pk=first.pk).update(ended_at=half.modified_at + timedelta(minutes=1))
    Job.objects.update(state=State.PENDING)
    assert "cut off" in page(as_alice, running)
    half.modified_at += timedelta(minutes=2)
    half.save()
    assert "unfinished" in page(as_alice, running), "the next run writes it again"
    Job.objects.update(state=State.COMPLETED, ended_at=timezone.now())
    shown = page(as_alice, running)
    assert "cut off" in shown
    assert "when the run has ended" not in shown


@pytest.mark.parametrize("reason", [Reason.RUN_LOST, Reason.NODE_RESTARTED, Reason.TIME_LIMIT])
def test_only_from_a_checkpoint_that_is_there_a_relaunch_goes_on(
    as_alice: Client, running: Job, reason: Reason
):
    Job.objects.update(state=State.NODE_FAIL, reason=reason, detail="It is gone.")
    advice = "It can go on from its last complete checkpoint."
    assert "Relaunch it" in page(as_alice, running)
    checkpoint(running, "half", complete=False)
    assert advice not in page(as_alice, running)
    checkpoint(running, "done")
    assert advice in page(as_alice, running)


def test_events_name_who_did_it(as_alice: Client, pending: Job, bob: User):
    Event.objects.create(at=cast.NOW, job=pending, kind="held", actor=bob)
    assert "by bob" in page(as_alice, pending)


def test_nothing_typed_becomes_html(as_alice: Client, alice: User, project: Project, node: Node):
    evil = "\"><script>alert('x')</script>"
    job = cast.job(alice, project, state=State.FAILED, name=evil, detail=evil, gpus=1)
    cast.run(job, node, 0)
    checkpoint(job, evil)
    job.script.text = f"#!/bin/sh\n# {evil}\n"
    job.script.save()
    Event.objects.create(at=cast.NOW, job=job, kind=evil[:32], detail=evil)
    Job.objects.filter(pk=job.pk).update(spec={"name": evil, "environment": [["A", evil]]})
    for part in ("", "?part=now", "?part=record", "?part=cancel", "cancel/", f"?rank={evil}"):
        assert "<script>alert" not in page(as_alice, job, part)


def test_the_live_parts_alone(as_alice: Client, running: Job):
    now, record = page(as_alice, running, "?part=now"), page(as_alice, running, "?part=record")
    assert 'id="now"' in now
    assert 'id="record"' in record
    assert "<html" not in now + record
    assert "#!/bin/bash" not in now + record


def test_what_cancelling_does_is_told_as_the_job_goes_on(as_alice: Client, pending: Job):
    for state, words in (
        (State.PENDING, "It has not started yet, and never will."),
        (State.RUNNING, "Its processes get a signal"),
        (State.COMPLETED, "It has ended already."),
    ):
        Job.objects.filter(pk=pending.pk).update(state=state)
        shown = page(as_alice, pending, "?part=cancel")
        assert 'id="cancel-words"' in shown
        assert words in shown


def test_the_page_listens_to_its_nodes(as_alice: Client, running: Job, node: Node, pending: Job):
    assert f"log-{running.pk},node-{node.pk}" in page(as_alice, running)
    # A page opened before the start does not: it asks by the clock.
    assert "every 4s" in page(as_alice, running, "?part=now&watched=")
    assert "every 20s" in page(as_alice, running, f"?part=now&watched={node.pk}")
    assert "every 4s" in page(as_alice, running, f"?part=now&watched={'9' * 5000},x,-1")


def test_the_number_of_queries_does_not_grow(
    as_alice: Client, alice: User, project: Project, running: Job, node: Node
):
    def count(part: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            page(as_alice, running, part)
        return len(queries)

    checkpoint(running, "first")
    Event.objects.create(at=cast.NOW, job=running, kind="held", actor=alice)
    before = [count(part) for part in ("", "?part=now", "?part=record")]
    for number in range(20):
        checkpoint(running, f"ckpt{number}")
        Event.objects.create(at=cast.NOW, job=running, kind="held", actor=alice, node=node)
        cast.job(alice, project)
    assert [count(part) for part in ("", "?part=now", "?part=record")] == before
