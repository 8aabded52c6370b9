"""Django's administration under the lab's one rule."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.models import Event, Membership, Partition, Project, User
from tests.portal import cast

PLACES = ["/admin/", "/admin/portal/user/", "/admin/portal/project/", "/admin/portal/partition/"]


@pytest.mark.parametrize("address", PLACES)
def test_administrators_get_in_without_further_permissions(as_admin: Client, address: str) -> None:
    assert as_admin.get(address).status_code == 200


@pytest.mark.parametrize("address", PLACES)
def test_others_do_not(as_alice: Client, address: str) -> None:
    assert as_alice.get(address).status_code == 302


def test_a_person_is_put_into_a_project(as_admin: Client, carol: User, project: Project) -> None:
    form = {
        "name": "vision", "title": "",
        "memberships-TOTAL_FORMS": "1", "memberships-INITIAL_FORMS": "0",
        "memberships-0-user": str(carol.pk), "memberships-0-project": str(project.pk),
    }  # fmt: skip
    answer = as_admin.post(f"/admin/portal/project/{project.pk}/change/", form)
    assert answer.status_code == 302
    assert Membership.objects.filter(user=carol, project=project).exists()


def test_a_project_is_named_rightly(as_admin: Client, db: None) -> None:
    form = {"name": "Two Words", "memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    answer = as_admin.post("/admin/portal/project/add/", form)
    assert b"Use small letters" in answer.content
    assert not Project.objects.exists()


def test_partitions_are_made_and_removed_with_their_events(as_admin: Client) -> None:
    there = "/admin/portal/partition/"
    as_admin.post(f"{there}add/", {"name": "gpu", "is_default": "on"})
    row = Partition.objects.get()
    as_admin.post(f"{there}{row.pk}/change/", {"name": "a100", "is_default": "on"})
    as_admin.post(f"{there}{row.pk}/change/", {"name": "a100", "is_default": "on"})
    as_admin.post(f"{there}{row.pk}/delete/", {"post": "yes"})
    second = Partition.objects.create(name="cpu")
    chosen = {"action": "delete_selected", "_selected_action": [second.pk], "post": "yes"}
    as_admin.post(there, chosen)
    assert not Partition.objects.exists()
    told = Event.objects.order_by("pk").values_list("kind", "actor__username", "changes")
    assert list(told) == [
        ("partition added", "root", {"name": [None, "gpu"], "is_default": [None, True]}),
        ("partition set", "root", {"name": ["gpu", "a100"]}),
        ("partition removed", "root", {"name": ["a100", None]}),
        ("partition removed", "root", {"name": ["cpu", None]}),
    ]
    assert "name: gpu → a100" in as_admin.get("/settings/").text


def test_what_jobs_name_is_not_deleted(as_admin: Client, alice: User, project: Project) -> None:
    cast.job(alice, project)
    places = (("user", alice), ("project", project), ("partition", Partition.objects.get()))
    for model, row in places:
        answer = as_admin.post(f"/admin/portal/{model}/{row.pk}/delete/", {"post": "yes"})
        assert answer.status_code == 403
