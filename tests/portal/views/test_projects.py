"""The tree of projects and the page of one: what they tell, to whom, however many there are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from jobs.scheduler.fairshare import MAX_LEVELS
from portal.actions import projects as actions
from portal.actions.quotas import set_quota
from portal.actions.schedule import schedule
from portal.models import Allocation, Membership, Node, Project, User
from portal.queries import queue
from tests.portal import cast

HTMX = {"HX-Request": "true"}


@pytest.fixture
def tree(project: Project, alice: User, bob: User) -> dict[str, Project]:
    """lab above vision (3 shares, with alice and bob) and robots (1), which nobody is in."""
    lab = Project.objects.create(name="lab", title="The whole lab")
    Project.objects.filter(pk=project.pk).update(parent=lab, shares=3)
    robots = Project.objects.create(name="robots", parent=lab)
    project.refresh_from_db()
    return {"lab": lab, "vision": project, "robots": robots}


def running(owner: User, project: Project, node: Node, *gpus: int, **columns: object) -> Allocation:
    """Since an hour, charged never yet."""
    since = timezone.now() - timedelta(hours=1)
    job = cast.job(owner, project, state=State.RUNNING, gpus=len(gpus), **columns)
    type(job).objects.filter(pk=job.pk).update(started_at=since, walltime_s=7200)
    part = cast.run(job, node, *gpus)
    Allocation.objects.filter(pk=part.pk).update(charged_until=since)
    return part


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(answer.text.split())


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    return len(seen)


@pytest.mark.parametrize("address", ["/projects/", "/projects/vision/", "/usage/", "/usage.csv"])
def test_a_stranger_is_asked_to_sign_in(client: Client, project: Project, address: str) -> None:
    assert client.get(address).status_code == 302


@pytest.mark.parametrize("address", ["/projects/", "/projects/vision/", "/usage/", "/usage.csv"])
def test_only_reading_is_allowed(as_admin: Client, project: Project, address: str) -> None:
    assert as_admin.post(address).status_code == 405


def test_the_tree_tells_shares_use_and_what_is_left(
    as_alice: Client, alice: User, tree: dict[str, Project], node: Node, admin: User
) -> None:
    limits = {"gpus": 4, "gpu_hours": 100}
    set_quota(project=tree["vision"], limits=limits, actor=admin, now=cast.NOW)
    running(alice, tree["vision"], node, 0, 1)
    cast.job(alice, tree["vision"])
    answer = as_alice.get("/projects/")
    lines = {line.project.name: line for line in answer.context["lines"]}
    assert list(lines) == ["lab", "robots", "vision"], "parents before their children"
    assert [line.depth for line in lines.values()] == [0, 1, 1]
    vision = lines["vision"]
    assert (vision.share.own, vision.share.part) == (3, 0.75)
    assert lines["robots"].share.part == 0.25
    assert vision.month == pytest.approx(2, rel=0.01), "2 GPUs for an hour, not yet charged"
    assert lines["lab"].month == vision.month, "with all below"
    assert vision.decayed_part == 1
    assert (vision.gpus.used, vision.gpus.available) == (2, 2)
    assert vision.gpu_hours.used == pytest.approx(2, rel=0.01)
    assert vision.gpu_hours.held == pytest.approx(2, rel=0.01)
    assert (vision.running, vision.waiting) == (1, 1)
    page = " ".join(answer.text.split())
    assert "75.0 %" in page
    assert "As of" in page


def test_members_are_siblings_of_the_projects_below(
    as_alice: Client, tree: dict[str, Project], carol: User
) -> None:
    Membership.objects.create(user=carol, project=tree["lab"], shares=4)
    lines = {line.project.name: line for line in as_alice.get("/projects/").context["lines"]}
    assert lines["vision"].share.part == 3 / 8


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["lab", "robots", "vision"]),
        ("?archived=1", ["lab", "old", "robots", "vision"]),
        ("?q=VIS", ["vision"]),
        ("?q=whole", ["lab"]),
        ("?q=old", []),
        ("?q=old&archived=1", ["old"]),
        ("?mine=1", ["vision"]),
        ("?q=%00", ["lab", "robots", "vision"]),
        ("?q=%F0%9F%90%99", []),
        ("?page=99", ["lab", "robots", "vision"]),
        ("?page=-1&mine=yes", ["lab", "robots", "vision"]),
    ],
)
def test_the_url_filters(
    as_alice: Client, tree: dict[str, Project], query: str, shown: list[str]
) -> None:
    Project.objects.create(name="old", parent=tree["lab"], archived_at=cast.NOW)
    answer = as_alice.get(f"/projects/{query}")
    assert [line.project.name for line in answer.context["lines"]] == shown
    assert ("No project fits these filters" in answer.text) == (not shown)


def test_projects_are_paged(as_alice: Client, tree: dict[str, Project]) -> None:
    Project.objects.bulk_create(Project(name=f"p{number:02}") for number in range(60))
    first, second = text(as_alice, "/projects/"), text(as_alice, "/projects/?page=2")
    assert "Projects 1 to 50 of 63" in first
    assert ">p59</a>" in second
    assert ">p59</a>" not in first


def test_htmx_gets_the_list_only(as_alice: Client, project: Project) -> None:
    page = as_alice.get("/projects/", headers=HTMX).text
    assert "vision" in page
    assert "<html" not in page


def test_an_empty_lab_says_what_to_do(as_admin: Client, as_carol: Client, db: None) -> None:
    assert "There is no project yet." in text(as_admin, "/projects/")
    assert 'href="/add-project/"' in text(as_admin, "/projects/")
    assert "an administrator of the lab adds them" in text(as_carol, "/projects/")
    assert "/add-project/" not in text(as_carol, "/projects/")


def test_an_empty_project_says_what_to_do(as_admin: Client, db: None) -> None:
    Project.objects.create(name="new")
    page = text(as_admin, "/projects/new/")
    for words in (
        "Nobody is a member yet.", "It has no quota of its own.", "Nothing was used in this time.",
        "No job of it runs.", "No job of it waits.", "Nothing was changed yet.",
    ):  # fmt: skip
        assert words in page


def test_a_project_that_is_not_there(as_admin: Client, project: Project) -> None:
    for name in ("nope", "Vision", "%00", "a%20b", "\N{OCTOPUS}" * 50):
        for what in ("", "edit/", "quota/", "archive/", "members/add/", "members/of/root/"):
            assert as_admin.get(f"/projects/{name}/{what}").status_code == 404, (name, what)


def test_where_members_stand(
    as_alice: Client, alice: User, bob: User, tree: dict[str, Project], node: Node
) -> None:
    running(alice, tree["vision"], node, 0, 1)
    answer = as_alice.get("/projects/vision/")
    first, second = answer.context["people"]
    assert (first.user, second.user) == (bob, alice), "who has used less goes first"
    assert (first.standing.position, second.standing.position) == (1, 2)
    assert first.share.part == second.share.part == 0.5
    page = " ".join(answer.text.split())
    assert "1 of 2" in page
    assert "∞" in page
    way = answer.context["way"]
    assert [step[0] for step in way] == ["lab", "vision"]
    assert [step[1].part for step in way] == [1, 0.75]
    assert way[1][3] == 0.75, "it used all there was"


def test_who_is_no_member_any_more_but_has_jobs_is_told(
    as_alice: Client, carol: User, project: Project
) -> None:
    cast.job(carol, project)
    assert "not a member; has jobs here" in text(as_alice, "/projects/vision/")


def test_quotas_tell_what_is_used_held_and_left(
    as_alice: Client, alice: User, tree: dict[str, Project], node: Node, admin: User
) -> None:
    def limit(name: str, scope: str, band: Band | None = None, **limits: object) -> None:
        set_quota(project=tree[name], limits=limits, scope=scope, band=band, actor=admin,
                  now=cast.NOW)  # fmt: skip

    limit("lab", "project", gpus=3)
    limit("vision", "user", gpu_hours=50, walltime_s=7200)
    limit("vision", "project", Band.PRODUCTION, gpus=1.5, partitions=["gpu"])
    running(alice, tree["vision"], node, 0, 1, band=Band.PRODUCTION)
    answer = as_alice.get("/projects/vision/")
    found = {
        (one.rule.limited.value, one.rule.scope.value, one.user_id): one.left
        for one in answer.context["limits"]
    }
    assert set(found) == {
        ("gpus", "project", None), ("partitions", "project", None),
        ("gpu_hours", "user", alice.pk), ("walltime", "user", None),
    }  # fmt: skip
    gpus = found["gpus", "project", None]
    assert (gpus.limit, gpus.used, gpus.available) == (1.5, 2, 0)
    hours = found["gpu_hours", "user", alice.pk]
    assert hours.used == pytest.approx(2, rel=0.01)
    assert hours.held == pytest.approx(2, rel=0.01)
    assert hours.available == pytest.approx(46, rel=0.01)
    (above,) = answer.context["limits_above"]
    assert (above.name, above.limits[0].left.available) == ("lab", 1)
    page = " ".join(answer.text.split())
    assert "2 h" in page
    assert "all users, production" in page
    assert "Set a quota" not in page, "only administrators are offered what only they may do"


def test_use_in_a_time_that_the_url_names(
    as_alice: Client, alice: User, tree: dict[str, Project], node: Node
) -> None:
    running(alice, tree["vision"], node, 0)
    tables = {words: table for table, words in as_alice.get("/projects/lab/").context["tables"]}
    assert set(tables) == {"User", "Band", "GPU model", "Project"}
    for table in tables.values():
        assert table.gpu_hours == pytest.approx(1, rel=0.01)
    assert "alice" in [row.name for row in tables["User"].rows]
    assert "Nothing was used in this time" in text(
        as_alice, "/projects/lab/?period=range&from=2020-01-01&to=2020-01-31"
    )
    wrong = text(as_alice, "/projects/lab/?period=range&from=yesterday")
    assert "should be as 2026-11-03" in wrong


def test_its_jobs_stand_on_it(
    as_alice: Client, alice: User, tree: dict[str, Project], node: Node,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    running(alice, tree["vision"], node, 0, name="goes")
    for _ in range(12):
        cast.job(alice, tree["vision"], name="rests")
    cast.job(alice, tree["robots"], name="elsewhere")
    page = text(as_alice, "/projects/vision/")
    assert page.count(">rests<") == 10
    assert ">goes<" in page
    assert "elsewhere" not in page
    assert ">12 jobs<" in page
    cast.array(alice, tree["vision"], *[State.PENDING] * 7)
    assert ">19 jobs<" in text(as_alice, "/projects/vision/"), "each task is one"
    monkeypatch.setattr(queue, "COUNTED", 3)
    monkeypatch.setattr(queue, "PAGE_SIZE", 2)
    assert ">19 jobs<" in text(as_alice, "/projects/vision/"), "and of a long queue all"


def test_who_changed_what(as_alice: Client, project: Project, admin: User, carol: User) -> None:
    by = {"project": project, "actor": admin, "now": cast.NOW}
    actions.set_shares(shares=7, **by)
    actions.set_member(user=carol, shares=2, lead=True, **by)
    actions.describe(title="<b>Seeing</b>", description="", **by)
    set_quota(limits={"walltime_s": 90, "gpus": 2.5}, **by)
    page = text(as_alice, "/projects/vision/")
    for words in (
        "shares: 1 → 7", "carol: 2 shares, lead", "&lt;b&gt;Seeing&lt;/b&gt;",
        "walltime: no limit → 1 min 30 s", "GPUs at once: no limit → 2.5", "owner=root",
    ):  # fmt: skip
        assert words in page, words
    for number in range(25):
        actions.set_shares(shares=100 + number, **by)
    assert "shares: 1 → 7" not in text(as_alice, "/projects/vision/")
    assert "shares: 1 → 7" in text(as_alice, "/projects/vision/?events=2")


@pytest.mark.parametrize(
    "address", ["/projects/", "/projects/lab/", "/projects/lab/limits/", "/usage/"]
)
def test_the_query_count_does_not_grow(
    as_alice: Client, alice: User, tree: dict[str, Project], node: Node, admin: User, address: str
) -> None:
    def grow(first: int, last: int) -> None:
        for number in range(first, last):
            made = Project.objects.create(name=f"p{number}", parent=tree["lab"])
            someone = cast.person(f"someone{number}", made, tree["lab"])
            limits = {"gpus": 4, "gpu_hours": 100}
            set_quota(project=made, limits=limits, scope="user", actor=admin, now=cast.NOW)
            set_quota(project=tree["lab"], limits=limits, scope="user", band=list(Band)[number % 2],
                      actor=admin, now=cast.NOW)  # fmt: skip
            running(someone, made, cast.node(f"n{number}"), 0)
            running(someone, tree["lab"], cast.node(f"m{number}"), 0)
            cast.job(someone, tree["lab"])
            cast.job(someone, made)

    grow(0, 2)
    few = queries(as_alice, address)
    grow(2, 8)
    assert queries(as_alice, address) == few


def test_the_deepest_tree_there_may_be_is_shown_and_scheduled(
    as_admin: Client, admin: User, alice: User, node: Node
) -> None:
    parent = None
    for level in range(1, MAX_LEVELS + 1):
        name = f"level-{level}"
        parent = actions.create(name=name, parent=parent, actor=admin, now=cast.NOW)
        set_quota(project=parent, limits={"gpus": 4}, actor=admin, now=cast.NOW)
    Membership.objects.create(user=alice, project=parent)
    job = cast.job(alice, parent)
    schedule(now=cast.NOW)
    job.refresh_from_db()
    assert job.state == State.CONFIGURING
    shown = text(as_admin, f"/projects/level-{MAX_LEVELS}/")
    assert all(f"level-{level}<" in shown for level in range(1, MAX_LEVELS + 1))
    for address in ("/projects/", "/projects/level-1/", "/usage/", f"/jobs/{job.pk}/"):
        assert f"level-{MAX_LEVELS}" in text(as_admin, address)
