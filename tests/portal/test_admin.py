"""Django's administration under the lab's one rule."""

from __future__ import annotations

import pytest
from django.test import Client

from portal.models import Event, Partition, Project, User
from tests.portal import cast

PLACES = ["/admin/", "/admin/portal/user/", "/admin/portal/partition/"]


@pytest.mark.parametrize("address", PLACES)
def test_administrators_get_in_without_further_permissions(as_admin: Client, address: str) -> None:
    page = as_admin.get(address)
    assert page.status_code == 200
    assert b'<link rel="icon"' in page.content, "else the browser asks for one that is not there"


@pytest.mark.parametrize("address", PLACES)
def test_others_do_not(as_alice: Client, address: str) -> None:
    assert as_alice.get(address).status_code == 302


@pytest.mark.parametrize("model", ["project", "membership", "quota", "reservation"])
def test_what_has_a_page_of_its_own_is_not_changed_past_it(as_admin: Client, model: str) -> None:
    assert as_admin.get(f"/admin/portal/{model}/").status_code == 404


def test_people_are_made_and_changed_with_their_events(as_admin: Client) -> None:
    there = "/admin/portal/user/"
    secret = "quiet-otter-27"
    form = {"username": "dora", "usable_password": "true", "password1": secret, "password2": secret}
    as_admin.post(f"{there}add/", form)
    dora = User.objects.get(username="dora")
    answer = as_admin.post(
        f"{there}{dora.pk}/change/",
        {"username": "dora", "email": "d@lab.example", "is_staff": "on"},
    )
    assert answer.status_code == 302
    other = "loud-otter-28"
    form = {"usable_password": "true", "password1": other, "password2": other}
    as_admin.post(f"{there}{dora.pk}/password/", form | {"set-password": "1"})
    dora.refresh_from_db()
    assert dora.check_password(other)
    assert (dora.is_staff, dora.is_active) == (True, False)
    as_admin.post(f"{there}{dora.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(username="dora").exists()
    told = Event.objects.order_by("pk").values_list("kind", "detail", "actor__username", "changes")
    assert list(told) == [
        (
            "person added", "dora", "root",
            {
                "username": [None, "dora"], "first_name": [None, ""], "last_name": [None, ""],
                "email": [None, ""], "is_active": [None, True], "is_staff": [None, False],
            },
        ),
        (
            "person set", "dora", "root",
            {
                "email": ["", "d@lab.example"], "is_active": [True, False],
                "is_staff": [False, True],
            },
        ),
        ("person password set", "dora", "root", None),
        ("person removed", "dora", "root", {"username": ["dora", None]}),
    ]  # fmt: skip
    shown = as_admin.get("/settings/").text
    assert "administrator: no → yes" in shown
    assert "<li>may sign in: yes</li>" in shown
    assert "<li>email: none</li>" not in shown
    assert "Password of a person set" in shown
    assert other not in shown


def test_a_password_that_is_refused_is_no_event(as_admin: Client, alice: User) -> None:
    form = {"usable_password": "true", "password1": "a", "password2": "b", "set-password": "1"}
    assert as_admin.post(f"/admin/portal/user/{alice.pk}/password/", form).status_code == 200
    assert as_admin.get("/admin/portal/user/4711/password/").status_code == 404
    assert as_admin.get("/admin/portal/user/nobody/password/").status_code == 404
    assert not Event.objects.exists()


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
    places = (("user", alice), ("partition", Partition.objects.get()))
    for model, row in places:
        answer = as_admin.post(f"/admin/portal/{model}/{row.pk}/delete/", {"post": "yes"})
        assert answer.status_code == 403


def test_who_is_in_a_project_is_not_deleted(as_admin: Client, alice: User, carol: User) -> None:
    chosen = {"action": "delete_selected", "_selected_action": [alice.pk, carol.pk], "post": "yes"}
    as_admin.post("/admin/portal/user/", chosen)
    assert User.objects.filter(username="alice").exists()
    as_admin.post("/admin/portal/user/", chosen | {"_selected_action": [carol.pk]})
    assert not User.objects.filter(username="carol").exists()
    assert Event.objects.get().detail == "carol"
