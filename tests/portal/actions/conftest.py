"""A lab on this machine: real shepherds, real processes, no SSH in between.

`lab.drive(job)` does by hand what workers do on hints, until the job has ended: whatever the
hints would have brought must come out the same without them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from django.utils import timezone

from portal import reach
from portal.actions import dispatch, observe, schedule, submit
from portal.models import Allocation, Gpu, Job, Node, Project, User
from tests.lab.processes import ended_under
from tests.portal import cast


class Lab:
    def __init__(self, directory: Path, owner: User) -> None:
        self.directory = directory
        self.owner = owner
        self.nodes: list[Node] = []

    def node(self, name: str, *, gpus: int = 4) -> Node:
        node = cast.node(name, gpus=gpus)
        Node.objects.filter(pk=node.pk).update(
            transport=Node.Transport.LOCAL,
            spool=str(self.directory / name),
            checkpoint_root=str(self.directory / "checkpoints"),
        )
        node.refresh_from_db()
        self.nodes.append(node)
        return node

    def submit(self, script: str, **overrides: str) -> Job:
        now = timezone.now()
        if not script.startswith("#!"):
            script = f"#!/bin/bash\n{script}\n"
        request = submit.read(owner=self.owner, script=script, overrides=overrides, now=now)
        return submit.submit(
            owner=self.owner, spec=request.spec, project=request.project,
            partition=request.partition, now=now,
        )  # fmt: skip

    def step(self) -> None:
        """One round of everything workers do."""
        schedule.schedule(now=timezone.now())
        for node in self.nodes:
            dispatch.dispatch(node_id=node.pk, now=timezone.now())
            observe.observe(node_id=node.pk, now=timezone.now())

    def drive(self, until: Callable[[], bool], *, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < deadline, self._story()
            self.step()
            time.sleep(0.05)

    def end(self, *jobs: Job) -> None:
        """Drive until all of these have ended, and read them again."""
        self.drive(lambda: all(self.fresh(job).ended for job in jobs))

    def running(self, *jobs: Job) -> None:
        self.drive(lambda: all(self.fresh(job).state == "RUNNING" for job in jobs))

    @staticmethod
    def fresh(job: Job) -> Job:
        job.refresh_from_db()
        return job

    def log(self, job: Job, rank: int = 0) -> str:
        part = Allocation.objects.filter(attempt__job=job, rank=rank).order_by("-attempt")[0]
        data = reach.engine(part.node).read_log(part.key, offset=0, length=1 << 20).data
        return data.decode()

    def _story(self) -> str:
        rows = Job.objects.values_list("pk", "state", "reason", "detail")
        parts = Allocation.objects.values_list("key", "phase", "cause", "message")
        return f"{list(rows)}\n{list(parts)}"


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def lab(tmp_path: Path, transactional_db: None, alice: User, project: Project) -> Iterator[Lab]:
    made = Lab(tmp_path, alice)
    with ended_under(tmp_path):
        yield made
        _end_jobs(made)
    for node in made.nodes:
        reach.forget(node.pk)


def _end_jobs(lab: Lab) -> None:
    """As workers do it, when everybody has cancelled everything."""
    now = timezone.now()
    Allocation.objects.filter(phase__in=("launching", "running")).update(stop_wanted_at=now)
    left = Job.objects.exclude(state__in=("COMPLETED", "PENDING")).filter(cancelled_at=None)
    left.update(cancelled_at=now, cancelled_by=lab.owner)
    lab.drive(lambda: not Allocation.objects.filter(phase__in=("launching", "running")).exists())


__all__ = ["Gpu", "Lab"]
