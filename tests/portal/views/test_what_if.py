"""The pages on which administrators try changes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import State as JobState
from jobs.scheduler.simulate.changes import Changes, NodesChange, ProjectChange
from portal.actions import what_if as actions
from portal.models import Attempt, Node, Project, User, WhatIf
from portal.queries.what_if import lines, project_lines
from portal.templatetags.what_if import difference
from tests.portal import cast

KIND = "gpu: 4 x NVIDIA A100-SXM4-80GB"
EMPTY = {
    "period": "7d", "order": "", "backfill": "", "reservations": "", "lends_at_top": "",
}  # fmt: skip


@pytest.fixture
def lab(alice: User, project: Project, node: Node) -> Project:
    """Jobs of yesterday: of three that take the node only one never waits."""
    for _ in range(3):
        at = timezone.now() - timedelta(days=1)
        end = at + timedelta(minutes=10)
        job = cast.job(
            alice, project, gpus=4, state=JobState.COMPLETED, submitted_at=at, started_at=at,
            ended_at=end,
        )  # fmt: skip
        Attempt.objects.create(
            job=job, number=1, started_at=at, ended_at=end, outcome=JobState.COMPLETED
        )
    return project


def send(client: Client, **fields: Any) -> Any:
    return client.post("/what-if/new/", EMPTY | fields)


def played(client: Client, **fields: Any) -> WhatIf:
    send(client, **fields)
    row = WhatIf.objects.get()
    actions._begin(timezone.now())
    actions.play(pk=row.pk, clock=timezone.now, told=lambda part: None)
    row.refresh_from_db()
    return row


def test_only_administrators_see_and_ask(lab: Project, as_alice: Client, as_admin: Client) -> None:
    row = played(as_admin, order="shortest")
    for url in ("/what-if/", "/what-if/new/", f"/what-if/{row.pk}/"):
        assert as_alice.get(url).status_code == 403
        assert as_admin.get(url).status_code == 200
    for url in ("/what-if/new/", f"/what-if/{row.pk}/cancel/", f"/what-if/{row.pk}/again/"):
        assert as_alice.post(url).status_code == 403
    assert WhatIf.objects.count() == 1
    assert "/what-if/" in as_admin.get("/projects/").text
    assert "/what-if/" not in as_alice.get("/projects/").text


def test_the_empty_list_says_what_to_do(as_admin: Client) -> None:
    assert "Nothing was tried yet." in as_admin.get("/what-if/").text


def test_all_that_can_be_changed_is_asked_for(lab: Project, as_admin: Client) -> None:
    fields = {
        "order": "shortest", "backfill": "easy", "reservations": "3", "lends_at_top": "yes",
        "project-0-project": lab.name, "project-0-shares": "7", "project-0-lends": "no",
        "nodes-0-kind": KIND, "nodes-0-more": "-1",
    }  # fmt: skip
    answer = send(as_admin, **fields)
    row = WhatIf.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/what-if/{row.pk}/")
    assert Changes.read(row.changes) == Changes(
        "shortest", "easy", 3, True, (ProjectChange(lab.pk, 7, False),),
        (NodesChange(KIND, -1),),
    )  # fmt: skip
    assert round((row.until - row.since).total_seconds()) == 7 * 86_400
    # What is so already is not told as a change.
    assert [what for what, _, _ in row.said] == [
        "Order", "Backfill", "Jobs promised a time", "Projects at the top lend",
        "Shares of vision", f"Nodes {KIND}",
    ]  # fmt: skip


def test_a_node_that_has_not_told_what_it_has_is_of_no_kind(lab: Project, as_admin: Client) -> None:
    other = cast.node("n2", gpus=4)
    Node.objects.filter(pk=other.pk).update(cpus=0, memory_mib=0)
    assert "0 CPUs" not in as_admin.get("/what-if/").text
    row = played(as_admin, **{"nodes-0-kind": KIND, "nodes-0-more": "1"})
    assert row.state == WhatIf.State.DONE


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Nothing would change. Say what is to be tried."),
        ({"period": ""}, "This field is required."),
        ({"period": "9y"}, "Select a valid choice. 9y is not one of the available choices."),
        ({"period": "last-month", "order": "shortest"}, "No job is of that time."),
        ({"order": "best"}, "Select a valid choice. best is not"),
        ({"backfill": "\0"}, "Select a valid choice."),
        ({"reservations": "0"}, "Give 1 or more."),
        ({"reservations": "1e3"}, "Enter a whole number."),
        ({"reservations": "1001"}, "Give 1,000 or less."),
        ({"project-0-shares": "0"}, "Say which project."),
        ({"project-0-project": "nobody"}, "Select a valid choice. nobody is not"),
        ({"project-0-project": "vis\0ion"}, "Select a valid choice."),
        ({"project-0-project": "vision", "project-0-shares": "-1"}, "Give 0 or more."),
        ({"project-0-project": "vision", "project-0-shares": "9" * 30}, "or less."),
        ({"project-0-project": "vision", "project-0-lends": "maybe"}, "maybe is not one of"),
        (
            {"project-0-project": "vision", "project-1-project": "vision", "project-1-shares": "1"},
            "It is chosen twice. Choose it once.",
        ),
        ({"nodes-0-more": "2"}, "Say which nodes."),
        ({"nodes-0-kind": "gpu: 1 x Z", "nodes-0-more": "2"}, "gpu: 1 x Z is not one of"),
        ({"nodes-0-kind": KIND, "nodes-0-more": "-2"}, "2 nodes cannot go: of gpu: 4 x"),
        ({"nodes-0-kind": KIND, "nodes-0-more": "1001"}, "Give 1,000 or less."),
    ],
)
def test_bad_input_is_told_beside_its_field(
    lab: Project, as_admin: Client, fields: dict[str, str], said: str
) -> None:
    answer = send(as_admin, **fields)
    assert answer.status_code == 422
    assert said in answer.text
    assert not WhatIf.objects.exists()


@pytest.mark.parametrize(
    ("rows", "fields"), [("", 3), ("12", 12), ("x", 3), ("9999", 30), ("²", 3)]
)
def test_more_projects_can_be_changed(as_admin: Client, rows: str, fields: int) -> None:
    page = as_admin.get("/what-if/new/", {"rows": rows}).text
    for what in ("quota", "project"):
        assert len(re.findall(f'name="{what}-[0-9]+-project"', page)) == fields


def test_what_is_not_modelled_is_said_before_and_after(lab: Project, as_admin: Client) -> None:
    words = "Not modelled: limits on waiting jobs, reservations of nodes, deadlines"
    row = played(as_admin, order="shortest")
    for url in ("/what-if/new/", f"/what-if/{row.pk}/"):
        assert words in as_admin.get(url).text


def test_what_came_of_it(lab: Project, as_admin: Client) -> None:
    row = played(as_admin, **{"nodes-0-kind": KIND, "nodes-0-more": "2"})
    page = as_admin.get(f"/what-if/{row.pk}/").text
    # On one node they run one after the other: 0, 10 and 20 minutes; on three beside each other.
    assert row.result["now"]["mean_wait_s"] == 600 and row.result["then"]["mean_wait_s"] == 0
    assert "10 min 00 s less, " in page and "both columns are simulated" in page
    assert "In reality these jobs waited 0 s in the mean" in page
    assert 'hx-trigger="every' not in page
    listed = as_admin.get("/what-if/").text
    assert f"Nodes {KIND}: 1 → 3" in listed and "10 min 00 s" in listed


@pytest.mark.parametrize(
    ("other_nodes", "said"),
    [
        (False, '50.0 points less, <span class="worse">worse</span>'),
        (True, "50.0 points less"),
    ],
)
def test_a_smaller_part_of_more_gpus_is_not_worse(other_nodes: bool, said: str) -> None:
    figures = (
        "mean_wait_s", "median_wait_s", "p99_wait_s", "mean_completion_s", "fairness",
        "preemptions", "lost_gpu_hours", "refused",
    )  # fmt: skip
    now, then = (
        dict.fromkeys(figures, 0) | {"jobs": 1, "allocated_share": part} for part in (0.9, 0.4)
    )
    found = lines({"now": now, "then": then}, other_nodes=other_nodes)
    told = {line.name: difference(line) for line in found}
    assert told == dict.fromkeys(told, "about the same") | {"GPUs in use": said}


def test_where_jobs_are_refused_nothing_else_is_better(lab: Project, as_admin: Client) -> None:
    """Only the one that never starts any more would have waited."""
    small = cast.person("bob", Project.objects.create(name="small"))
    job = cast.job(
        small, Project.objects.get(name="small"), gpus=2, state=JobState.COMPLETED,
        submitted_at=timezone.now() - timedelta(hours=9),
    )  # fmt: skip
    at = timezone.now() - timedelta(hours=8)
    Attempt.objects.create(job=job, number=1, started_at=at, ended_at=at, outcome="COMPLETED")
    row = played(as_admin, **{"quota-0-project": "vision", "quota-0-gpus": "2"})
    assert row.result["then"]["mean_wait_s"] < row.result["now"]["mean_wait_s"]
    page = as_admin.get(f"/what-if/{row.pk}/")
    told = {line.name: line.better for line in page.context["lines"]}
    refused = told.pop("Jobs that could never start")
    assert refused is False and set(told.values()) == {None}
    assert "<strong>The two columns are not of the same jobs:</strong> 3 could start" in page.text
    assert 'class="better"' not in page.text
    assert "not of the same jobs" in as_admin.get("/what-if/").text


def test_where_no_job_was_played_there_are_no_figures(lab: Project, as_admin: Client) -> None:
    row = played(as_admin, **{"quota-0-project": "vision", "quota-0-gpus": "0"})
    page = as_admin.get(f"/what-if/{row.pk}/")
    lines = {line.name: line for line in page.context["lines"]}
    assert lines["Jobs that could never start"].then == 3
    assert lines["Mean wait"].now == 600 and lines["Mean wait"].then is None
    assert page.text.count('data-label="with the change">none<') == 8
    assert 'data-label="with the change">none<' in as_admin.get("/what-if/").text


def test_a_project_is_compared_over_the_same_jobs_only() -> None:
    side = {"jobs": 2, "mean_wait_s": 60.0, "p99_wait_s": 60.0, "slowdown": 2.0}
    less = side | {"mean_wait_s": 0.0, "p99_wait_s": 0.0, "slowdown": 1.0}
    result = {
        "now": {"projects": {"a": side, "b": side, "c": side}},
        "then": {"projects": {"a": less, "b": less, "c": less | {"jobs": 1}}},
        "differ": {"b": 2},
    }
    found = {line.name: line for line in project_lines(result)}
    better = {name: line.mean.better for name, line in found.items() if line.mean}
    assert better == {"a": True, "b": None, "c": None}


def test_while_it_is_at_work_the_page_asks_again_and_can_cancel(
    lab: Project, as_admin: Client
) -> None:
    send(as_admin, order="shortest")
    row = WhatIf.objects.get()
    url = f"/what-if/{row.pk}/"
    assert "It waits for its turn" in as_admin.get(url).text
    actions._begin(timezone.now())
    actions.note(pk=row.pk, progress=0.42, now=timezone.now())
    part = as_admin.get(url, headers={"HX-Request": "true"}).text
    assert "42 % is done" in part and "every 2s" in part and "<html" not in part
    assert "One that you asked for is not done yet." in send(as_admin, order="shortest").text
    as_admin.post(f"{url}cancel/")
    page = as_admin.get(url).text
    assert "It was cancelled" in page and "Cancelled by root." in page and "every 2s" not in page
    assert "It had ended already." in as_admin.post(f"{url}cancel/", follow=True).text


def test_one_that_failed_can_be_started_again(lab: Project, as_admin: Client) -> None:
    send(as_admin, order="shortest")
    row = WhatIf.objects.get()
    actions._begin(timezone.now())
    actions.fail(pk=row.pk, why=actions.LOST, now=timezone.now())
    page = as_admin.get(f"/what-if/{row.pk}/").text
    assert actions.LOST in page and f"/what-if/{row.pk}/again/" in page
    answer = as_admin.post(f"/what-if/{row.pk}/again/")
    again = WhatIf.objects.first()
    assert again is not None and again.pk != row.pk and again.changes == row.changes
    assert answer["Location"] == f"/what-if/{again.pk}/"
    told = as_admin.post(f"/what-if/{row.pk}/again/", follow=True).text
    assert "One that you asked for is not done yet." in told


def test_there_is_none_of_this_number(as_admin: Client) -> None:
    assert as_admin.get("/what-if/7/").status_code == 404


def test_the_list_costs_the_same_however_long_it_is(
    lab: Project, admin: User, as_admin: Client
) -> None:
    now = timezone.now()
    counts = []
    for number in (1, 20):
        for _ in range(number):
            WhatIf.objects.create(
                asked_by=admin, asked_at=now, since=now, until=now, changes={},
                said=[["Order", "a", "b"]], state=WhatIf.State.FAILED,
            )  # fmt: skip
        with CaptureQueriesContext(connection) as asked:
            as_admin.get("/what-if/")
        counts.append(len(asked))
    assert counts[0] == counts[1]
