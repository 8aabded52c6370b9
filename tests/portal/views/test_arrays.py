"""Arrays in the lists of jobs: one row, which opens to its tasks."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle import Reason, State
from portal.models import Job, Node, Partition, Project, User
from portal.queries import queue
from tests.portal import cast

MIXED = [State.FAILED, State.COMPLETED, State.RUNNING, State.RUNNING, State.PENDING]


def listed(client: Client, query: str = "") -> list[str]:
    """The rows as people would call them: `train[5]` for an array of five."""
    found = client.get(f"/queue/{query}").context["rows"]
    return [
        f"{row.job.name}[{row.array.jobs}]" if row.array else f"{row.job.name} {row.job.label}"
        for row in found
    ]


@pytest.mark.parametrize(
    "query", ["", "?state=all", "?state=active", "?state=ended", "?sort=name", "?q=tra", "?mine=1"]
)
def test_an_array_is_one_row(as_alice: Client, alice: User, project: Project, query: str) -> None:
    cast.array(alice, project, *MIXED)
    assert listed(as_alice, query) == ["train[5]"]


def test_a_task_that_went_to_another_partition_is_listed_there_and_the_others_where_they_are(
    as_alice: Client, alice: User, project: Project
) -> None:
    tasks = cast.array(alice, project, *[State.PENDING] * 3)
    Job.objects.filter(pk=tasks[2].pk).update(partition=Partition.objects.create(name="old"))
    assert listed(as_alice, "?partition=gpu") == ["train[3]"]
    assert listed(as_alice, "?partition=old") == [f"train {tasks[0].pk}_3"]


@pytest.mark.parametrize(
    ("query", "index"), [("?state=waiting", 5), ("?state=failed", 1), ("?state=COMPLETED", 2)]
)
def test_the_only_task_that_fits_is_shown_itself(
    as_alice: Client, alice: User, project: Project, query: str, index: int
) -> None:
    tasks = cast.array(alice, project, *MIXED)
    assert listed(as_alice, query) == [f"train {tasks[index - 1].label}"]


def test_by_node_and_by_number(as_alice: Client, alice: User, project: Project, node: Node) -> None:
    tasks = cast.array(alice, project, *MIXED)
    cast.run(tasks[2], node, 0)
    head = tasks[0].pk
    assert listed(as_alice, "?node=gpu-1") == [f"train {head}_3"]
    assert listed(as_alice, f"?q={head}") == ["train[5]"]
    assert listed(as_alice, f"?q={tasks[3].pk}") == [f"train {head}_4"]
    assert listed(as_alice, f"?q={head}_4") == [f"train {head}_4"]


def test_it_opens_to_its_tasks_in_their_order(
    as_alice: Client, alice: User, project: Project
) -> None:
    head = cast.array(alice, project, *MIXED)[0].pk
    opened = f"/queue/?array={head}&amp;state=all"
    assert f'class="title" href="{opened}"' in as_alice.get("/queue/").text
    tasks = [f"train {head}_{index}" for index in range(1, 6)]
    assert listed(as_alice, f"?array={head}&state=all") == tasks
    page = as_alice.get(f"/queue/?array={head}", headers={"HX-Request": "true"}).text
    assert "5 tasks</a>" in page
    assert f'href="/queue/?array={head}&amp;state=RUNNING">2 running</a>' in page


def test_the_row_counts_the_whole_array_and_says_why_the_next_waits(
    as_alice: Client, alice: User, project: Project
) -> None:
    tasks = cast.array(alice, project, *MIXED, State.PENDING)
    Job.objects.filter(pk=tasks[4].pk).update(
        reason=Reason.PRIORITY, detail="Job 1 is ahead.", position=1
    )
    Job.objects.filter(pk=tasks[5].pk).update(position=2)
    page = as_alice.get("/queue/", headers={"HX-Request": "true"}).text
    assert f"{tasks[0].pk}_[1-6]" in page
    for words in ("2 running", "2 pending", "1 failed", "1 completed"):
        assert f">{words}</a>" in page
    assert f"{tasks[0].pk}_5: Job 1 is ahead." in page
    assert "next of 2" in page


def test_pages_count_rows_as_they_are_shown(
    as_alice: Client, alice: User, project: Project
) -> None:
    for _ in range(26):
        cast.array(alice, project, State.PENDING, State.PENDING, State.PENDING)
        cast.job(alice, project, name="alone")
    first = as_alice.get("/queue/")
    assert len(first.context["rows"]) == 50
    assert "Jobs 1 to 50 of 52" in first.text
    assert len(listed(as_alice, "?page=2")) == 2


@pytest.mark.parametrize(("number", "shown"), [("1", 2), ("2", 2), ("3", 1), ("9", 1), ("x", 2)])
def test_a_long_list_is_counted_as_far_as_it_is_paged(
    as_alice: Client, alice: User, project: Project, monkeypatch: pytest.MonkeyPatch,
    number: str, shown: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(queue, "COUNTED", 9)
    monkeypatch.setattr(queue, "PAGE_SIZE", 2)
    for _ in range(5):
        cast.array(alice, project, State.COMPLETED, State.COMPLETED)
    page = as_alice.get(f"/queue/?state=ended&page={number}")
    assert len(page.context["rows"]) == shown
    assert "of many" in page.text
    assert ("Next page" in page.text) == (shown == 2)


def test_the_overview_folds_too(as_alice: Client, alice: User, project: Project) -> None:
    cast.array(alice, project, *MIXED, State.COMPLETED)
    cast.array(alice, project, State.COMPLETED, State.FAILED)
    context = as_alice.get("/").context
    for name, tasks in (("open_jobs", 6), ("ended_jobs", 2)):
        (row,) = context[name]
        assert row.array.jobs == tasks, name


@pytest.mark.parametrize("address", ["/queue/", "/queue/?state=all", "/"])
def test_the_number_of_queries_does_not_grow_with_arrays(
    as_alice: Client, alice: User, project: Project, node: Node, address: str
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            as_alice.get(address)
        return len(seen)

    cast.run(cast.array(alice, project, *MIXED)[2], node, 0)
    before = queries()
    for index in range(1, 4):
        cast.run(cast.array(alice, project, *MIXED, *MIXED)[2], node, index)
    assert queries() == before


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's plan is by its statistics")
@pytest.mark.parametrize("query", ["", "?state=all", "?state=ended", "?state=RUNNING"])
def test_an_arrays_next_task_is_found_by_index(
    as_alice: Client, alice: User, project: Project, query: str
) -> None:
    cast.array(alice, project, *MIXED)
    with CaptureQueriesContext(connection) as seen:
        as_alice.get(f"/queue/{query}", headers={"HX-Request": "true"})
    listing = next(q["sql"] for q in seen if '"portal_job"."spec"' in q["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {listing}")
        plan = " ".join(str(row[-1]) for row in cursor.fetchall())
    assert "job_by_array" in plan, plan
