"""What the page of a project says of lending."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.models import Node, Project, User
from tests.portal import cast


def lending(client: Client) -> str:
    _, found, after = " ".join(client.get("/projects/vision/").text.split()).partition(
        "<dt>Lending</dt><dd>"
    )
    return after.partition("</dd>")[0] if found else ""


@pytest.fixture
def lender(project: Project) -> Project:
    """Above vision and robots, of which robots is guaranteed all GPUs."""
    lab = Project.objects.create(name="lab", lends=True)
    Project.objects.create(name="robots", parent=lab).quotas.create(gpus=4)
    Project.objects.filter(pk=project.pk).update(parent=lab)
    return lab


def test_where_nobody_lends_nothing_is_said(as_alice: Client, lender: Project) -> None:
    Project.objects.filter(pk=lender.pk).update(lends=False)
    assert not lending(as_alice)


@pytest.mark.parametrize(
    "quotas",
    [[], [{"gpus": 2, "band": "batch"}, {"gpus": 1, "scope": "user"}, {"jobs_running": 3}]],
    ids=["without any quota", "with others"],
)
def test_without_a_guarantee_it_takes_no_part(
    as_alice: Client, project: Project, lender: Project, quotas: list[dict[str, object]]
) -> None:
    for quota in quotas:
        project.quotas.create(**quota)
    assert lending(as_alice) == (
        "neither lends nor borrows: it has no quota of GPUs at once for the project and all bands"
    )


def test_who_is_guaranteed_nothing_only_borrows(
    as_alice: Client, alice: User, project: Project, lender: Project, node: Node
) -> None:
    project.quotas.create(gpus=0)
    assert lending(as_alice) == "only borrows: no GPU is guaranteed to it"
    cast.run(cast.job(alice, project, state="RUNNING"), node, 0)
    assert lending(as_alice) == "1 GPU borrowed from siblings, which may take them back"


def test_within_its_own(as_alice: Client, project: Project, lender: Project) -> None:
    project.quotas.create(gpus=2)
    assert lending(as_alice) == "within its own; siblings that lend may run on what it does not use"
