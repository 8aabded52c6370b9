"""What a node tells of many jobs costs as many statements as what it tells of a few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.engines.contract import Launched
from jobs.engines.ssh import ShepherdEngine
from jobs.events import Cause, Observation, Phase, RunObserved
from jobs.lifecycle import State
from jobs.nodes.transport import NoRoute
from portal.actions import dispatch, observe, schedule
from portal.models import Allocation, Attempt, Event, Job, Lease, Node, Project
from tests.portal import cast
from tests.portal.actions.conftest import Lab

FEW, MANY = 2, 50


def cost(work: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as seen:
        work()
    return len(seen)


def running(lab: Lab, project: Project, number: int) -> Node:
    """A node with that many jobs, each on a GPU of its own."""
    node = lab.node(f"n{number}", gpus=number)
    for index in range(number):
        cast.run(cast.job(lab.owner, project, state=State.RUNNING), node, index)
    return node


def tell(monkeypatch: pytest.MonkeyPatch, run: Callable[[str, int], RunObserved]) -> None:
    """Have nodes say this of their runs, by the run's key and number."""

    def look(self: ShepherdEngine, keys: list[str], **_: Any) -> Observation:
        runs = tuple(run(key, number) for number, key in enumerate(keys))
        return Observation(at=timezone.now().timestamp(), boot_id="boot", runs=runs)

    monkeypatch.setattr(ShepherdEngine, "observe", look)


def ended(key: str, number: int) -> RunObserved:
    """Each in its own way."""
    at = timezone.now().timestamp()
    return RunObserved(
        key=key, phase=Phase.EXITED, started_at=at - 9, ended_at=at - number / 100,
        cause=Cause.EXITED, exit_code=number % 3, log_bytes=number,
    )  # fmt: skip


def states() -> dict[str, int]:
    found = list(Job.objects.values_list("state", flat=True))
    return {state: found.count(state) for state in found}


def test_a_look_that_finds_ends(
    lab: Lab, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(monkeypatch, ended)
    few, many = (running(lab, project, number) for number in (FEW, MANY))
    costs = [
        cost(lambda node=node: observe.observe(node_id=node.pk, now=timezone.now()))
        for node in (few, many)
    ]
    assert costs[0] == costs[1]
    assert not Lease.objects.filter(released_at=None).exists()
    assert not Attempt.objects.filter(ended_at=None).exists()
    for number, part in enumerate(many.allocations.order_by("pk").select_related("attempt__job")):
        job, code = part.attempt.job, number % 3
        assert (part.phase, part.exit_code, part.log_bytes) == ("ended", code, number)
        assert (job.state, job.exit_code) == ("FAILED" if code else "COMPLETED", code)
        assert (part.attempt.outcome, part.attempt.detail) == (job.state, job.detail)
        assert job.ended_at == part.attempt.ended_at == part.ended_at
        event = Event.objects.get(job=job)
        assert (event.old, event.new, event.detail) == ("RUNNING", job.state, job.detail)


def test_a_look_that_finds_growing_logs(
    lab: Lab, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(
        monkeypatch,
        lambda key, number: replace(
            ended(key, number), phase=Phase.RUNNING, ended_at=None, log_bytes=number + 1
        ),
    )
    few, many = (running(lab, project, number) for number in (FEW, MANY))
    costs = [
        cost(lambda node=node: observe.observe(node_id=node.pk, now=timezone.now()))
        for node in (few, many)
    ]
    assert costs[0] == costs[1]
    sizes = many.allocations.order_by("pk").values_list("log_bytes", flat=True)
    assert list(sizes) == list(range(1, MANY + 1))
    assert states() == {"RUNNING": FEW + MANY}
    tell(monkeypatch, ended)
    for node in (few, many):
        observe.observe(node_id=node.pk, now=timezone.now())
    assert "RUNNING" not in states()


def test_what_ended_meanwhile_keeps_its_last_word(
    lab: Lab, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = running(lab, project, 2)
    first = node.allocations.order_by("pk").first()
    assert first is not None

    def late(key: str, number: int) -> RunObserved:
        Allocation.objects.filter(pk=first.pk).update(phase="ended", cause="lost", exit_code=None)
        return ended(key, number)

    tell(monkeypatch, late)
    observe.observe(node_id=node.pk, now=timezone.now())
    first.refresh_from_db()
    assert (first.cause, first.exit_code) == ("lost", None)
    states = Job.objects.order_by("pk").values_list("state", flat=True)
    # What lost its node waits for another.
    assert list(states) == ["PENDING", "FAILED"]


@pytest.fixture
def planned(lab: Lab) -> list[Node]:
    """Two nodes with jobs that are to be started there, few and many."""
    made = []
    for number in (FEW, MANY):
        made.append(lab.node(f"n{number}", gpus=number))
        Node.objects.update(cpus=MANY)
        lab.submit("true", gpus_per_node="1", array=f"1-{number}")
        assert schedule.schedule(now=timezone.now()) == number
    return made


def send(nodes: list[Node]) -> list[int]:
    return [
        cost(lambda node=node: dispatch.dispatch(node_id=node.pk, now=timezone.now()))
        for node in nodes
    ]


def test_launches(planned: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}

    def launch(self: ShepherdEngine, launches: Any, **more: Any) -> list[Launched]:
        sent.update({one.key: one for one in launches})
        return [Launched(key=one.key, accepted=True) for one in launches]

    monkeypatch.setattr(ShepherdEngine, "launch", launch)
    costs = send(planned)
    assert costs[0] == costs[1]
    assert states() == {"RUNNING": FEW + MANY}
    assert {one.script for one in sent.values()} == {"#!/bin/bash\ntrue\n"}
    assert len({one.environment["CUDA_VISIBLE_DEVICES"] for one in sent.values()}) == FEW + MANY
    Allocation.objects.update(phase="ended", cause="exited", exit_code=0, ended_at=timezone.now())
    dispatch.resettle(now=timezone.now())
    assert states() == {"COMPLETED": FEW + MANY}


def test_launches_that_cannot_be_sent(planned: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(self: ShepherdEngine, launches: Any, **more: Any) -> list[Launched]:
        raise NoRoute("no way")

    monkeypatch.setattr(ShepherdEngine, "launch", launch)
    costs = send(planned)
    assert costs[0] == costs[1]
    assert states() == {"PENDING": FEW + MANY}
    assert not Lease.objects.filter(released_at=None).exists()
    assert set(Allocation.objects.values_list("phase", flat=True)) == {"void"}
