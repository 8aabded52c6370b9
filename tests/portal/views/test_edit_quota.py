"""Quotas as administrators set them, with what they would mean for the jobs there are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from portal.actions import schedule
from portal.models import Job, Node, Project, Quota, User
from tests.portal import cast
from tests.portal.views.forms import edited, last, preview, refused, save


def test_a_quota_is_set_for_one_scope_and_band(
    as_admin: Client, project: Project, node: Node
) -> None:
    there = "/projects/vision/quota/?scope=user&band=batch"
    given = {
        "gpus": "2.5", "gpu_hours": "100", "period": "rolling", "period_days": "30",
        "walltime": "2-12", "partitions": ["gpu"], "gpu_models": ["NVIDIA A100-SXM4-80GB"],
        "jobs_running": "0",
    }  # fmt: skip
    assert save(as_admin, there, **given)["Location"] == "/projects/vision/#quotas"
    row = Quota.objects.get()
    assert (row.scope, row.band, row.gpus, row.gpu_hours) == ("user", "batch", 2.5, 100)
    assert (row.period, row.period_days, row.walltime_s) == ("rolling", 30, 216_000)
    assert (row.partitions, row.jobs_running, row.jobs_pending) == (["gpu"], 0, None)
    page = as_admin.get(there).text
    for words in ('value="2.5"', 'value="2-12:00:00"', 'value="30"', "checked"):
        assert words in page, "the form is filled with what is so"
    assert 'value="2.5"' not in as_admin.get("/projects/vision/quota/").text
    save(as_admin, there)
    assert not Quota.objects.exists(), "without any limit there is none"
    assert last()[0] == "quota set"


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"gpus": "-1"}, "gpus", "Give 0 or more."),
        ({"gpus": "nan"}, "gpus", "Enter a number."),
        ({"gpus": "1e999"}, "gpus", "Enter a number."),
        ({"gpus": "1e300"}, "gpus", "Give 1,000,000,000 or less."),
        ({"gpu_hours": "1e300"}, "gpu_hours", "Give 1,000,000,000 or less."),
        ({"gpu_hours": "lots"}, "gpu_hours", "Enter a number."),
        ({"gpu_hours": "1", "period": "rolling"}, "period_days", "Say how many days."),
        ({"gpu_hours": "1", "period": "year"}, "period", "Select a valid choice"),
        ({"period_days": "99999"}, "period_days", "Give 3,660 or less."),
        ({"walltime": "soon"}, "walltime", "is not a time"),
        ({"jobs_running": "9999999999"}, "jobs_running", "or less."),
        ({"partitions": "nowhere"}, "partitions", "Select a valid choice"),
        ({"gpu_models": "\N{OCTOPUS}"}, "gpu_models", "Select a valid choice"),
    ],
)
def test_what_is_no_quota_is_refused_by_field(
    as_admin: Client, project: Project, given: dict[str, str], field: str, message: str
) -> None:
    found = refused(as_admin, "/projects/vision/quota/", **given)
    assert list(found) == [field]
    assert message in found[field][0]


def test_the_largest_quota_stops_no_pass(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    for row in ("scope=project", "scope=user&band=batch"):
        save(as_admin, f"/projects/vision/quota/?{row}", gpus="1e9", gpu_hours="1e9")
    cast.job(alice, project)
    assert schedule.schedule(now=timezone.now()) == 1
    assert as_admin.get("/projects/vision/").status_code == 200


def test_best_effort_counts_against_nothing(as_admin: Client, project: Project) -> None:
    there = "/projects/vision/quota/?band=best-effort"
    assert 'name="gpus"' not in as_admin.get(there).text
    save(as_admin, there, jobs_pending="5")
    assert Quota.objects.get().jobs_pending == 5


def test_a_preview_names_the_jobs_that_a_quota_concerns(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    def running(name: str, gpu: int, minutes: int, band: Band) -> Job:
        job = cast.job(alice, project, state=State.RUNNING, name=name, band=band)
        since = timezone.now() - timedelta(minutes=minutes)
        Job.objects.filter(pk=job.pk).update(started_at=since)
        cast.run(job, node, gpu)
        return job

    running("old", 0, 50, Band.BATCH)
    running("young", 1, 5, Band.BATCH)
    running("dear", 2, 1, Band.PRODUCTION)
    running("free", 3, 30, Band.BEST_EFFORT)
    cast.job(alice, project, name="large", gpus=4)
    cast.job(alice, project, name="small", gpus=1)
    whole = cast.job(alice, project, name="whole", gpus=1)
    asked = {"name": "whole", "resources": {"gpus_per_node": 1, "exclusive": True}}
    Job.objects.filter(pk=whole.pk).update(spec=asked)
    found = preview(as_admin, "/projects/vision/quota/", gpus="2").context["preview"]
    assert [hit.job.name for hit in found.over] == ["young"], "the least that has to go"
    assert "Project vision may use 2 GPUs at once" in found.over[0].why
    assert {hit.job.name for hit in found.never} == {"large", "whole"}
    shown = preview(as_admin, "/projects/vision/quota/", walltime="0:30:00")
    assert shown.context["preview"].over_count == 3
    assert "These 3 running jobs would be over a limit" in shown.text
    assert "These 3 waiting jobs could never start" in shown.text
    assert "Nothing else would change now" in shown.text
    save(as_admin, "/projects/vision/quota/", walltime="0:30:00")
    after = preview(as_admin, "/projects/vision/quota/", walltime="8:00:00").context["preview"]
    assert (after.over_count, after.never_count, after.freed_count) == (0, 0, 3)


def test_how_many_may_wait_is_no_limit_of_who_waits_or_runs_already(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    cast.job(alice, project)
    found = preview(as_admin, "/projects/vision/quota/", jobs_pending="0").context["preview"]
    assert (found.over, found.never) == ([], [])


def test_a_preview_names_who_would_have_too_few_nodes_of_the_models_that_are_left(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    """They name none themselves: two nodes, or a whole one that has another GPU, too."""
    other = cast.node("gpu-2")
    other.gpus.filter(index__lt=3).update(model="NVIDIA H100 80GB HBM3")
    for name, asked in {
        "wide": {"nodes": 2, "gpus_per_node": 2}, "whole": {"only_nodes": ["gpu-2"]},
    }.items():  # fmt: skip
        job = cast.job(alice, project, name=name)
        resources = {"gpus_per_node": 1, "exclusive": name == "whole"} | asked
        Job.objects.filter(pk=job.pk).update(spec={"name": name, "resources": resources})
    cast.job(alice, project, name="cpus", gpus=0)
    then = cast.job(alice, project, name="then", gpus=4)
    Job.objects.filter(pk=then.pk).update(
        spec={
            "name": "then",
            "resources": {"gpus_per_node": 4},
            "dependencies": [{"kind": "afterany", "job_id": then.pk - 2}],
        }
    )
    shown = preview(
        as_admin, "/projects/vision/quota/", gpu_models=["NVIDIA A100-SXM4-80GB"]
    )  # fmt: skip
    found = shown.context["preview"]
    assert {hit.job.name for hit in found.never} == {"wide", "whole"}
    assert all("has too few nodes" in hit.why for hit in found.never)
    assert [hit.job.name for hit in found.planned.lost.hits] == ["then"], "that waits for one"
    assert "This waiting job would have no expected start any more." in shown.text
    save(as_admin, "/projects/vision/quota/", gpu_models=["NVIDIA A100-SXM4-80GB"])
    free = preview(as_admin, "/projects/vision/quota/")
    assert free.context["preview"].freed_count == 2
    assert "not known</td>" in free.text


def test_a_move_is_under_the_limits_of_what_is_above(
    as_admin: Client, alice: User, project: Project
) -> None:
    lab = Project.objects.create(name="lab")
    Quota.objects.create(project=lab, gpus=1)
    cast.job(alice, project, gpus=2, name="large")
    found = preview(as_admin, "/projects/vision/edit/", **edited(project, parent="lab"))
    assert [hit.job.name for hit in found.context["preview"].never] == ["large"]


def test_a_preview_asks_as_many_queries_for_many_jobs(
    as_admin: Client, alice: User, project: Project
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            preview(as_admin, "/projects/vision/quota/", gpus="1")
        return len(seen)

    def grow(many: int) -> None:
        for number in range(many):
            job = cast.job(alice, project, state=State.RUNNING, gpus=2)
            cast.run(job, cast.node(f"n{job.pk}-{number}"), 0, 1)
            cast.job(alice, project, gpus=2)

    grow(2)
    queries()  # The first one reads what ended before.
    few = queries()
    grow(25)
    assert queries() == few
