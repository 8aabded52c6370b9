"""Nobody is promised a time at which an array's limit or a quota would be in the way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import NOTHING, PLAIN, usage
from tests.jobs.scheduler.play import promised

HOUR = timedelta(hours=1)
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)
LAB = (Project(1, "vision", None), Project(2, "language", None))
TWO = (node(1, used={50: 4}), node(2, used={51: 2}))
"""The first is free at 13:00, the other half of the second at 14:00."""
ENDS = (running(50, 60, 1, gpus=4.0, project_id=2), running(51, 120, 2, gpus=2.0, project_id=2))
LONG = {"walltime_s": 36_000}


def lab(
    queue: tuple[Pending, ...], limits: Limits | None = None,
    nodes: tuple[Node, ...] = TWO, active: tuple[Running, ...] = ENDS,
) -> Snapshot:  # fmt: skip
    """Project vision has these limits."""
    quotas = (Quota(1, limits),) if limits else ()
    return Snapshot(
        nodes, queue, active, projects=LAB, quotas=quotas,
        quota_usage=usage(list(queue), list(active), NOTHING), policy=IN_ORDER,
    )  # fmt: skip


def task(job_id: int, **more: object) -> Pending:
    return pending(job_id, 4, array_id=1, array_index=job_id, array_limit=1, **LONG, **more)


@pytest.mark.parametrize("limits", [None, Limits(gpus=4), Limits(jobs_running=1)])
def test_the_second_of_whom_one_may_run_is_promised_nothing(limits: Limits | None) -> None:
    """Be it by an array's limit or by a quota: the GPUs of the second node do not stay idle."""
    first, second = task(1, project_id=1), task(2, project_id=1)
    if limits:
        first, second = (replace(one, array_id=None, array_limit=None) for one in (first, second))
    asked = lab((first, second, pending(3, 2, project_id=2, walltime_s=18_000)), limits)
    found = plan(asked, NOW)
    assert [start.job_id for start in found.starts] == [3]
    assert promised(asked, NOW) == {1: (NOW + HOUR).timestamp()}
    assert [found.estimates[number].at for number in (1, 2)] == [NOW + HOUR, NOW + 11 * HOUR]


def test_what_they_are_told() -> None:
    found = plan(lab((task(1), task(2))), NOW).explanations[2]
    assert found.reason is Reason.ARRAY_LIMIT
    assert found.detail == (
        "Its array may run 1 task at once (%1), and the next one comes before it."
    )
    queue = (pending(1, 4, project_id=1, **LONG), pending(2, 4, project_id=1, **LONG))
    found = plan(lab(queue, Limits(gpus=4)), NOW).explanations[2]
    assert found.reason is Reason.QUOTA_GPUS
    assert found.detail == (
        "Project vision may use 4 GPUs at once; what is left of that is kept for job 1, which "
        "comes before it."
    )
    assert found.more == ("Needs 4 GPUs on one node; 2 are free (on n2).",)


def test_room_is_made_for_as_many_of_an_array_as_may_run() -> None:
    idle = tuple(
        Running(
            50 + number, NOW + 10 * HOUR, (number,), band=Band.BEST_EFFORT, gpus=4.0,
            started_at=NOW - 3 * HOUR,
        )
        for number in range(1, 5)
    )  # fmt: skip
    nodes = tuple(node(number, used={50 + number: 4}) for number in range(1, 5))
    queue = tuple(
        replace(task(number), band=Band.PRODUCTION, array_limit=2) for number in range(1, 9)
    )
    asked = replace(lab(queue, None, nodes, idle), policy=Policy(order=Order.SUBMISSION))
    assert len(plan(asked, NOW).preempted) == 2
