"""The scheduling policy as administrators set it, planned before it is saved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.policy import Policy
from portal.models import Job, Node, Project, SchedulingPolicy, User
from portal.queries import accounts
from tests.portal import cast
from tests.portal.views.forms import filled, last, preview, refused, save

POLICY = "/settings/policy/"


def running(owner: User, node: Node, gpu: int, minutes: int, **columns: Any) -> Job:
    began = timezone.now() - timedelta(minutes=minutes)
    told = {"state": State.RUNNING, "started_at": began, "walltime_s": 20_000}
    job = cast.job(owner, Project.objects.get(), **told | columns)
    cast.run(job, node, gpu)
    return job


def test_the_form_is_filled_with_what_is_so(as_admin: Client) -> None:
    page = as_admin.get(POLICY).text
    assert "Now 16, the default." in page
    save(as_admin, POLICY, **filled(as_admin, POLICY, reservations="3", grace_s="90.5"))
    row = SchedulingPolicy.objects.get()
    assert (row.reservations, row.grace_s, row.order) == (3, 90.5, "priority")
    assert last() == ("policy set", {"reservations": [16, 3], "grace_s": [60.0, 90.5]})
    page = as_admin.get(POLICY).text
    assert "Now 3; default 16." in page
    assert 'value="90.5"' in page
    assert "jobs promised a time: 16 → 3" in page, "the last changes are at its foot"
    assert "grace: 1 min → 90.5 s" in page
    assert ">root</a>" in page


def test_all_of_it_is_what_the_scheduler_is_told(as_admin: Client) -> None:
    save(as_admin, POLICY, **filled(
        as_admin, POLICY, order="response-ratio", backfill="easy", min_run="2.5",
        max_preemptions="0", preempts_monitoring=[], preempts_batch=[],
        preempts_production=["batch", "best-effort"],
    ))  # fmt: skip
    told = accounts.policy()
    assert (told.order, told.backfill, told.min_run_s) == ("response-ratio", "easy", 150.0)
    assert told.preempts == {Band.PRODUCTION: frozenset({Band.BATCH, Band.BEST_EFFORT})}
    assert told.max_preemptions == 0
    assert "production: batch, best-effort" in as_admin.get("/settings/").text


def test_what_is_so_already_is_not_saved(as_admin: Client) -> None:
    shown = preview(as_admin, POLICY, **filled(as_admin, POLICY))
    assert "Nothing: it is so already." in shown.text
    assert accounts.policy() == Policy()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("order", "by name", "Select a valid choice"),
        ("order", "", "This field is required."),
        ("backfill", "\N{OCTOPUS}", "Select a valid choice"),
        ("reservations", "0", "Give 1 or more."),
        ("reservations", "-1", "Give 1 or more."),
        ("reservations", "9" * 30, "Give 20,000 or less."),
        ("reservations", "1.5", "Enter a whole number."),
        ("reservations", "", "This field is required."),
        ("grace_s", "-1", "Give 0 or more."),
        ("grace_s", "nan", "Enter a number."),
        ("grace_s", "1e300", "Give 2,592,000 or less."),
        ("grace_s", "", "This field is required."),
        ("min_run", "inf", "Enter a number."),
        ("min_run", "-0.5", "Give 0 or more."),
        ("min_run", "43201", "Give 43,200 or less."),
        ("min_run", "\N{OCTOPUS}", "Enter a number."),
        ("max_preemptions", "-1", "Give 0 or more."),
        ("max_preemptions", "9999999999", "Give 1,000 or less."),
        ("preempts_batch", ["batch"], "Select a valid choice"),
        ("preempts_production", ["batch", "monitoring"], "Select a valid choice"),
        ("preempts_monitoring", ["\x00"], "Select a valid choice"),
    ],
)
def test_what_is_no_policy_is_refused_by_field(
    as_admin: Client, field: str, value: Any, message: str
) -> None:
    found = refused(as_admin, POLICY, **filled(as_admin, POLICY) | {field: value})
    assert list(found) == [field]
    assert message in found[field][0]


def test_bands_named_twice_count_once(as_admin: Client) -> None:
    given = filled(as_admin, POLICY, preempts_production=["batch", "batch"])
    save(as_admin, POLICY, **given)
    assert accounts.policy().preempts[Band.PRODUCTION] == frozenset({Band.BATCH})


def test_nothing_sent_is_refused_and_not_taken_as_defaults(as_admin: Client) -> None:
    found = refused(as_admin, POLICY)
    assert found.keys() == {
        "order", "backfill", "reservations", "grace_s", "min_run", "max_preemptions",
    }  # fmt: skip


def test_a_preview_names_who_would_be_first(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    """Both need all of a node that is taken; the order decides who has it next."""
    running(alice, node, 0, 5, gpus=1)
    came = {"submitted_at": timezone.now() - timedelta(minutes=10)}
    long = cast.job(alice, project, gpus=4, name="long", walltime_s=7200, **came)
    short = cast.job(alice, project, gpus=4, name="short", walltime_s=600, **came)
    given = filled(as_admin, POLICY, order="shortest")
    shown = preview(as_admin, POLICY, **given)
    (turn,) = shown.context["preview"].planned.turns
    assert (turn.partition, turn.before, turn.after) == ("gpu", long, short)
    assert f"job {short.pk}</a> (short of alice) would be first in place of" in shown.text
    assert [start.job for start in shown.context["preview"].planned.starts] == [short, long]
    assert "short jobs pass long ones. After 14 days one job of each user" in shown.text
    usual = preview(as_admin, POLICY, **filled(as_admin, POLICY, grace_s="10"))
    assert "short jobs pass" not in usual.text
    assert "Nothing would change now: the same jobs start" in usual.text


def test_a_preview_names_who_could_be_preempted_and_who_would_be(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    running(alice, node, 0, 60, name="old")
    running(alice, node, 1, 2, name="young")
    running(alice, node, 2, 60, name="dear", band=Band.PRODUCTION)
    urgent = cast.job(alice, project, gpus=2, band=Band.PRODUCTION, name="urgent")
    given = filled(as_admin, POLICY, preempts_production=["batch", "best-effort"])
    shown = preview(as_admin, POLICY, **given)
    found = shown.context["preview"].planned
    assert [hit.job.name for hit in found.exposed.hits] == ["old"], "the young one has just begun"
    assert [hit.job.name for hit in found.preempted.hits] == ["old"]
    assert f"It would make room for job {urgent.pk}." in shown.text
    assert "This running job could be preempted from now on" in shown.text
    save(as_admin, POLICY, **given)
    back = filled(as_admin, POLICY, preempts_production=["best-effort"])
    assert "This running job could no longer be preempted" in preview(as_admin, POLICY, **back).text
    sooner = preview(as_admin, POLICY, **filled(as_admin, POLICY, min_run="1"))
    assert [hit.job.name for hit in sooner.context["preview"].planned.exposed.hits] == ["young"]
