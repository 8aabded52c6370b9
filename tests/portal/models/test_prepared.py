"""Prepared queries tell what the queries themselves do, each time anew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from jobs.lifecycle import State
from portal.models import Job, Node, Prepared, PreparedFor, Project, User
from tests.portal import cast

COLUMNS = (
    "owner__username", "pk", "submitted_at", "spec", "held", "nice", "started_at", "text",
)  # fmt: skip


def waiting(**only: Any) -> QuerySet[Job, Any]:
    rows = Job.objects.filter(state=State.PENDING, **only).annotate(text=Cast("spec", TextField()))
    return rows.order_by("-submitted_at", "pk").values_list(*COLUMNS)


@pytest.fixture
def jobs(alice: User, project: Project) -> list[Job]:
    return [
        cast.job(alice, project, name=f"j{n}", submitted_at=cast.NOW + timedelta(seconds=n % 3))
        for n in range(9)
    ]


@pytest.mark.usefixtures("jobs")
def test_the_same_rows_whatever_has_changed() -> None:
    found = Prepared(waiting)
    assert found.rows() == list(waiting())
    Job.objects.filter(name="j3").update(held=True, spec={"name": "new"}, nice=-7)
    Job.objects.filter(name="j4").update(state=State.CANCELLED)
    assert found.rows() == list(waiting())
    Job.objects.all().delete()
    assert found.rows() == []


def test_what_has_not_changed_is_read_once(jobs: list[Job]) -> None:
    read: list[int] = []

    def note(row: tuple[Any, ...]) -> int:
        read.append(row[1])
        return int(row[1])

    found = Prepared(waiting, note)
    before = found.rows()
    Job.objects.filter(pk=jobs[5].pk).update(nice=5)
    assert found.rows() == before == [row[1] for row in waiting()]
    assert read == [*before, jobs[5].pk]


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 8, 9])
def test_of_any_number_of_rows(jobs: list[Job], number: int) -> None:
    found = PreparedFor(lambda ids: waiting(pk__in=ids))
    for ids in ([job.pk for job in jobs[:number]], [job.pk for job in jobs[9 - number :]] * 2):
        assert found.rows(ids) == list(waiting(pk__in=ids))


def test_a_zero_and_a_false_are_told_apart_from_none(node: Node) -> None:
    found = Prepared(lambda: Node.objects.values_list("pk", "drained", "probed_at"))
    assert found.rows() == [(node.pk, False, cast.NOW)]
    Node.objects.update(drained=True, probed_at=None)
    assert found.rows() == [(node.pk, True, None)]
