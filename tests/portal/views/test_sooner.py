"""What would start a waiting job sooner, asked on its page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from portal.actions import schedule
from portal.actions.hold import hold
from portal.models import Event, Job, Node, Project, Quota, User
from portal.queries import sooner
from tests.portal import cast

HTMX = {"HX-Request": "true"}


def text(client: Client, job: Job) -> str:
    response = client.get(f"/jobs/{job.pk}/sooner/")
    assert response.status_code == 200
    return " ".join(response.text.split())


def offered(shown: str) -> str:
    """The change behind the button; none where it is not shown."""
    found = re.search(r'name="change" value="([^"]+)"', shown)
    return found[1] if found else ""


def test_a_change_that_helps_is_found_and_made(as_alice: Client, as_bob: Client, waiting: Job):
    shown = text(as_alice, waiting)
    assert "With 1 GPU in place of 2 it would start now." in shown
    others = text(as_bob, waiting)
    assert "it would start now" in others
    assert not offered(others)
    answer = as_alice.post(f"/jobs/{waiting.pk}/update/", {"change": offered(shown)}, follow=True)
    assert f"Job {waiting.pk} was changed. With 1 GPU in place of 2." in answer.text
    assert "<span>Changed</span>" in answer.text
    schedule.schedule(now=timezone.now())
    waiting.refresh_from_db()
    assert (waiting.state, waiting.gpus_per_node) == (State.CONFIGURING, 1)


def test_a_change_is_made_once(as_alice: Client, waiting: Job):
    change = {"change": offered(text(as_alice, waiting))}
    as_alice.post(f"/jobs/{waiting.pk}/update/", change)
    again = as_alice.post(f"/jobs/{waiting.pk}/update/", change, follow=True)
    assert "Nothing was changed" in again.text
    assert "asks for something else by now" in again.text


def test_only_what_was_offered_for_the_job_is_changed_and_by_whom_it_concerns(
    as_alice: Client, as_bob: Client, waiting: Job, pending: Job
):
    change = offered(text(as_alice, waiting))
    assert as_bob.post(f"/jobs/{waiting.pk}/update/", {"change": change}).status_code == 403
    for other, given in ((pending, change), (waiting, change[:-1]), (waiting, "")):
        there = f"/jobs/{other.pk}/update/"
        assert as_alice.post(there, {"change": given}).status_code == 400
    assert as_alice.get(f"/jobs/{waiting.pk}/update/").status_code == 405
    assert as_alice.post("/jobs/4711/update/").status_code == 404
    assert not Event.objects.filter(kind="changed").exists()


def test_one_that_is_held_is_offered_no_change(as_alice: Client, pending: Job, node: Node):
    hold(job=pending, actor=pending.owner, now=timezone.now())
    shown = text(as_alice, pending)
    assert "Released, it" in shown
    assert not offered(shown)


def test_a_band_that_needs_no_quota_is_offered_to_who_may_use_it(
    as_alice: Client, project: Project, holder: Job, alice: User
):
    job = cast.job(alice, project)
    Quota.objects.create(project=project, gpus=0)
    shown = text(as_alice, job)
    assert "In band best-effort, where others may take its place, it would start now." in shown
    assert offered(shown)
    job.partition.allowed_bands = [Band.BATCH]
    job.partition.save()
    Event.objects.create(at=timezone.now(), kind="partition changed")
    assert "best-effort, where" not in text(as_alice, job)


def test_when_nothing_helps_it_says_so(as_alice: Client, alice: User, project: Project, node: Node):
    hog = cast.job(alice, project, state=State.RUNNING, started_at=timezone.now())
    cast.run(hog, node, 0, 1, 2, 3)
    job = cast.job(alice, project)
    shown = text(as_alice, job)
    assert "No single change would." in shown
    assert not offered(shown)


def test_it_is_worked_out_once_for_the_same_queue(
    as_alice: Client, as_bob: Client, bob: User, waiting: Job, monkeypatch: pytest.MonkeyPatch
):
    asked, found = [], sooner.found

    def counted(*about: Any) -> Any:
        asked.append(about)
        return found(*about)

    monkeypatch.setattr(sooner, "found", counted)
    first = text(as_alice, waiting)
    assert "it would start now" in first
    told = re.findall(r"Tried on the whole queue at <time.*?</time>", first)
    assert told
    assert told == re.findall(r"Tried on the whole queue at <time.*?</time>", text(as_bob, waiting))
    assert len(asked) == 1
    Event.objects.create(at=timezone.now(), kind="quota set")
    assert "it would start now" in text(as_bob, waiting)
    assert len(asked) == 2


def test_one_at_a_time_is_worked_out_for_a_person(
    as_alice: Client, as_bob: Client, waiting: Job, monkeypatch: pytest.MonkeyPatch
):
    meanwhile, found = [], sooner.found

    def slowly(*about: Any) -> Any:
        meanwhile.append(text(as_alice, waiting))
        monkeypatch.setattr(sooner, "found", found)
        meanwhile.append(text(as_bob, waiting))
        return found(*about)

    monkeypatch.setattr(sooner, "found", slowly)
    assert "it would start now" in text(as_alice, waiting)
    assert "Being worked out." in meanwhile[0]
    assert "Try again" in meanwhile[0]
    assert "it would start now" in meanwhile[1]


def test_who_was_told_of_a_mistake_may_ask_again(
    as_alice: Client, waiting: Job, monkeypatch: pytest.MonkeyPatch
):
    def fails(*about: Any) -> Any:
        raise ZeroDivisionError

    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(sooner, "found", fails)
        as_alice.get(f"/jobs/{waiting.pk}/sooner/")
    assert "it would start now" in text(as_alice, waiting)


def test_htmx_gets_the_advice_alone(as_alice: Client, waiting: Job):
    part = as_alice.get(f"/jobs/{waiting.pk}/sooner/", headers=HTMX).text
    assert "it would start now" in part
    assert "<html" not in part


def test_there_is_no_such_job(as_alice: Client):
    assert as_alice.get("/jobs/4711/sooner/").status_code == 404
