"""What must never happen: a GPU leased twice, a state moved twice, a job submitted twice."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import IntegrityError, close_old_connections, transaction
from django.utils import timezone

from jobs.lifecycle import ENDED, IllegalTransition, State
from portal.actions import schedule, submit
from portal.models import Allocation, Event, Gpu, Job, Lease, Node, Project, User
from tests.portal import cast
from tests.portal.actions.conftest import Lab


def test_the_database_refuses_a_second_lease(node: Node, alice: User, project: Project) -> None:
    first = cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    second = cast.run(cast.job(alice, project, state=State.RUNNING), node, 1)
    gpu = Gpu.objects.get(node=node, index=0)
    with pytest.raises(IntegrityError), transaction.atomic():
        Lease.objects.create(gpu=gpu, allocation=second)
    Lease.objects.filter(allocation=first).update(released_at=timezone.now())
    Lease.objects.create(gpu=gpu, allocation=second)


def test_a_stale_move_does_nothing(alice: User, project: Project) -> None:
    job = cast.job(alice, project)
    stale = Job.objects.get(pk=job.pk)
    assert job.move(State.CANCELLED, now=timezone.now())
    assert not stale.move(State.CONFIGURING, now=timezone.now())
    assert Job.objects.get(pk=job.pk).state == State.CANCELLED
    assert Event.objects.filter(job=job).count() == 1


@pytest.mark.parametrize("state", sorted(ENDED))
def test_nothing_leads_out_of_an_end(alice: User, project: Project, state: State) -> None:
    job = cast.job(alice, project, state=state)
    with pytest.raises(IllegalTransition):
        job.move(State.PENDING, now=timezone.now())


def test_two_clicks_submit_once(lab: Lab) -> None:
    lab.node("n1")
    request = submit.read(
        owner=lab.owner, script="#!/bin/bash\ntrue\n", overrides={}, now=timezone.now()
    )
    made = [
        submit.submit(
            owner=lab.owner, spec=request.spec, project=request.project,
            partition=request.partition, key="click", now=timezone.now(),
        )
        for _ in range(2)
    ]  # fmt: skip
    assert made[0] == made[1]
    assert Job.objects.count() == 1


def test_passes_at_once_start_nothing_twice(lab: Lab) -> None:
    lab.node("n1")
    lab.node("n2")
    for _ in range(12):
        lab.submit("true", gpus_per_node="1")
    gate = threading.Barrier(3, timeout=20)
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            gate.wait()
            schedule.schedule(now=timezone.now())
        except BaseException as error:
            wrong.append(error)
        finally:
            close_old_connections()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong
    assert Lease.objects.filter(released_at=None).count() == 8
    assert Allocation.objects.count() == 8
    assert Event.objects.filter(new=State.CONFIGURING).count() == 8


def test_a_deadline_that_can_not_be_met_ends_the_job(lab: Lab) -> None:
    lab.node("n1")
    soon = (timezone.now() + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%S")
    job = lab.submit(f"#!/bin/bash\n#SBATCH --deadline={soon}\n#SBATCH -t 60\n#SBATCH -H\ntrue")
    lab.step()
    assert lab.fresh(job).state in (State.DEADLINE, State.PENDING)
    assert job.state == State.DEADLINE
