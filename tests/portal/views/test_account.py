"""Signing in and out, one-time links, one's own account."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.actions import signin
from portal.models import Project, User


def token_for(user: User) -> str:
    return signin.issue(user=user, now=timezone.now())


def signed_in_as(client: Client) -> str | None:
    return client.session.get("_auth_user_id")


def test_strangers_are_sent_to_sign_in_and_come_back(client: Client, alice: User) -> None:
    answer = client.get("/nodes/?state=up")
    assert answer.status_code == 302
    assert answer["Location"] == "/sign-in/?next=/nodes/%3Fstate%3Dup"
    form = {"username": "alice", "password": "alice's own password", "next": "/nodes/?state=up"}
    assert client.post(answer["Location"], form)["Location"] == "/nodes/?state=up"


def test_nobody_is_sent_to_another_site(client: Client, alice: User) -> None:
    form = {"username": "alice", "password": "alice's own password", "next": "//evil.example/"}
    assert client.post("/sign-in/", form)["Location"] == "/"


def test_a_wrong_password_is_told_and_the_name_kept(client: Client, alice: User) -> None:
    answer = client.post("/sign-in/", {"username": "alice", "password": "guess"})
    assert b"do not belong together" in answer.content
    assert b'value="alice"' in answer.content
    assert signed_in_as(client) is None


def test_an_inactive_person_does_not_get_in(client: Client, alice: User) -> None:
    User.objects.update(is_active=False)
    client.post("/sign-in/", {"username": "alice", "password": "alice's own password"})
    assert signed_in_as(client) is None


def test_a_part_of_a_page_without_a_session_reloads_the_page(client: Client, db: None) -> None:
    answer = client.get("/sign-in/?next=/", headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"


def test_signing_out_takes_a_post(as_alice: Client) -> None:
    assert as_alice.get("/sign-out/").status_code == 405
    assert signed_in_as(as_alice)
    as_alice.post("/sign-out/")
    assert signed_in_as(as_alice) is None


def test_looking_at_a_link_does_not_use_it_up(client: Client, alice: User) -> None:
    token = token_for(alice)
    for _ in range(3):
        answer = client.get(f"/enter/{token}/")
        assert b"Sign in as alice" in answer.content
    assert signed_in_as(client) is None
    assert client.post("/enter/", {"token": token})["Location"] == "/"
    assert signed_in_as(client) == str(alice.pk)


def test_a_link_works_once(client: Client, alice: User) -> None:
    token = token_for(alice)
    client.post("/enter/", {"token": token})
    second = Client()
    answer = second.post("/enter/", {"token": token})
    assert answer.status_code == 410
    assert b"does not work any more" in answer.content
    assert signed_in_as(second) is None


def test_an_old_link_does_not_work(client: Client, alice: User) -> None:
    then = timezone.now() - signin.LIFETIME - timedelta(seconds=1)
    token = signin.issue(user=alice, now=then)
    assert b"does not work any more" in client.get(f"/enter/{token}/").content
    assert client.post("/enter/", {"token": token}).status_code == 410


def test_a_made_up_link_does_not_work(client: Client, db: None) -> None:
    assert b"does not work any more" in client.get("/enter/made-up/").content
    assert client.post("/enter/", {}).status_code == 410


def test_a_link_to_redeem_takes_a_post(client: Client, db: None) -> None:
    assert client.get("/enter/").status_code == 405
    assert client.post("/enter/some-token/").status_code == 405


def test_the_token_is_in_no_log_and_no_referrer(
    client: Client, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    token = token_for(alice)
    strict = Client(enforce_csrf_checks=True)
    with caplog.at_level(logging.DEBUG):
        page = client.get(f"/enter/{token}/")
        strict.post("/enter/", {"token": token})
        client.post("/enter/", {"token": token})
        client.post("/enter/", {"token": token})
    assert token not in caplog.text
    assert page["Referrer-Policy"] == "strict-origin"
    assert "no-store" in page["Cache-Control"]


def test_a_link_replaces_whoever_is_signed_in(as_bob: Client, alice: User) -> None:
    as_bob.post("/enter/", {"token": token_for(alice)})
    assert signed_in_as(as_bob) == str(alice.pk)


def test_the_name_is_saved(as_alice: Client, alice: User) -> None:
    form = {"form": "name", "first_name": "Alice", "last_name": "<b>Lovelace</b>"}
    answer = as_alice.post("/account/", form, follow=True)
    assert b"Your name is saved." in answer.content
    assert b"&lt;b&gt;Lovelace&lt;/b&gt;" in answer.content
    assert b"<b>Lovelace" not in answer.content


def test_too_long_a_name_is_told_at_its_field(as_alice: Client, alice: User) -> None:
    form = {"form": "name", "first_name": "A" * 151, "last_name": "L"}
    answer = as_alice.post("/account/", form)
    assert answer.status_code == 422
    assert b"at most 150 characters" in answer.content
    assert b"A" * 151 in answer.content
    alice.refresh_from_db()
    assert alice.first_name == ""


def test_a_new_password_takes_the_old_one(as_alice: Client, alice: User) -> None:
    new = "correct horse battery staple"
    form = {"form": "password", "new_password1": new, "new_password2": new}
    answer = as_alice.post("/account/", form | {"old_password": "wrong"})
    assert answer.status_code == 422
    assert b"old password was entered incorrectly" in answer.content
    answer = as_alice.post("/account/", form | {"old_password": "alice's own password"})
    assert answer.status_code == 302
    assert signed_in_as(as_alice)
    alice.refresh_from_db()
    assert alice.check_password(new)


def test_whoever_came_by_a_link_sets_a_password_without_the_old_one(
    client: Client, alice: User
) -> None:
    client.post("/enter/", {"token": token_for(alice)})
    new = "correct horse battery staple"
    form = {"form": "password", "new_password1": new, "new_password2": new}
    assert client.post("/account/", form).status_code == 302
    alice.refresh_from_db()
    assert alice.check_password(new)
    assert client.post("/account/", form).status_code == 422, "only once"


def test_a_password_that_is_too_simple_is_told(client: Client, alice: User) -> None:
    client.post("/enter/", {"token": token_for(alice)})
    form = {"form": "password", "new_password1": "12345678", "new_password2": "12345678"}
    answer = client.post("/account/", form)
    assert answer.status_code == 422
    assert b"too common" in answer.content


def test_the_account_lists_ones_projects(
    as_alice: Client, as_carol: Client, project: Project
) -> None:
    assert b"Computer vision" in as_alice.get("/account/").content
    assert b"in no project yet" in as_carol.get("/account/").content
