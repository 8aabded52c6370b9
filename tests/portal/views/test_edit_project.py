"""What administrators change of projects: previewed first, refused by field, told as events."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.lifecycle import State
from portal.models import (
    Accounting,
    Event,
    Job,
    Membership,
    Node,
    Project,
    Quota,
    UsageBalance,
    User,
)
from tests.portal import cast
from tests.portal.views.forms import edited, everything, last, preview, refused, save

FORMS = (
    "/add-project/", "/lending/", "/projects/vision/edit/", "/projects/vision/quota/",
    "/projects/vision/archive/", "/projects/vision/members/add/",
    "/projects/vision/members/of/alice/",
)  # fmt: skip


@pytest.mark.parametrize("address", FORMS)
def test_only_administrators_may(as_alice: Client, address: str) -> None:
    before = everything()
    for answer in (as_alice.get(address), as_alice.post(address, {"shares": 5, "save": 1})):
        assert answer.status_code == 403
        assert "Only administrators" in answer.text
    assert everything() == before


@pytest.mark.parametrize("address", FORMS)
def test_looking_changes_nothing(as_admin: Client, alice: User, address: str) -> None:
    before = everything()
    assert as_admin.get(address).status_code == 200
    assert everything() == before


@pytest.mark.parametrize("address", [form for form in FORMS if "archive" not in form])
def test_nothing_is_saved_that_was_not_shown(
    as_admin: Client, alice: User, carol: User, address: str
) -> None:
    given = {
        "name": "arms", "shares": 7, "user": "carol", "gpus": 3, "lends": "on", "save": "1",
        "previewed": "0" * 64,
    }  # fmt: skip
    before = everything()
    answer = as_admin.post(address, given)
    assert answer.status_code == 200
    assert "What would come of it" in answer.text
    assert everything() == before


def test_a_project_is_added_below_another(as_admin: Client, project: Project) -> None:
    page = as_admin.get("/add-project/?parent=vision").text
    assert re.search(r'<option value="vision" selected>', page)
    given = {"name": "arms", "title": "Arms & legs", "parent": "vision", "shares": 3}
    shown = preview(as_admin, "/add-project/", **given)
    for told in ("name: arms", "shares: 3", "below: vision"):
        assert f"<li>{told}</li>" in shown.text
    answer = save(as_admin, "/add-project/", **given)
    assert answer["Location"] == "/projects/arms/"
    made = Project.objects.get(name="arms")
    assert (made.parent, made.shares, made.title) == (project, 3, "Arms & legs")
    assert last()[0] == "created"


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"name": ""}, "name", "This field is required."),
        ({"name": "vision"}, "name", "There is a project vision already."),
        ({"name": "Robots"}, "name", "Use small letters"),
        ({"name": "\N{OCTOPUS}"}, "name", "Use small letters"),
        ({"name": "x" * 65}, "name", "at most 64 characters"),
        ({"name": "a\0b"}, "name", "Null characters are not allowed."),
        ({"shares": ""}, "shares", "This field is required."),
        ({"shares": "-1"}, "shares", "Give 0 or more."),
        ({"shares": "1" + "0" * 30}, "shares", "Give 1,000,000,000 or less."),
        ({"shares": "1.5"}, "shares", "Enter a whole number."),
        ({"parent": "nope"}, "parent", "There is no such project"),
        ({"parent": "old"}, "parent", "There is no such project"),
        ({"title": "x" * 201}, "title", "at most 200 characters"),
    ],
)
def test_what_is_no_project_is_refused_by_field(
    as_admin: Client, project: Project, given: dict[str, str], field: str, message: str
) -> None:
    Project.objects.create(name="old", archived_at=cast.NOW)
    found = refused(as_admin, "/add-project/", **({"name": "robots", "shares": "1"} | given))
    assert list(found) == [field]
    assert message in found[field][0]


def test_all_of_a_project_is_changed_or_nothing(as_admin: Client, project: Project) -> None:
    robots = Project.objects.create(name="robots")
    there = "/projects/vision/edit/"
    wrong = edited(project, shares=9, name="robots")
    assert "There is a project robots already." in refused(as_admin, there, **wrong)["name"]
    right = edited(project, shares=9, name="sight", parent="robots", lends="on", title="Eyes")
    shown = preview(as_admin, there, **right)
    for words in ("name: vision → sight", "below: top → robots", "shares: 1 → 9", "lend: no → yes"):
        assert words in shown.text, words
    assert "Edit vision" in shown.text, "it is not called so yet"
    assert save(as_admin, there, **right)["Location"] == "/projects/sight/"
    project.refresh_from_db()
    assert (project.name, project.parent, project.shares) == ("sight", robots, 9)
    assert (project.lends, project.title) == (True, "Eyes")
    kinds = Event.objects.order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["renamed", "described", "moved", "shares set", "lending set"]


def test_nothing_goes_below_itself(as_admin: Client, project: Project) -> None:
    Project.objects.create(name="arms", parent=project)
    for name in ("arms", "vision"):
        found = refused(as_admin, "/projects/vision/edit/", **edited(project, parent=name))
        assert "There is no such project" in found["parent"][0]


def test_what_is_so_already_is_not_saved(as_admin: Client, project: Project) -> None:
    shown = preview(as_admin, "/projects/vision/edit/", **edited(project))
    assert "Nothing: it is so already." in shown.text
    assert 'name="save"' not in shown.text


def test_shares_are_previewed_with_those_of_siblings(as_admin: Client, project: Project) -> None:
    Project.objects.create(name="robots")
    shown = preview(as_admin, "/projects/vision/edit/", **edited(project, shares=3))
    parts = {part.name: (part.before, part.after) for part in shown.context["preview"].parts}
    assert parts == {"vision": (0.5, 0.75), "robots": (0.5, 0.25)}


def test_another_name_changes_nobodys_shares(
    as_admin: Client, project: Project, alice: User
) -> None:
    Project.objects.create(name="robots", parent=project)
    shown = preview(as_admin, "/projects/vision/edit/", **edited(project, name="sight"))
    assert shown.context["preview"].parts == []
    assert "name: vision → sight" in shown.text


def test_a_member_is_added_changed_and_removed(
    as_admin: Client, project: Project, carol: User
) -> None:
    to_members = "/projects/vision/#members"
    answer = save(as_admin, "/projects/vision/members/add/", user="carol", shares=2)
    assert answer["Location"] == to_members
    of_carol = "/projects/vision/members/of/carol/"
    assert last() == ("member added", {"carol": [None, {"shares": 2, "lead": False}]})
    save(as_admin, of_carol, shares=5, lead="on")
    row = Membership.objects.get(user=carol)
    assert (row.shares, row.lead) == (5, True)
    shown = preview(as_admin, of_carol, shares=5, lead="on", remove="1")
    assert "carol: 5 shares, lead → none" in shown.text
    save(as_admin, of_carol, shares=5, lead="on", remove="1")
    assert last()[0] == "member removed"
    assert as_admin.get(of_carol).status_code == 404


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"user": "nobody"}, "user"),
        ({"user": "alice"}, "user"),
        ({"user": ""}, "user"),
        ({"user": "carol", "shares": "-2"}, "shares"),
        ({"user": "carol", "shares": "many"}, "shares"),
        ({"user": "carol", "shares": "9" * 400}, "shares"),
    ],
)
def test_who_is_no_new_member(
    as_admin: Client, alice: User, carol: User, given: dict[str, str], field: str
) -> None:
    found = refused(as_admin, "/projects/vision/members/add/", **({"shares": "1"} | given))
    assert list(found) == [field]


def test_lending_at_the_top(as_admin: Client) -> None:
    assert save(as_admin, "/lending/", lends="on")["Location"] == "/projects/"
    assert Accounting.current().lends
    assert last() == ("lending set", {"lends": [False, True]})


def test_who_borrows_is_named_before_lending_ends(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    """Three of four GPUs are guaranteed to another project; one of two running jobs borrows."""
    other = Project.objects.create(name="language")
    for owner, gpus in ((project, 1), (other, 3)):
        Quota.objects.create(project=owner, gpus=gpus)
    Accounting.objects.create(lends=True)
    for gpu, name in enumerate(("own", "borrowed")):
        job = cast.job(alice, project, state=State.RUNNING, name=name)
        Job.objects.filter(pk=job.pk).update(started_at=cast.NOW + timedelta(minutes=gpu))
        cast.run(job, node, gpu)
    shown = preview(as_admin, "/lending/")
    assert [hit.job.name for hit in shown.context["preview"].over] == ["borrowed"]
    assert "This running job would be over a limit." in shown.text


def test_a_move_names_who_runs_beyond_what_is_above(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    lab = Project.objects.create(name="lab")
    Quota.objects.create(project=lab, gpus=1)
    job = cast.job(alice, project, state=State.RUNNING, gpus=2)
    cast.run(job, node, 0, 1)
    found = preview(as_admin, "/projects/vision/edit/", **edited(project, parent="lab"))
    assert [hit.job for hit in found.context["preview"].over] == [job]


def test_other_shares_put_another_job_first(
    as_admin: Client, alice: User, project: Project, node: Node
) -> None:
    """Both used as much; who is due more of the lab goes first."""
    other = Project.objects.create(name="language")
    dan = cast.person("dan", other)
    now = timezone.now()
    first = cast.job(alice, project, gpus=4, submitted_at=now)
    second = cast.job(dan, other, gpus=4, submitted_at=now)
    for owner, where in ((alice, project), (dan, other)):
        UsageBalance.objects.create(project=where, user=owner, band="batch", value=9, at=cast.NOW)
    there = "/projects/language/edit/"
    shown = preview(as_admin, there, **edited(other, shares=9))
    (turn,) = shown.context["preview"].planned.turns
    assert (turn.before, turn.after) == (first, second)


def test_a_project_is_archived_and_restored(
    as_admin: Client, alice: User, project: Project, settings: Any
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    there = "/projects/vision/archive/"
    job = cast.job(alice, project)
    answer = as_admin.post(there, {"archive": "1"})
    assert answer.status_code == 422
    assert "1 job of it is not finished" in answer.text
    Job.objects.filter(pk=job.pk).update(state=State.COMPLETED)
    assert as_admin.post(there, {"archive": "1"}).status_code == 302
    page = as_admin.get("/projects/vision/").text
    assert "it takes in no more jobs" in page
    assert "Restore…" in page
    assert re.search(r"archived: none → 20\d\d-\d\d-\d\d \d\d:\d\d JST", page)
    assert as_admin.post(there, {"restore": "1"}).status_code == 302
    project.refresh_from_db()
    assert project.archived_at is None
