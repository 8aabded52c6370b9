"""What a database held before a migration is there after it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from portal.models import Allocation, Job
from tests.portal.cast import NOW

BEFORE = "0002_arrays"
LATER = NOW + timedelta(hours=1)


def _migrate(name: str) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate([("portal", name)])
    return executor.loader.project_state([("portal", name)]).apps


@pytest.fixture
def before(transactional_db: None) -> Iterator[Any]:
    """The tables as they were."""
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes("portal")[0][1]
    yield _migrate(BEFORE)
    _migrate(latest)


def _job(apps: Any, **columns: Any) -> Any:
    get = apps.get_model
    user, _ = get("portal", "User").objects.get_or_create(username="alice")
    project, _ = get("portal", "Project").objects.get_or_create(name="vision")
    partition, _ = get("portal", "Partition").objects.get_or_create(name="gpu")
    script, _ = get("portal", "Script").objects.get_or_create(digest="0" * 64, text=":")
    return get("portal", "Job").objects.create(
        owner=user, project=project, partition=partition, script=script, name="train", spec={},
        node_count=1, gpus_per_node=1, walltime_s=60, submitted_at=NOW, **columns,
    )  # fmt: skip


def _part(apps: Any, ended_at: Any, released_at: Any = None, gpus: int = 1) -> int:
    get = apps.get_model
    job = _job(apps, state="RUNNING")
    partition = get("portal", "Partition").objects.get(name="gpu")
    node = get("portal", "Node").objects.create(name=f"n{job.pk}", partition=partition)
    attempt = get("portal", "Attempt").objects.create(
        job=job, number=1, started_at=NOW, ended_at=ended_at
    )
    part = get("portal", "Allocation").objects.create(
        attempt=attempt, node=node, rank=0, key=f"k{job.pk}", cpus=1, memory_mib=0
    )
    for index in range(gpus):
        gpu = get("portal", "Gpu").objects.create(
            node=node, uuid=f"GPU-{job.pk}-{index}", index=index, model="A100", memory_mib=1
        )
        get("portal", "Lease").objects.create(gpu=gpu, allocation=part, released_at=released_at)
    return part.pk


def test_what_was_held_is_to_be_charged_and_what_waits_keeps_its_age(before: Any) -> None:
    running = _part(before, None)
    ended = _part(before, LATER, LATER + timedelta(seconds=2))
    without_gpus = _part(before, LATER, gpus=0)
    by_a_clock_that_was_behind = _part(before, NOW - timedelta(seconds=1), gpus=0)
    waiting = _job(before, state="PENDING").pk
    held = _job(before, state="PENDING", held=True).pk
    over = _job(before, state="COMPLETED").pk
    # One way there and back for all: it takes seconds.
    _migrate("0003_projects_quotas_usage")
    found = {
        pk: rest
        for pk, *rest in Allocation.objects.values_list(
            "pk", "charged_until", "released_at", "charged"
        )
    }
    assert found == {
        running: [NOW, None, False],
        ended: [NOW, LATER + timedelta(seconds=2), False],
        without_gpus: [NOW, LATER, False],
        by_a_clock_that_was_behind: [NOW, NOW, False],
    }
    ages = dict(Job.objects.values_list("pk", "eligible_at"))
    assert {pk: ages[pk] for pk in (waiting, held, over)} == {
        waiting: NOW, held: None, over: None
    }  # fmt: skip
    _migrate("0010_owners_holds")
    holds = dict(Job.objects.values_list("pk", "held_by_owner"))
    assert [pk for pk, by_owner in holds.items() if by_owner] == [held]
