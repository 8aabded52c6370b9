"""Which quota an administrator tries, and what of it, in the form and in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.limits import Scope
from jobs.scheduler.simulate.changes import Changes
from jobs.scheduler.simulate.quota_change import QuotaChange
from portal.actions import what_if as actions
from portal.forms.quota_tried import MORE, NUMBERS
from portal.models import Attempt, Node, Partition, Project, User, WhatIf
from tests.portal import cast

EMPTY = {"period": "7d", "order": "", "backfill": "", "reservations": "", "lends_at_top": ""}
MODEL = "NVIDIA A100-SXM4-80GB"


@pytest.fixture
def lab(alice: User, project: Project, node: Node) -> Project:
    """A job of yesterday."""
    at = timezone.now() - timedelta(days=1)
    job = cast.job(alice, project, state=State.COMPLETED, submitted_at=at, started_at=at)
    Attempt.objects.create(job=job, number=1, started_at=at, ended_at=at, outcome="COMPLETED")
    return project


def send(client: Client, *quotas: dict[str, Any]) -> Any:
    rows = (
        {f"quota-{number}-{name}": value for name, value in ({"project": "vision"} | one).items()}
        for number, one in enumerate(quotas)
    )
    data: dict[str, Any] = {**EMPTY}
    for row in rows:
        data |= row
    return client.post("/what-if/new/", data)


def tried() -> tuple[QuotaChange, ...]:
    return Changes.read(WhatIf.objects.get().changes).quotas


def test_all_of_a_quota_can_be_tried(lab: Project, as_admin: Client) -> None:
    Partition.objects.create(name="cpu")
    send(as_admin, {
        "scope": "user", "band": "batch", "gpus": "2.5", "jobs_running": "3",
        "walltime": "1-12", "gpu_hours": "100", "period": "rolling", "period_days": "7",
        "partitions": ["cpu", "gpu"], "gpu_models": [MODEL],
    })  # fmt: skip
    assert tried() == (
        QuotaChange(
            lab.pk, Scope.USER, Band.BATCH, 2.5, 3, 36 * 3600, 100, 7, ("cpu", "gpu"), (MODEL,)
        ),
    )
    whose = "vision, each user in batch"
    assert WhatIf.objects.get().said == [
        [whose, "any number of GPUs at once", "at most 2.5 GPUs at once"],
        [whose, "any number of jobs running", "at most 3 jobs running"],
        [whose, "any walltime", "walltimes up to 36 h"],
        [whose, "any number of GPU-hours", "at most 100 GPU-hours in any 7 days"],
        [whose, "in any partition", "in partitions cpu, gpu"],
        [whose, "on any GPU model", f"on GPU model {MODEL}"],
    ]


def test_none_is_no_limit_and_empty_is_as_it_is(lab: Project, as_admin: Client) -> None:
    lab.quotas.create(
        gpus=4, jobs_running=1, walltime_s=90, gpu_hours=5, partitions=["gpu"], gpu_models=[MODEL]
    )
    send(as_admin, {
        "gpus": " None ", "walltime": "UNLIMITED", "gpu_hours": "none", "gpu_models": ["*"],
    })  # fmt: skip
    lifted = ("gpus", "gpu_hours", "walltime_s", "gpu_models")
    assert tried() == (QuotaChange(lab.pk, lifted=lifted),)
    assert WhatIf.objects.get().said == [
        ["vision", "at most 4 GPUs at once", "any number of GPUs at once"],
        ["vision", "walltimes up to 1 min 30 s", "any walltime"],
        ["vision", "at most 5 GPU-hours in a calendar month", "any number of GPU-hours"],
        ["vision", f"on GPU model {MODEL}", "on any GPU model"],
    ]


def test_another_period_is_a_change_where_there_is_a_limit(lab: Project, as_admin: Client) -> None:
    answer = send(as_admin, {"period": "rolling", "period_days": "1"})
    assert "Nothing would change." in answer.text
    lab.quotas.create(gpu_hours=1, period="rolling", period_days=30)
    send(as_admin, {"period": "month"})
    before, then = "at most 1 GPU-hour in any 30 days", "at most 1 GPU-hour in a calendar month"
    assert WhatIf.objects.get().said == [["vision", before, then]]


def test_several_quotas_of_a_project_and_of_others(lab: Project, as_admin: Client) -> None:
    other = Project.objects.create(name="robots")
    send(
        as_admin, {"gpus": "0"}, {"scope": "user", "gpus": "1"},
        {"band": "best-effort", "walltime": "1:00:00"},
    )  # fmt: skip
    assert tried() == (
        QuotaChange(lab.pk, gpus=0),
        QuotaChange(lab.pk, Scope.USER, gpus=1),
        QuotaChange(lab.pk, band=Band.BEST_EFFORT, walltime_s=3600),
    )
    said = [f"{whose}: {then}" for whose, _, then in WhatIf.objects.get().said]
    assert said == [
        "vision: at most 0 GPUs at once",
        "vision, each user: at most 1 GPU at once",
        "vision in best-effort: walltimes up to 1 h",
    ]
    WhatIf.objects.all().delete()
    send(as_admin, {"project": other.name, "gpus": "none"}, {"jobs_running": "9"})
    assert [what for what, _, _ in WhatIf.objects.get().said] == ["vision"], "robots has no limit"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("project", "nobody", "Select a valid choice. nobody is not"),
        ("project", "vis\0ion", "Select a valid choice."),
        ("project", "", "Say which project."),
        ("scope", "all", "Select a valid choice. all is not"),
        ("band", "silver", "Select a valid choice. silver is not"),
        ("gpus", "-1", "Give 0 or more. For no limit say none."),
        ("gpus", "nan", "Enter a number. For no limit say none."),
        ("gpus", "viele", "Enter a number. For no limit say none."),
        ("gpus", "1e10", "Give 1,000,000,000 or less."),
        ("gpus", "9" * 50, "at most 40 characters"),
        ("jobs_running", "1.5", "Enter a whole number."),
        ("jobs_running", "-1", "Give 0 or more."),
        ("walltime", "soon", "For no limit say none."),
        ("walltime", "0", "For no limit say none."),
        ("gpu_hours", "inf", "Enter a number."),
        ("gpu_hours", "\0", "Null characters are not allowed."),
        ("period", "year", "Select a valid choice. year is not"),
        ("period", "rolling", None),
        ("period_days", "0", "Give 1 or more."),
        ("period_days", "3661", "Give 3,660 or less."),
        ("partitions", ["tpu"], "Select a valid choice. tpu is not"),
        ("partitions", ["*", "gpu"], "Choose all, or some of them."),
        ("gpu_models", ["*", MODEL], "Choose all, or some of them."),
    ],
)
def test_bad_input_is_told_beside_its_field(
    lab: Project, as_admin: Client, name: str, given: Any, said: str | None
) -> None:
    answer = send(as_admin, {"jobs_running": "1", name: given})
    assert answer.status_code == 422 and not WhatIf.objects.exists()
    row = answer.context["forms"].quotas[0]
    wrong = row.errors.get(name, []) if said else row.errors.get("period_days", [])
    assert (said or "Say how many days.") in " ".join(wrong)
    assert row.is_more_used == (name in MORE)


@pytest.mark.parametrize("name", ["gpus", "jobs_running", "gpu_hours"])
def test_best_effort_counts_against_nothing(lab: Project, as_admin: Client, name: str) -> None:
    answer = send(as_admin, {"band": "best-effort", name: "1"})
    errors = answer.context["forms"].quotas[0].errors
    assert errors == {name: ["What runs in best-effort counts against no quota."]}


def test_days_are_for_the_last_days_only(lab: Project, as_admin: Client) -> None:
    for period in ("", "month"):
        answer = send(as_admin, {"gpu_hours": "1", "period": period, "period_days": "7"})
        assert list(answer.context["forms"].quotas[0].errors) == ["period"]


def test_one_quota_is_tried_once(lab: Project, as_admin: Client) -> None:
    one = {"scope": "user", "band": "batch"}
    answer = send(as_admin, one | {"gpus": "1"}, one | {"jobs_running": "2"})
    assert "It is chosen twice. Choose it once." in answer.text
    assert not WhatIf.objects.exists()


def test_what_is_used_stays_open(lab: Project, as_admin: Client) -> None:
    page = as_admin.get("/what-if/new/").text
    assert '<details class="more" open>' not in page
    empty = {"project": "", "scope": "project", "band": "", "gpus": "", "period": ""}
    page = send(as_admin, {}, {"gpus": "-1"}, empty).text
    assert page.count('<details class="more" open>') == 1
    assert all(f"-{name}" in page for name in (*NUMBERS, *MORE))


def test_a_name_that_is_gone_is_told_when_it_is_asked_for_again(
    lab: Project, admin: User, as_admin: Client
) -> None:
    Partition.objects.create(name="cpu")
    send(as_admin, {"partitions": ["cpu"]})
    row = WhatIf.objects.get()
    actions.cancel(row=row, actor=admin, now=timezone.now())
    Partition.objects.get(name="cpu").delete()
    page = as_admin.post(f"/what-if/{row.pk}/again/", follow=True).text
    assert "There is no cpu; there is gpu." in page


def test_the_page_says_what_was_tried(lab: Project, as_admin: Client) -> None:
    send(as_admin, {"scope": "user", "band": "batch", "gpus": "2"})
    row = WhatIf.objects.get()
    page = as_admin.get(f"/what-if/{row.pk}/").text
    assert "What if: vision, each user in batch: at most 2 GPUs at once" in page


def test_of_many_changes_the_list_tells_the_first(lab: Project, as_admin: Client) -> None:
    four = {"gpus": "1", "jobs_running": "1", "walltime": "1:00:00", "gpu_hours": "1"}
    send(as_admin, four)
    page = as_admin.get("/what-if/").text
    assert "any walltime → walltimes up to 1 h</a> and 1 more" in page
    assert "GPU-hour in a calendar month" not in page


def test_a_trial_of_an_older_version_is_shown_and_asked_for_again(
    lab: Project, admin: User, as_admin: Client
) -> None:
    now = timezone.now()
    old = {"project_id": lab.pk, "gpus": 2.0, "unlimited": False, "shares": None, "lends": None}
    row = WhatIf.objects.create(
        asked_by=admin, asked_at=now, since=now - timedelta(days=7), until=now,
        changes={
            "order": None, "backfill": None, "reservations": None, "lends_at_top": None,
            "projects": [old], "nodes": [],
        },
        said=[["GPUs at once of vision", "no limit", "2"]], state=WhatIf.State.FAILED,
    )  # fmt: skip
    assert "What if: GPUs at once of vision: 2" in as_admin.get(f"/what-if/{row.pk}/").text
    as_admin.post(f"/what-if/{row.pk}/again/")
    again = WhatIf.objects.first()
    assert again is not None and again.pk != row.pk
    assert Changes.read(again.changes).quotas == (QuotaChange(lab.pk, gpus=2),)
    actions._begin(now)
    actions.play(pk=again.pk, clock=timezone.now, told=lambda part: None)
    again.refresh_from_db()
    assert again.state == WhatIf.State.DONE
