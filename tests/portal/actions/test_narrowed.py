"""A quota that says what a job may be: also where a request leaves it open, or waits already."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.lifecycle import Reason, State
from portal.actions import quotas, schedule
from portal.models import Job, Lease, Node, Project, User
from tests.portal import cast
from tests.portal.cast import NOW

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


@pytest.fixture
def other(node: Node) -> Node:
    """One that is better."""
    made = cast.node("gpu-2")
    made.gpus.update(model=H100)
    return made


def allow(admin: User, project: Project, **limits: Any) -> None:
    quotas.set_quota(project=project, limits=limits, actor=admin, now=NOW)


def test_who_names_no_model_gets_one_that_is_allowed(
    admin: User, alice: User, project: Project, other: Node
) -> None:
    allow(admin, project, gpu_models=[A100])
    for _ in range(6):
        cast.job(alice, project)
    assert schedule.schedule(now=NOW) == 4
    assert set(Lease.objects.values_list("gpu__model", flat=True)) == {A100}
    for waits in Job.objects.filter(state=State.PENDING):
        assert waits.reason == Reason.RESOURCES
        assert waits.detail.startswith(f"Needs 1 GPU on one node (of {A100}, by quota); none is")


@pytest.mark.parametrize(
    ("limits", "detail"),
    [
        (
            {"walltime_s": 60},
            "Jobs of project vision may run for 1 min at most; this asks for 1 h. ",
        ),
        (
            {"partitions": ["cpu"]},
            "Jobs of project vision may run in these partitions: cpu; this asks for gpu. ",
        ),
        (
            {"gpu_models": []},
            "Jobs of project vision may use GPUs of these models: none; this asks for 1 GPU. ",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_was_taken_in_before_waits_and_says_so(
    admin: User, alice: User, project: Project, node: Node, limits: dict[str, Any], detail: str
) -> None:
    cast.node("cpu-1", gpus=0, partition=cast.Partition.objects.create(name="cpu"))
    waits = cast.job(alice, project)
    allow(admin, project, **limits)
    assert schedule.schedule(now=NOW) == 0
    waits.refresh_from_db()
    assert waits.detail == f"{detail}It cannot start unless that is allowed again."
    assert (waits.reason, waits.starts_at) == (Reason.BAD_CONSTRAINTS, None)
    allow(admin, project)
    assert schedule.schedule(now=NOW) == 1


def test_where_only_others_are_it_says_so(
    admin: User, alice: User, project: Project, node: Node
) -> None:
    waits = cast.job(alice, project)
    allow(admin, project, gpu_models=[A100])
    node.gpus.update(model=H100)
    assert schedule.schedule(now=NOW) == 0
    waits.refresh_from_db()
    assert waits.detail == (
        f"Its quotas allow GPUs of these models only: {A100}; partition gpu has too few nodes "
        "that could hold it with those. It cannot start unless one is added, or a quota allows "
        "others."
    )
    assert (waits.reason, waits.starts_at) == (Reason.BAD_CONSTRAINTS, None)
