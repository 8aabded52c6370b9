"""The queue's page: who sees what, by which filter, in which order."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from jobs.lifecycle import Reason, State
from portal.models import Job, Node, Project, User
from tests.portal import cast

URL = "/queue/"
HTMX = {"HX-Request": "true"}


def names(client: Client, query: str = "") -> list[str]:
    response = client.get(f"{URL}{query}")
    assert response.status_code == 200
    return [row.job.name for row in response.context["rows"]]


def test_a_stranger_is_asked_to_sign_in(client: Client, db: None):
    response = client.get(URL)
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("sign-in"))


def test_nothing_at_all_says_what_to_do(as_alice: Client):
    response = as_alice.get(URL)
    assert "Nothing waits and nothing runs." in response.text
    assert reverse("submit") in response.text


def test_only_reading_is_allowed(as_alice: Client):
    assert as_alice.post(URL).status_code == 405


def test_those_that_run_come_first_then_the_queue(
    as_alice: Client, alice: User, bob: User, project: Project
):
    cast.job(alice, project, name="late")
    cast.job(bob, project, name="early", submitted_at=cast.NOW - timedelta(hours=1))
    cast.job(bob, project, name="running", state=State.RUNNING)
    cast.job(bob, project, name="over", state=State.COMPLETED)
    assert names(as_alice) == ["running", "early", "late"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?state=all", {"mine", "theirs", "done", "broken"}),
        ("?state=ended", {"done", "broken"}),
        ("?state=failed", {"broken"}),
        ("?state=COMPLETED", {"done"}),
        ("?state=active", {"theirs"}),
        ("?mine=1", {"mine"}),
        ("?owner=bob", {"theirs"}),
        ("?owner=nobody", set()),
        ("?project=vision", {"mine", "theirs"}),
        ("?project=other", set()),
        ("?partition=gpu", {"mine", "theirs"}),
        ("?node=gpu-1", {"theirs"}),
        ("?q=HEIR", {"theirs"}),
        ("?q=%00", {"mine", "theirs"}),
        ("?array=99999999999999999999", {"mine", "theirs"}),
        ("?array=17", set()),
    ],
)
def test_filters(
    as_alice: Client, alice: User, bob: User, project: Project, node: Node,
    query: str, expected: set[str],
):  # fmt: skip
    cast.job(alice, project, name="mine")
    cast.run(cast.job(bob, project, name="theirs", state=State.RUNNING), node, 0)
    cast.job(alice, project, name="done", state=State.COMPLETED)
    cast.job(bob, project, name="broken", state=State.FAILED)
    assert set(names(as_alice, query)) == expected


def test_by_number_and_by_index_of_an_array(as_alice: Client, alice: User, project: Project):
    first = cast.job(alice, project, name="first", array_index=0)
    Job.objects.filter(pk=first.pk).update(array_id=first.pk)
    cast.job(alice, project, name="second", array_id=first.pk, array_index=1)
    other = cast.job(alice, project, name="other")
    assert names(as_alice, f"?q={other.pk}") == ["other"]
    assert names(as_alice, f"?q={first.pk}_1") == ["second"]
    assert set(names(as_alice, f"?array={first.pk}")) == {"first", "second"}


@pytest.mark.parametrize("sort", ["queue", "start", "newest", "oldest", "gpus", "walltime", "name"])
def test_every_order_keeps_every_job(as_alice: Client, alice: User, project: Project, sort: str):
    for gpus in (2, 4, 1):
        cast.job(alice, project, name=f"g{gpus}", gpus=gpus)
    found = names(as_alice, f"?sort={sort}")
    assert sorted(found) == ["g1", "g2", "g4"]
    if sort == "gpus":
        assert found == ["g4", "g2", "g1"]


def test_what_is_no_filter_is_said_and_left_out(as_alice: Client, alice: User, project: Project):
    cast.job(alice, project)
    response = as_alice.get(f"{URL}?state=HAPPY&sort=luck&array=x")
    assert len(response.context["rows"]) == 1
    assert "There is no state &#x27;HAPPY&#x27;" in response.text
    assert "There is no order &#x27;luck&#x27;" in response.text
    assert "is not the number of an array" in response.text


def test_the_place_in_the_queue_is_the_last_pass_s_word(
    as_alice: Client, alice: User, bob: User, project: Project
):
    cast.job(bob, project, name="next", position=1)
    cast.job(bob, project, name="held", held=True, reason=Reason.HELD_USER)
    cast.job(bob, project, name="started", state=State.RUNNING, position=7)
    cast.job(alice, project, name="mine", position=2)
    places = {
        row.job.name: row.position and (row.position.place, row.position.of)
        for row in as_alice.get(URL).context["rows"]
    }
    assert places == {"next": (1, 2), "held": None, "started": None, "mine": (2, 2)}


def test_my_jobs_are_marked(as_alice: Client, alice: User, bob: User, project: Project):
    mine = cast.job(alice, project)
    theirs = cast.job(bob, project)
    page = as_alice.get(URL).text
    assert f'id="job-row-{mine.pk}" class="mine"' in page
    assert f'id="job-row-{theirs.pk}" class="mine"' not in page


def test_names_are_text(as_alice: Client, alice: User, project: Project):
    cast.job(
        alice, project, name="<script>alert(1)</script>", detail="<img src=x onerror=alert(1)>"
    )
    page = as_alice.get(f"{URL}?q=%22%3E%3Cscript%3E&state=all").text
    page += as_alice.get(URL).text
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert '"><script>' not in page


def test_pages_are_cut_by_the_database(as_alice: Client, alice: User, project: Project):
    for number in range(53):
        cast.job(alice, project, name=f"n{number}")
    first = as_alice.get(URL)
    assert len(first.context["rows"]) == 50
    assert "Jobs 1 to 50 of 53" in first.text
    assert len(names(as_alice, "?page=2")) == 3
    assert len(names(as_alice, "?page=99")) == 3
    assert len(names(as_alice, "?page=x")) == 50


def test_the_number_of_queries_does_not_grow(
    as_alice: Client, alice: User, project: Project, node: Node
):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            as_alice.get(URL)
        return len(queries)

    cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    cast.job(alice, project)
    before = count()
    for index in range(1, 4):
        cast.run(cast.job(alice, project, state=State.RUNNING), node, index)
    for _ in range(30):
        cast.job(alice, project)
    assert count() == before


def test_htmx_gets_the_list_alone(as_alice: Client, alice: User, project: Project):
    cast.job(alice, project)
    part = as_alice.get(f"{URL}?mine=1", headers=HTMX).text
    assert part.lstrip().startswith('<section class="panel" id="jobs"')
    assert f'hx-get="{URL}?mine=1"' in part
    assert "<html" not in part


def test_simulated_nodes_are_marked(as_alice: Client, alice: User, project: Project):
    lab = cast.node("lab-1", simulated=True)
    cast.run(cast.job(alice, project, state=State.RUNNING), lab, 0)
    assert 'class="practice"' in as_alice.get(URL, headers=HTMX).text


@pytest.mark.parametrize("state", ["ended", "failed", "all", "COMPLETED"])
def test_what_ended_is_listed_by_age(as_alice: Client, alice: User, project: Project, state: str):
    kind = State.FAILED if state == "failed" else State.COMPLETED
    for hours, name in ((3, "old"), (2, "middle"), (1, "new")):
        then = cast.NOW - timedelta(hours=hours)
        cast.job(alice, project, name=name, state=kind, submitted_at=then, ended_at=then)
    assert names(as_alice, f"?state={state}") == ["new", "middle", "old"]
    assert names(as_alice, f"?state={state}&sort=oldest") == ["old", "middle", "new"]
    page = as_alice.get(f"{URL}?state={state}&sort=gpus")
    assert "are listed newest or oldest first" in page.text


@pytest.mark.parametrize(
    "query", ["?state=ended", "?state=failed", "?state=all", "?state=COMPLETED"]
)
def test_no_million_rows_are_sorted(as_alice: Client, alice: User, project: Project, query: str):
    cast.job(alice, project, state=State.FAILED)
    cast.job(alice, project, state=State.COMPLETED)
    with CaptureQueriesContext(connection) as queries:
        as_alice.get(f"{URL}{query}", headers=HTMX)
    listing = next(q["sql"] for q in queries if '"portal_job"."spec"' in q["sql"])
    sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        if not sqlite:
            # Of two rows any order is cheap: what is asked is whether an index could give it.
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN' if sqlite else ''} {listing}")
        plan = " ".join(str(row[-1]) for row in cursor.fetchall())
    # An incremental one sorts what ended at the very same moment only.
    sorts = "TEMP B-TREE FOR ORDER BY" if sqlite else "Sort  ("
    assert sorts not in plan.replace("Incremental Sort", ""), plan
