"""Django's administration under the lab's one rule."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.models import Membership, Partition, Project, User
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


def test_what_jobs_name_is_not_deleted(as_admin: Client, alice: User, project: Project) -> None:
    cast.job(alice, project)
    places = (("user", alice), ("project", project), ("partition", Partition.objects.get()))
    for model, row in places:
        answer = as_admin.post(f"/admin/portal/{model}/{row.pk}/delete/", {"post": "yes"})
        assert answer.status_code == 403
