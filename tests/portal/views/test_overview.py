"""The first page."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from jobs.lifecycle import State
from portal.models import Job, Node, Project, User
from portal.queries import overview
from portal.queries.rows import Row
from tests.portal import cast


def test_what_is_free(as_alice: Client, alice: User, project: Project, node: Node) -> None:
    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    cast.node("gpu-2", drained=True, drain_reason="new <disks>")
    page = as_alice.get("/").content.decode()
    assert '<b class="figure">3</b> of 8 free' in page
    assert "<b>3 free</b>, 1 used, 4 out of service" in page
    assert "drained: new &lt;disks&gt;" in page


def test_what_the_marks_mean_is_told_where_there_are_gpus(as_alice: Client) -> None:
    cast.node("login", gpus=0)
    page = as_alice.get("/").text
    assert "no GPUs" in page
    assert 'class="legend"' not in page
    cast.node("gpu-1")
    assert 'class="legend"' in as_alice.get("/").text


def test_mine_come_first(as_alice: Client, alice: User, bob: User, project: Project) -> None:
    cast.job(bob, project, state=State.RUNNING, name="bobs-running")
    cast.job(alice, project, name="mine-waiting")
    cast.job(alice, project, state=State.RUNNING, name="mine-running")
    page = as_alice.get("/").content.decode()
    places = [page.index(name) for name in ("mine-running", "mine-waiting", "bobs-running")]
    assert places == sorted(places)
    assert "2 running, 1 waiting" in page


def test_what_ended_of_mine(as_alice: Client, alice: User, bob: User, project: Project) -> None:
    cast.job(bob, project, state=State.FAILED, name="bobs-old")
    assert b"bobs-old" in as_alice.get("/").content, "everybody's, while I have none"
    cast.job(alice, project, state=State.COMPLETED, name="my-old")
    page = as_alice.get("/").content
    assert b"my-old" in page
    assert b"bobs-old" not in page


def test_an_array_has_ended_when_all_of_it_has(
    as_alice: Client, alice: User, project: Project
) -> None:
    tasks = cast.array(alice, project, State.COMPLETED, State.FAILED, State.RUNNING, State.PENDING)
    context = as_alice.get("/").context
    assert [row.job.array_id for row in context["open_jobs"]] == [tasks[0].pk]
    assert context["ended_jobs"] == []
    Job.objects.update(state=State.CANCELLED, ended_at=cast.NOW)
    context = as_alice.get("/").context
    assert context["open_jobs"] == []
    assert [row.job.array_id for row in context["ended_jobs"]] == [tasks[0].pk]


def test_a_newcomer_is_told_where_to_begin(as_carol: Client, as_admin: Client) -> None:
    page = as_carol.get("/").content
    assert b"First steps" in page
    assert b"an administrator adds them" in page
    assert b"Join a project" in page
    assert b'href="/add-node/"' in as_admin.get("/").content


def test_the_first_steps_go_with_the_first_job(
    as_alice: Client, alice: User, project: Project
) -> None:
    assert b"First steps" in as_alice.get("/").content
    cast.job(alice, project)
    assert b"First steps" not in as_alice.get("/").content


def test_htmx_gets_the_part_it_asks_for(as_alice: Client, node: Node) -> None:
    lab = as_alice.get("/?part=lab", headers={"HX-Request": "true"}).content
    jobs = as_alice.get("/?part=jobs", headers={"HX-Request": "true"}).content
    assert b"gpu-1" in lab
    assert b"gpu-1" not in jobs
    assert b"Running and waiting" in jobs
    assert b"<html" not in lab + jobs
    assert b"<html" in as_alice.get("/?part=lab").content


def test_removed_nodes_are_not_counted(as_alice: Client, node: Node) -> None:
    Node.objects.update(removed_at=timezone.now())
    assert b"free</b>" not in as_alice.get("/").content


def test_a_waiting_job_says_its_place(as_alice: Client, alice: User, project: Project) -> None:
    cast.job(alice, project, name="first")
    cast.job(alice, project, name="second")
    page = as_alice.get("/").content.decode()
    assert "next of 2" in page
    assert "2nd of 2" in page


def test_what_ends_while_the_page_is_made_is_on_it_once(
    as_alice: Client, alice: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = cast.job(alice, project, state=State.RUNNING)
    read = overview.ended_jobs

    def a_moment_later(*, user: User) -> list[Row]:
        Job.objects.update(state=State.COMPLETED, ended_at=cast.NOW)
        return read(user=user)

    monkeypatch.setattr(overview, "ended_jobs", a_moment_later)
    assert as_alice.get("/").text.count(f'id="job-row-{job.pk}"') == 1
