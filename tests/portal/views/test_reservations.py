"""Nodes that are set aside: who sees them, how they are made, changed and ended."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.lifecycle import State
from portal.forms import few_checkboxes
from portal.models import Event, Job, Node, Project, Reservation, User
from portal.queries.reservations import still_running
from tests.portal import cast
from tests.portal.views.forms import preview, refused, save

ADD = "/add-reservation/"


def typed(hours: float) -> str:
    """So many hours from now, as a browser sends it."""
    return f"{timezone.localtime(timezone.now() + timedelta(hours=hours)):%Y-%m-%dT%H:%M}"


def asked(**given: Any) -> dict[str, Any]:
    return {"name": "disks", "starts_at": typed(2), "ends_at": typed(4), "nodes": ["gpu-1"]} | given


def reserved(node: Node, begins: float, ends: float, name: str = "disks") -> Reservation:
    now = timezone.now()
    row = Reservation.objects.create(
        name=name, starts_at=now + timedelta(hours=begins), ends_at=now + timedelta(hours=ends)
    )
    row.nodes.add(node)
    return row


def test_the_page_of_a_node_tells_what_it_is_set_aside_for(
    as_alice: Client, node: Node, project: Project, alice: User
) -> None:
    reserved(node, -3, -1, "old disks")
    later = reserved(node, 5, 9, "class")
    later.projects.add(project)
    later.users.add(alice)
    reserved(node, -1, 3)
    page = as_alice.get("/nodes/gpu-1/").text
    assert "old disks" not in page
    assert ">disks</a>, for nobody: maintenance" in page
    assert '>class</a>, for <a href="/projects/vision/">vision</a>, <a' in page
    assert page.index(">disks</a>") < page.index(">class</a>")


@pytest.mark.parametrize("address", [ADD, "/reservations/1/"])
def test_only_administrators_may(as_alice: Client, node: Node, address: str) -> None:
    assert as_alice.get(address).status_code == 403
    assert as_alice.post(address, asked()).status_code == 403
    assert not Reservation.objects.exists()


def test_a_reservation_that_is_not_there(as_admin: Client) -> None:
    for pk in ("17", "9" * 30):
        assert as_admin.get(f"/reservations/{pk}/").status_code == 404


def test_of_many_only_those_chosen_have_boxes_and_others_are_named(
    as_admin: Client, node: Node, project: Project, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boxes(page: Any, name: str) -> list[str]:
        return re.findall(rf'name="{name}" value="([^"]+)"', page.text)

    monkeypatch.setattr(few_checkboxes, "MOST", 3)
    names = {cast.person(f"person-{number}").username for number in range(3)}
    page = as_admin.get(ADD)
    assert (boxes(page, "nodes"), boxes(page, "users")) == (["gpu-1"], [])
    assert "nodes_named" not in page.text
    given = asked(users=["alice"], users_named="person-0, person-1 person-2,")
    page = preview(as_admin, ADD, **given)
    assert set(boxes(page, "users")) == {"alice", *names}, "and now they have"
    save(as_admin, ADD, **given)
    row = Reservation.objects.get()
    assert {user.username for user in row.users.all()} == {"alice", *names}
    assert set(boxes(as_admin.get(f"/reservations/{row.pk}/"), "users")) == {"alice", *names}
    assert "nobody" in refused(as_admin, ADD, **asked(users_named="nobody"))["users"][0]


def test_nodes_are_set_aside_changed_and_given_back(
    as_admin: Client, as_alice: Client, node: Node, project: Project
) -> None:
    first = asked(projects=["vision"], users=["alice"], reason="<b>new</b>")
    save(as_admin, ADD, **first)
    row = Reservation.objects.get()
    assert list(row.nodes.all()) == [node]
    assert list(row.projects.all()) == [project]
    page = as_alice.get("/reservations/").text
    for words in ("disks", "&lt;b&gt;new&lt;/b&gt;", 'href="/nodes/gpu-1/"', "/projects/vision/"):
        assert words in page
    assert f"/reservations/{row.pk}/" not in page, "only administrators change it"
    there = f"/reservations/{row.pk}/"
    assert f'value="{first["starts_at"]}"' in as_admin.get(there).text
    save(as_admin, there, **asked(name="disks", reason="later", ends_at=typed(6)))
    row.refresh_from_db()
    assert (row.reason, row.projects.count(), row.users.count()) == ("later", 0, 0)
    assert "nobody: maintenance" in as_alice.get("/reservations/").text
    save(as_admin, there, **asked(ends_at=typed(6), remove="1"))
    assert not Reservation.objects.exists(), "it had not begun"
    kinds = [(event.kind, event.node) for event in Event.objects.order_by("pk")]
    told = ("reserved", "reservation changed", "reservation ended")
    assert kinds == [(kind, node) for kind in told]
    assert "Reservation ended" in as_alice.get("/nodes/gpu-1/").text


def test_one_under_way_ends_now_and_is_remembered(as_admin: Client, node: Node) -> None:
    row = reserved(node, -1, 3)
    there = f"/reservations/{row.pk}/"
    save(as_admin, there, **asked(starts_at=typed(-1), ends_at=typed(3), remove="1"))
    row.refresh_from_db()
    assert row.ends_at <= timezone.now()
    assert "disks" not in as_admin.get("/reservations/").text
    assert "disks" in as_admin.get("/reservations/?past=1").text
    found = refused(as_admin, there, **asked(ends_at=typed(9)))
    assert "It is over already" in found["ends_at"][0]


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"name": ""}, "name", "This field is required."),
        ({"name": "taken"}, "name", "already exists"),
        ({"name": "x" * 65}, "name", "at most 64 characters"),
        ({"nodes": []}, "nodes", "This field is required."),
        ({"nodes": ["nope"]}, "nodes", "Select a valid choice"),
        ({"nodes": ["gpu-2"]}, "nodes", "gpu-2 is set aside then already, by taken, "),
        ({"starts_at": "soon"}, "starts_at", "Give a day and a time"),
        ({"ends_at": "2026-13-40 99:00"}, "ends_at", "Give a day and a time"),
        ({"ends_at": "2020-01-01T00:00"}, "ends_at", "It must end after it starts."),
        (
            {"starts_at": "2020-01-01T00:00", "ends_at": "2020-01-02T00:00"},
            "ends_at", "That is over already.",
        ),
        ({"ends_at": "9999-12-31T23:59"}, "ends_at", "The year 9000 is the last"),
        ({"users": ["\N{OCTOPUS}"]}, "users", "Select a valid choice"),
        ({"projects": ["old"]}, "projects", "Select a valid choice"),
    ],
)  # fmt: skip
def test_what_is_no_reservation_is_refused_by_field(
    as_admin: Client, node: Node, given: dict[str, Any], field: str, message: str
) -> None:
    reserved(cast.node("gpu-2"), 1, 3, "taken")
    found = refused(as_admin, ADD, **asked(**given))
    assert list(found) == [field]
    assert message in found[field][0]
    assert Reservation.objects.count() == 1


def test_none_is_made_within_another_also_for_the_same_people(
    as_admin: Client, node: Node, project: Project, settings: Any
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    long = {"starts_at": "2099-01-01T08:00", "ends_at": "2099-01-01T18:00", "projects": ["vision"]}
    save(as_admin, ADD, **asked(name="course", **long))
    short = long | {"starts_at": "2099-01-01T09:00", "ends_at": "2099-01-01T10:00"}
    (why,) = refused(as_admin, ADD, **asked(**short))["nodes"]
    assert why == (
        "gpu-1 is set aside then already, by course, 2099-01-01 08:00 JST to 2099-01-01 18:00 JST. "
        "Choose another time, or change it."
    )
    next_to_it = long | {"starts_at": "2099-01-01T18:00", "ends_at": "2099-01-01T19:00"}
    save(as_admin, ADD, **asked(**next_to_it))
    assert Reservation.objects.count() == 2


def test_a_preview_names_the_jobs_that_may_still_run(
    as_admin: Client, alice: User, bob: User, project: Project, node: Node
) -> None:
    other = cast.node("gpu-2")
    for gpu, (name, owner, where, walltime_s) in enumerate((
        ("long", alice, node, 20_000), ("short", alice, node, 600), ("his", bob, node, 20_000),
        ("elsewhere", alice, other, 20_000),
    )):  # fmt: skip
        job = cast.job(owner, project, state=State.RUNNING, name=name)
        Job.objects.filter(pk=job.pk).update(started_at=timezone.now(), walltime_s=walltime_s)
        cast.run(job, where, gpu)
    shown = preview(as_admin, ADD, **asked(users=["bob"]))
    assert [job.name for job in shown.context["overlapping"]] == ["long"]
    assert "This job may still run there when it begins" in shown.text
    assert "Nothing ends it: begin later, or cancel it." in shown.text
    assert "<li>nodes: gpu-1</li>" in shown.text
    assert re.search(r"<li>begins: 20\d\d-", shown.text)


@pytest.mark.parametrize(("begins_s", "told"), [(629, True), (630, False)])
def test_a_job_may_run_on_for_its_grace(
    alice: User, project: Project, node: Node, begins_s: int, told: bool
) -> None:
    """After its ten minutes it gets SIGTERM, and half a minute later SIGKILL."""
    job = cast.job(alice, project, state=State.RUNNING)
    Job.objects.filter(pk=job.pk).update(started_at=cast.NOW, walltime_s=600)
    cast.run(job, node, 0)
    begins = cast.NOW + timedelta(seconds=begins_s)
    found = still_running(nodes=[node], starts_at=begins, projects=[], users=[], now=cast.NOW)
    assert found == [job] * told


def test_who_is_below_a_project_it_is_for_may_go_on(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    below = Project.objects.create(name="robots", parent=project)
    beside = Project.objects.create(name="language")
    for gpu, of in enumerate((project, below, beside)):
        job = cast.job(alice, of, state=State.RUNNING, name=of.name)
        Job.objects.filter(pk=job.pk).update(started_at=timezone.now(), walltime_s=20_000)
        cast.run(job, node, gpu)
    assert "all projects below them" in as_admin.get(ADD).text
    shown = preview(as_admin, ADD, **asked(projects=["vision"]))
    assert [job.name for job in shown.context["overlapping"]] == ["language"]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {"now", "next"}),
        ("?past=1", {"past"}),
        ("?node=gpu-2", {"next"}),
        ("?node=nope%00", set()),
        ("?page=99", {"now", "next"}),
    ],
)
def test_the_url_filters(as_alice: Client, node: Node, query: str, shown: set[str]) -> None:
    reserved(node, -1, 1, "now")
    reserved(cast.node("gpu-2"), 5, 6, "next")
    reserved(node, -9, -8, "past")
    answer = as_alice.get(f"/reservations/{query}")
    assert {row.name for row in answer.context["page"]} == shown
    assert ("No reservation fits" in answer.text) == (not shown)


def test_nothing_says_what_to_do(as_alice: Client, as_admin: Client) -> None:
    assert "No node is set aside." in as_alice.get("/reservations/").text
    assert ADD not in as_alice.get("/reservations/").text
    assert ADD in as_admin.get("/reservations/").text


def test_the_query_count_does_not_grow(as_alice: Client, node: Node) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert as_alice.get("/reservations/").status_code == 200
        return len(seen)

    reserved(node, 1, 2, "r0")
    few = queries()
    for number in range(1, 9):
        reserved(cast.node(f"n{number}"), number, number + 1, f"r{number}")
    assert queries() == few


def test_times_are_of_the_labs_zone(as_admin: Client, node: Node, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    save(as_admin, ADD, **asked(starts_at="2099-01-01T09:00", ends_at="2099-01-01T18:00"))
    row = Reservation.objects.get()
    assert row.starts_at == datetime.fromisoformat("2099-01-01T00:00+00:00")
