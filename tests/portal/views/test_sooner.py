"""What would start a waiting job sooner, asked on its page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from portal.models import Event, Job, Node, Project, Quota, User
from portal.queries import sooner
from tests.portal import cast

HTMX = {"HX-Request": "true"}


def text(client: Client, job: Job) -> str:
    response = client.get(f"/jobs/{job.pk}/sooner/")
    assert response.status_code == 200
    return " ".join(response.text.split())


def test_a_change_that_helps_is_found_and_filled_in(as_alice: Client, as_bob: Client, waiting: Job):
    shown = text(as_alice, waiting)
    assert "With 1 GPU in place of 2 it would start now." in shown
    link = f"/jobs/{waiting.pk}/relaunch/?gpus_per_node=1"
    assert f'href="{link}"' in shown
    assert as_alice.get(link).context["form"]["gpus_per_node"].value() == "1"
    others = text(as_bob, waiting)
    assert "it would start now" in others
    assert "relaunch" not in others


def test_a_task_is_relaunched_alone(as_alice: Client, alice: User, project: Project, holder: Job):
    first, _ = cast.array(alice, project, State.PENDING, State.PENDING, gpus=2)
    assert f"/jobs/{first.pk}/relaunch/?gpus_per_node=1&amp;array=1" in text(as_alice, first)


def test_what_a_script_asks_for_is_taken_out_by_hand(
    as_alice: Client, alice: User, project: Project, node: Node
):
    job = cast.job(alice, project)
    spec = {"name": "alone", "resources": {"gpus_per_node": 1, "exclusive": True}}
    Job.objects.filter(pk=job.pk).update(spec=spec)
    cast.run(cast.job(alice, project, state=State.RUNNING, started_at=timezone.now()), node, 0)
    shown = text(as_alice, job)
    assert "Without asking for whole nodes it would start now." in shown
    assert "take that line out" in shown
    assert f'href="/jobs/{job.pk}/relaunch/"' in shown


def test_a_band_that_needs_no_quota_is_offered_to_who_may_use_it(
    as_alice: Client, project: Project, holder: Job, alice: User
):
    job = cast.job(alice, project)
    Quota.objects.create(project=project, gpus=0)
    shown = text(as_alice, job)
    assert "In band best-effort, where others may take its place, it would start now." in shown
    link = f"/jobs/{job.pk}/relaunch/?band=best-effort"
    assert f'href="{link}"' in shown
    assert as_alice.get(link).context["form"]["band"].value() == "best-effort"
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
    assert "Open the form" not in shown


def test_it_is_worked_out_once_for_the_same_queue(
    as_alice: Client, as_bob: Client, bob: User, waiting: Job, monkeypatch: pytest.MonkeyPatch
):
    asked, advice = [], sooner.advice

    def counted(*about: Any) -> Any:
        asked.append(about)
        return advice(*about)

    monkeypatch.setattr(sooner, "advice", counted)
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
    meanwhile, advice = [], sooner.advice

    def slowly(*about: Any) -> Any:
        meanwhile.append(text(as_alice, waiting))
        monkeypatch.setattr(sooner, "advice", advice)
        meanwhile.append(text(as_bob, waiting))
        return advice(*about)

    monkeypatch.setattr(sooner, "advice", slowly)
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
        patched.setattr(sooner, "advice", fails)
        as_alice.get(f"/jobs/{waiting.pk}/sooner/")
    assert "it would start now" in text(as_alice, waiting)


def test_htmx_gets_the_advice_alone(as_alice: Client, waiting: Job):
    part = as_alice.get(f"/jobs/{waiting.pk}/sooner/", headers=HTMX).text
    assert "it would start now" in part
    assert "<html" not in part


def test_there_is_no_such_job(as_alice: Client):
    assert as_alice.get("/jobs/4711/sooner/").status_code == 404
