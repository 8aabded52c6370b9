"""Many rows, each with values of its own, in one statement for those that change alike."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.models import Gpu, Job, Node, Project, User, update_each
from tests.portal import cast


def test_each_row_gets_its_own_values(node: Node) -> None:
    first, second, third = Gpu.objects.order_by("index").values_list("pk", flat=True)[:3]
    busy = [{"pid": 17, "command": "50% of 'it'"}]
    update_each(
        Gpu.objects.all(),
        {
            first: {"sampled_at": cast.NOW, "power_w": 60.5, "processes": busy},
            second: {"sampled_at": None, "power_w": None, "processes": []},
            third: {"model": "T4"},
        },
    )
    told = ("sampled_at", "power_w", "processes", "model")
    rows = Gpu.objects.in_bulk([first, second, third])
    assert [getattr(rows[first], name) for name in told[:3]] == [cast.NOW, 60.5, busy]
    assert [getattr(rows[second], name) for name in told[:3]] == [None, None, []]
    assert [getattr(rows[third], name) for name in told] == [cast.NOW, 52.5, [], "T4"]


def test_only_rows_of_the_query_set_are_written(alice: User, project: Project) -> None:
    waits, ended = (cast.job(alice, project, state=state) for state in ("PENDING", "FAILED"))
    named = cast.job(alice, project, name="named")
    only = Job.objects.filter(state__in=["PENDING", "RUNNING"], cancelled_at=None, name="train")
    update_each(only, {job.pk: {"cancelled_by": alice} for job in (waits, ended, named)})
    assert list(Job.objects.filter(cancelled_by=alice)) == [waits]


@pytest.mark.parametrize("number", [1, 40])
def test_rows_that_change_alike_are_one_statement(db: None, number: int) -> None:
    node = cast.node("n", gpus=number)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        update_each(node.gpus.all(), {gpu.pk: {"index": gpu.index + 1} for gpu in node.gpus.all()})
    assert len([query for query in seen if "UPDATE" in query["sql"]]) == 1
    assert sorted(node.gpus.values_list("index", flat=True)) == list(range(1, number + 1))
