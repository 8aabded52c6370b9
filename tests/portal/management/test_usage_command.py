"""`manage.py usage`, on a terminal and for programs."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from portal.models import Allocation, Node, Project, User
from tests.portal import cast


@pytest.fixture(autouse=True)
def work(node: Node, project: Project, alice: User, bob: User) -> None:
    """Alice 10 GPU-hours below vision, bob 2 in it, yesterday and the day before."""
    robots = Project.objects.create(name="robots", parent=project)
    end = timezone.now() - timedelta(days=1)
    for owner, where, band, hours in (
        (alice, robots, "batch", 10),
        (bob, project, "production", 2),
    ):
        job = cast.job(owner, where, state=State.COMPLETED, band=Band(band))
        part = cast.run(
            job, node, *node.gpus.filter(leases=None).values_list("index", flat=True)[:1]
        )
        Allocation.objects.filter(pk=part.pk).update(
            charged_until=end - timedelta(hours=hours), released_at=end
        )


def told(*arguments: str) -> str:
    out = io.StringIO()
    since = f"{timezone.now() - timedelta(days=9):%F}"
    call_command("usage", "--since", since, *arguments, stdout=out)
    return out.getvalue()


def test_a_table() -> None:
    assert [line.split() for line in told().splitlines()] == [
        ["PROJECT", "GPU-HOURS", "WEIGHTED"],
        ["robots", "10.00", "10.80"],
        ["vision", "2.00", "2.16"],
    ]


def test_json_for_one_project_with_all_below_it(project: Project, bob: User) -> None:
    found = json.loads(
        told("--json", "--by", "user", "--project", "vision", "--band", "production")
    )
    (used,) = found["usage"]
    assert (used["key"], used["name"]) == (bob.pk, "bob")
    assert used["gpu_hours"] == pytest.approx(2)
    everybody = json.loads(told("--json", "--by", "user", "--project", "vision"))
    assert [used["name"] for used in everybody["usage"]] == ["alice", "bob"]
    by_day = [row["name"] for row in json.loads(told("--json", "--by", "day"))["usage"]]
    assert by_day == sorted(by_day) != []


def test_what_cannot_be_told_is_said() -> None:
    with pytest.raises(CommandError, match="there is no project 'nothing'"):
        told("--project", "nothing")
    with pytest.raises(CommandError, match="there is no user 'nobody'"):
        told("--user", "nobody")
    with pytest.raises(CommandError, match="should be as 2026-11-03"):
        told("--until", "yesterday")
    with pytest.raises(CommandError, match="after now"):
        told("--since", "2999-01-01")


def test_until_a_moment() -> None:
    moment = (timezone.now() - timedelta(days=1, hours=1)).isoformat()
    assert [line.split()[1] for line in told("--until", moment).splitlines()[1:]] == [
        "9.00",
        "1.00",
    ]
