"""What the pages say of a job that makes room for another."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from django.test import Client

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.policy import Policy
from portal.actions import cancel, preempt, settle
from portal.models import Allocation, Attempt, Checkpoint, Job, Node, Project, User
from tests.portal import cast
from tests.portal.cast import NOW


@pytest.fixture
def other(alice: User, project: Project) -> Job:
    return cast.job(alice, project, band=Band.PRODUCTION)


@pytest.fixture
def victim(alice: User, project: Project, node: Node, other: Job) -> Job:
    """It has been told to make room."""
    job = cast.job(alice, project, state=State.RUNNING, name="sweep", band=Band.BEST_EFFORT)
    part = cast.run(job, node, 0)
    Checkpoint.objects.create(
        job=job, attempt=part.attempt, node=node, name="s", path="/ckpt/s", step=1200,
        size_bytes=1, modified_at=NOW, complete=True,
    )  # fmt: skip
    with transaction.atomic():
        preempt.preempt({job.pk: other.pk}, policy=Policy(), now=NOW)
    return job


def gone(victim: Job) -> None:
    Allocation.objects.update(
        phase=Allocation.Phase.ENDED, ended_at=NOW + timedelta(seconds=8), cause="stopped",
        signal=15,
    )  # fmt: skip
    settle.settle(attempt=Attempt.objects.get(job=victim), now=NOW)


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.text


def of(job: Job) -> str:
    return f'job <a href="/jobs/{job.pk}/">{job.pk}</a> (production)'


def test_while_it_makes_room(as_alice: Client, victim: Job, other: Job) -> None:
    shown = page(as_alice, f"/jobs/{victim.pk}/?part=now")
    assert f"Makes room for {of(other)}: it gets SIGTERM and 1 min to end." in shown
    assert "Relaunch it" not in shown
    assert "Makes room for job" in page(as_alice, "/queue/?state=all")


def test_who_is_cancelled_meanwhile_is_not_said_to_make_room(
    as_alice: Client, victim: Job, alice: User
) -> None:
    assert cancel.cancel(job=victim, actor=alice, now=NOW)
    for path in (f"/jobs/{victim.pk}/?part=now", "/queue/?state=all"):
        assert "Makes room" not in page(as_alice, path)
    assert "asked for its end" in page(as_alice, f"/jobs/{victim.pk}/?part=now")


def test_once_it_waits_again(as_alice: Client, victim: Job, other: Job) -> None:
    gone(victim)
    shown = page(as_alice, f"/jobs/{victim.pk}/?part=now")
    words = f"Preempted by {of(other)} after 5 min. It resumes from step 1200."
    # As what became of the attempt, and as why it waits.
    assert words in shown
    assert words in page(as_alice, f"/jobs/{victim.pk}/?part=why")
    assert "Attempts so far" in shown and "Allocation" not in shown
    assert "waits again since" in shown
    why = page(as_alice, f"/jobs/{victim.pk}/?part=why")
    for panel in (shown, why):
        (since,) = re.findall(r'again since <time datetime="([^"]+)"', panel)
        assert datetime.fromisoformat(since) == Attempt.objects.get(job=victim).ended_at
    assert "It goes on from <code>/ckpt/s</code>" in shown
    assert "Relaunch it" not in shown
    assert "It resumes from step 1200." in page(as_alice, "/queue/?state=all")
    # Other words come with the next pass; that it was preempted is still to be seen.
    Job.objects.filter(pk=victim.pk).update(reason="Resources", detail="Waits for GPUs.")
    assert "preempted before" in page(as_alice, "/queue/?state=all")
    assert page(as_alice, f"/jobs/{victim.pk}/?part=now").count(words) == 1


def test_who_waits_for_it_reads_since_when_it_does(
    as_alice: Client, victim: Job, alice: User, project: Project
) -> None:
    gone(victim)
    behind = cast.job(alice, project, detail=f"Job {victim.pk} is ahead of it.")
    (since,) = re.findall(
        r'waits since <time datetime="([^"]+)"', page(as_alice, f"/jobs/{behind.pk}/?part=why")
    )
    assert datetime.fromisoformat(since) == Attempt.objects.get(job=victim).ended_at


def test_the_one_it_makes_room_for(as_alice: Client, victim: Job, other: Job) -> None:
    shown = page(as_alice, f"/jobs/{other.pk}/?part=record")
    assert "Room is made for it" in shown
    assert f"Job {victim.pk} makes room." in shown
    first = "until it has started it goes before all"
    assert first in page(as_alice, f"/jobs/{other.pk}/?part=why")
    Job.objects.filter(pk=other.pk).update(claimed_at=None)
    assert first not in page(as_alice, f"/jobs/{other.pk}/?part=why")


def test_preempted_for_good(as_alice: Client, victim: Job) -> None:
    Job.objects.filter(pk=victim.pk).update(spec=victim.spec | {"requeue": False})
    gone(victim)
    shown = page(as_alice, f"/jobs/{victim.pk}/?part=now")
    assert "state-preempted" in shown
    assert "without --no-requeue it comes back by itself" in shown
    assert "It can go on from its last complete checkpoint." in shown
