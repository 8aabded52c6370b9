"""Cancelling, holding and releasing from the page of a job."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from jobs.lifecycle import Reason, State
from portal.actions import schedule
from portal.models import Job, Project, User
from tests.portal import cast
from tests.portal.views.pages import job_page as page


def test_cancel_asks_first(as_alice: Client, pending: Job):
    shown = page(as_alice, pending, "cancel/")
    assert "Keep it" in shown
    pending.refresh_from_db()
    assert pending.state == State.PENDING


def test_cancel(as_alice: Client, alice: User, pending: Job):
    response = as_alice.post(f"/jobs/{pending.pk}/cancel/", follow=True)
    pending.refresh_from_db()
    assert (pending.state, pending.cancelled_by) == (State.CANCELLED, alice)
    assert "was cancelled before it started" in response.text


def test_cancel_of_a_running_job_asks_its_nodes(as_alice: Client, running: Job):
    response = as_alice.post(f"/jobs/{running.pk}/cancel/", follow=True)
    running.refresh_from_db()
    assert running.cancelled_at is not None
    assert "is being ended" in response.text
    assert 'id="cancel"' not in response.text


def test_cancel_of_an_ended_job_does_nothing(as_alice: Client, alice: User, project: Project):
    job = cast.job(alice, project, state=State.COMPLETED)
    assert "has ended already" in page(as_alice, job, "cancel/")
    response = as_alice.post(f"/jobs/{job.pk}/cancel/", follow=True)
    assert "There was nothing to cancel" in response.text
    job.refresh_from_db()
    assert job.state == State.COMPLETED


def test_hold_and_release(as_alice: Client, pending: Job):
    assert "is held" in as_alice.post(f"/jobs/{pending.pk}/hold/", follow=True).text
    pending.refresh_from_db()
    assert pending.held
    assert "was not held" in as_alice.post(f"/jobs/{pending.pk}/hold/", follow=True).text
    assert "was released" in as_alice.post(f"/jobs/{pending.pk}/release/", follow=True).text
    pending.refresh_from_db()
    assert not pending.held
    assert "was not held" in as_alice.post(f"/jobs/{pending.pk}/release/", follow=True).text


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_another_person_may_not(as_bob: Client, pending: Job, verb: str):
    assert as_bob.post(f"/jobs/{pending.pk}/{verb}/").status_code == 403
    pending.refresh_from_db()
    assert (pending.state, pending.held) == (State.PENDING, False)


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_an_administrator_may(as_admin: Client, pending: Job, verb: str):
    assert as_admin.post(f"/jobs/{pending.pk}/{verb}/").status_code == 302


def test_release_only_by_post(as_alice: Client, pending: Job):
    assert as_alice.get(f"/jobs/{pending.pk}/release/").status_code == 405


def test_what_an_administrator_holds_its_owner_cannot_release(
    as_alice: Client, as_admin: Client, pending: Job
):
    address = f"/jobs/{pending.pk}/"
    assert f'href="{address}hold/"' in page(as_admin, pending)
    assert "Hold job" in as_admin.get(f"{address}hold/").text
    assert as_admin.post(f"{address}hold/", {"why": "x" * 201}).status_code == 422
    as_admin.post(f"{address}hold/", {"why": "Fills the disk."})
    pending.refresh_from_db()
    assert (pending.reason, pending.detail) == ("JobHeldAdmin", "Held by root: Fills the disk.")
    shown = page(as_alice, pending)
    assert "Held by root: Fills the disk." in shown
    assert "JobHeldAdmin" in shown
    assert f'action="{address}release/"' not in shown
    assert "held by an administrator" in as_alice.post(f"{address}release/", follow=True).text
    assert "Fills the disk." in pending.events.get(kind="held", actor__username="root").detail
    schedule.schedule(now=timezone.now())
    pending.refresh_from_db()
    assert (pending.held, pending.detail) == (True, "Held by root: Fills the disk.")
    assert f'action="{address}release/"' in page(as_admin, pending)
    assert "was released" in as_admin.post(f"{address}release/", follow=True).text
    pending.refresh_from_db()
    assert (pending.held, pending.held_by_admin, pending.reason) == (False, False, "")
    as_alice.post(f"{address}hold/")
    assert "was released" in as_alice.post(f"{address}release/", follow=True).text


def test_the_owners_hold_is_left_when_an_administrator_releases(
    as_alice: Client, as_admin: Client, pending: Job
):
    address, both = f"/jobs/{pending.pk}/", "Its owner holds it, too"
    as_alice.post(f"{address}hold/")
    as_admin.post(f"{address}hold/", {"why": "Fills the disk."})
    shown = page(as_admin, pending)
    assert "Held by root: Fills the disk." in shown and both in shown
    answer = as_admin.post(f"{address}release/", follow=True).text
    assert f"hold job {pending.pk} no longer, but its owner, alice, does." in answer
    assert "Held by alice." in answer and both not in answer
    schedule.schedule(now=timezone.now())
    pending.refresh_from_db()
    assert (pending.held, pending.reason, pending.detail) == (True, "JobHeldUser", "Held by alice.")
    assert "was released" in as_admin.post(f"{address}release/", follow=True).text
    pending.refresh_from_db()
    assert (pending.held, pending.held_by_owner, pending.reason) == (False, False, "")


def test_the_owner_takes_back_only_their_own_hold(as_alice: Client, as_admin: Client, pending: Job):
    address = f"/jobs/{pending.pk}/"
    as_admin.post(f"{address}hold/", {"why": "Fills the disk."})
    assert f'action="{address}hold/"' in page(as_alice, pending)
    assert "is held" in as_alice.post(f"{address}hold/", follow=True).text
    shown = page(as_alice, pending)
    assert "Held by root: Fills the disk." in shown
    assert f'action="{address}release/"' in shown and f'action="{address}hold/"' not in shown
    answer = as_alice.post(f"{address}release/", follow=True).text
    assert f"You hold job {pending.pk} no longer, but an administrator does" in answer
    pending.refresh_from_db()
    assert (pending.held, pending.held_by_admin, pending.reason) == (True, True, "JobHeldAdmin")
    assert "An administrator&#x27;s hold is left." in answer
    assert "was released" in as_admin.post(f"{address}release/", follow=True).text


def test_an_administrator_releases_what_could_not_be_started(as_admin: Client, pending: Job):
    Job.objects.filter(pk=pending.pk).update(held=True, reason=Reason.HELD_LAUNCH, detail="Thrice.")
    as_admin.post(f"/jobs/{pending.pk}/hold/")
    assert "was released" in as_admin.post(f"/jobs/{pending.pk}/release/", follow=True).text
    pending.refresh_from_db()
    assert (pending.held, pending.reason) == (False, "")


def test_administrators_hold_their_own_jobs_as_all_do(as_admin: Client, project: Project):
    own = cast.job(User.objects.get(username="root"), project)
    as_admin.post(f"/jobs/{own.pk}/hold/")
    own.refresh_from_db()
    assert (own.reason, own.held_by_admin) == (Reason.HELD_USER, False)


@pytest.mark.parametrize("verb", ["cancel", "hold", "release"])
def test_no_job_to_act_on(as_alice: Client, verb: str):
    assert as_alice.post(f"/jobs/7/{verb}/").status_code == 404


def test_without_the_forms_token_nothing_happens(alice: User, pending: Job):
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.post(f"/jobs/{pending.pk}/cancel/").status_code == 403
