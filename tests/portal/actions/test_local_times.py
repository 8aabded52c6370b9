"""Times are told and taken in the lab's time zone: what is written down as on pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.lifecycle import State
from portal.actions import schedule
from portal.actions.submit import read
from portal.models import Job, Node, Project, Quota, User
from portal.queries import room
from tests.portal import cast

NOON = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)


@pytest.fixture
def in_tokyo(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"


@pytest.fixture
def holder(bob: User, project: Project, node: Node) -> Job:
    """Has all four GPUs until 12:55 UTC at the latest."""
    began = NOON - timedelta(minutes=5)
    job = cast.job(bob, project, state=State.RUNNING, gpus=4, started_at=began)
    cast.run(job, node, 0, 1, 2, 3)
    return job


def told(job: Job) -> str:
    schedule.schedule(now=NOON)
    job.refresh_from_db()
    return " ".join([job.detail, *job.also])


def test_when_there_is_room(in_tokyo: None, alice: User, project: Project, holder: Job) -> None:
    words = told(cast.job(alice, project))
    assert "21:55 JST" in words
    assert "UTC" not in words


def test_when_a_quota_is_free_again(
    in_tokyo: None, alice: User, project: Project, node: Node
) -> None:
    """A month ends when it does in the lab, nine hours before it does in UTC."""
    Quota.objects.create(project=project, gpu_hours=1)
    job = cast.job(alice, project, state=State.RUNNING, started_at=NOON - timedelta(minutes=30))
    cast.run(job, node, 0)
    words = told(cast.job(alice, project))
    assert "00:00 JST on 1 Dec" in words
    assert "UTC" not in words


def test_when_it_asked_to_begin(in_tokyo: None, alice: User, project: Project, node: Node) -> None:
    script = "#!/bin/sh\n#SBATCH --begin=18:00\ntrue\n"
    asked = read(owner=alice, script=script, overrides={}, now=NOON)
    tomorrow = datetime(2026, 11, 4, 9, 0, tzinfo=UTC)
    assert asked.spec.begin_at == tomorrow, "18:00 in Tokyo is 09:00 UTC, and over for today"
    found = room.outlook(
        owner=alice, project=project, spec=asked.spec, partition=asked.partition, now=NOON
    )
    assert found.why == "Asked to start no earlier than 18:00 JST on 4 Nov."
