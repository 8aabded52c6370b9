"""Jobs, as their pages show them; and a Redis that is another one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.lifecycle import State
from portal import broker
from portal.actions import schedule
from portal.models import Job, Node, Project, User
from tests.portal import cast


@pytest.fixture
def holder(bob: User, project: Project, node: Node) -> Job:
    """Has three of the four GPUs for another 55 minutes."""
    began = timezone.now() - timedelta(minutes=5)
    job = cast.job(bob, project, state=State.RUNNING, gpus=3, name="hog", started_at=began)
    cast.run(job, node, 0, 1, 2)
    return job


@pytest.fixture
def waiting(alice: User, project: Project, holder: Job) -> Job:
    """Needs two, as the last pass told it."""
    now = timezone.now()
    job = cast.job(alice, project, gpus=2, submitted_at=now - timedelta(minutes=10))
    schedule.schedule(now=now)
    job.refresh_from_db()
    return job


@pytest.fixture
def pending(alice: User, project: Project) -> Job:
    """No pass has looked at it yet."""
    return cast.job(alice, project)


@pytest.fixture
def running(alice: User, project: Project, node: Node) -> Job:
    job = cast.job(alice, project, state=State.RUNNING, gpus=2)
    cast.run(job, node, 0, 1)
    return job


@pytest.fixture
def another_redis() -> Iterator[None]:
    """Settings may name another Redis: the client is made anew before and afterwards."""
    broker.connection.cache_clear()
    yield
    broker.connection.cache_clear()
