"""A change is tried by the real worker, whose processes are killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.lab.browser import Visitor
from tests.lab.portal import Carrel, until

pytestmark = [pytest.mark.portal, pytest.mark.browser]

JOBS = """
from datetime import timedelta
from django.utils import timezone
from jobs.lifecycle import State
from portal.models import Attempt, Job, Partition, Project, Quota, Script, User
now, done = timezone.now(), State.COMPLETED
project = Project.objects.create(name="vision")
Quota.objects.create(project=project, gpus=4)
script = Script.objects.create(digest="0" * 64, text="true")
jobs = Job.objects.bulk_create(
    Job(owner=User.objects.get(), project=project, partition=Partition.objects.get(), name="past",
        script=script, spec={"name": "past", "resources": {"gpus_per_node": 2}}, node_count=1,
        gpus_per_node=2, walltime_s=7200, state=done, submitted_at=at, started_at=at,
        ended_at=at + timedelta(hours=1), band=("production", "best-effort")[number % 2])
    for number in range(2000) for at in [now - timedelta(days=20, minutes=-number)]
)
Attempt.objects.bulk_create(
    Attempt(job=job, number=1, started_at=job.started_at, ended_at=job.ended_at, outcome=done)
    for job in jobs
)
"""
"""Enough that it takes a while: by far more than the lab's twelve GPUs could run in that time."""


@pytest.fixture(scope="module")
def lab(data: Path) -> Iterator[Carrel]:
    with Carrel(data, practice=True) as started:
        started.manage("shell", "-c", JOBS)
        yield started


def processes(carrel: Carrel) -> list[int]:
    """Those that play a trial of this portal."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"what_if" in words and f"PORT={carrel.port}\0".encode() in environment:
            found.append(int(entry.name))
    return found


def ask(page: Page, gpus: str) -> None:
    page.goto("/what-if/new/")
    page.get_by_label("Project", exact=True).first.select_option("vision")
    page.get_by_label("GPUs at once").first.fill(gpus)
    page.get_by_role("button", name="Try it").click()


def head(page: Page, name: str) -> None:
    expect(page.get_by_role("heading", level=2, name=name)).to_be_visible(timeout=150_000)


def test_killed_or_cancelled_it_says_so_and_can_be_started_again(
    lab: Carrel, browser: Browser
) -> None:
    visitor = Visitor(browser, lab.address)
    visitor.sign_in(lab.manage("sign_in_link").strip())
    page = visitor.page
    again = page.get_by_role("button", name="Start it again")
    ask(page, "8")
    until(lambda: processes(lab), lambda: lab.told)
    os.kill(processes(lab)[0], signal.SIGKILL)
    head(page, "It was not finished")
    again.click()
    until(lambda: processes(lab), lambda: lab.told)
    lab.kill("worker")
    until(lambda: not processes(lab), lambda: lab.told)
    head(page, "It was not finished")
    again.click()
    until(lambda: processes(lab), lambda: lab.told)
    page.get_by_role("button", name="Cancel").click()
    head(page, "It was cancelled")
    until(lambda: not processes(lab), lambda: lab.told)
    assert visitor.complaints == []


def test_a_few_jobs_are_played_to_the_end(lab: Carrel, browser: Browser) -> None:
    lab.manage("shell", "-c", FEW)
    visitor = Visitor(browser, lab.address)
    visitor.sign_in(lab.manage("sign_in_link").strip())
    page = visitor.page
    ask(page, "8")
    head(page, "What came of it")
    row = page.get_by_role("region", name="By project").get_by_role("row", name="vision")
    # Four at a time take four rounds of an hour: 1.5 h in the mean. Two rounds are 0.5 h.
    expect(row).to_contain_text("1 h 30 min → 30 min 00 s")
    assert visitor.complaints == []


FEW = """
from portal.models import Attempt, Job
kept = list(Job.objects.filter(name="past").order_by("pk").values_list("pk", flat=True)[:8])
Attempt.objects.exclude(job__in=kept).filter(job__name="past").delete()
Job.objects.filter(name="past").exclude(pk__in=kept).delete()
at = Job.objects.get(pk=kept[0]).submitted_at
Job.objects.filter(pk__in=kept).update(submitted_at=at, band="batch")
"""
