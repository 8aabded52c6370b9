"""Who may pass whom: promises are kept, and nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from jobs.bands import Band
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending, running
from tests.jobs.scheduler.generated import PLAIN
from tests.jobs.scheduler.play import promised
from tests.jobs.scheduler.worked_examples import table

HALF = [node(1, used={50: 2})]
UNTIL_ONE = [running(50, 60, 1)]
IN_ORDER = replace(PLAIN, order=Order.SUBMISSION)

# name: nodes, running, pending, what is not by default -> who starts
CASES: dict[str, tuple[list[Node], list[Running], list[Pending], dict[str, object], set[int]]] = {
    "one that ends before": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1)], {}, {2},
    ),
    "one that does not": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1, walltime_s=3601)], {}, set(),
    ),
    "one that stays clear of it": (
        HALF, UNTIL_ONE, [pending(1, 3), pending(2, 1, walltime_s=9999)], {}, {2},
    ),
    "two, of which one stays clear of it": (
        HALF, UNTIL_ONE,
        [pending(1, 3), pending(2, 1, walltime_s=9999), pending(3, 1, walltime_s=9999)], {}, {2},
    ),
    "on another node, if the best one is kept": (
        [node(1, used={50: 3}), node(2, used={51: 2})],
        [running(50, 60, 1), running(51, 600, 2)],
        [pending(1, 4, only_nodes=("n1",)), pending(2, 1, walltime_s=9999)], {}, {2},
    ),
    "the promise moves to another node": (
        [node(1, used={50: 3}), node(2, used={51: 4})],
        [running(50, 60, 1), running(51, 60, 2)],
        [pending(1, 4), pending(2, 1, walltime_s=9999)], {}, {2},
    ),
    "no backfill": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1)], {"backfill": Backfill.NONE}, set(),
    ),
    "whatever fits": (
        HALF, UNTIL_ONE, [pending(1, 4), pending(2, 1, walltime_s=9999)],
        {"backfill": Backfill.GREEDY}, {2},
    ),
    "who is second is kept a place, too": (
        HALF, UNTIL_ONE,
        [pending(1, 4), pending(2, 3), pending(3, 1, walltime_s=3601)], {}, set(),
    ),
    "a lower band waits behind a higher one": (
        [node(1, 1)], [],
        [pending(1, 1, band=Band.BEST_EFFORT), pending(2, 1), pending(3, 1, band=Band.PRODUCTION)],
        {}, {3},
    ),
    "who others made room for goes first": (
        [node(1, 1)], [],
        [pending(1, 1, band=Band.PRODUCTION), pending(2, 1, claimed_at=NOW)], {}, {2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_passes(case: str) -> None:
    nodes, active, queue, changed, expected = CASES[case]
    policy = Policy(**changed)  # type: ignore[arg-type]
    decided = plan(Snapshot(tuple(nodes), tuple(queue), tuple(active), policy=policy), NOW)
    assert {start.job_id for start in decided.starts} == expected


def test_the_worked_example() -> None:
    rows = table("Example: who passes whom")
    queue = tuple(
        pending(
            int(row["job"]), int(row["GPUs"]), walltime_s=round(3600 * float(row["time limit, h"]))
        )
        for row in rows
    )
    asked = Snapshot(tuple(HALF), queue, tuple(UNTIL_ONE), policy=IN_ORDER)
    begun = {start.job_id for start in plan(asked, NOW).starts}
    given_at = promised(asked, NOW)
    told = [
        (
            "now" if job.id in begun else "",
            f"{datetime.fromtimestamp(given_at[job.id], UTC):%H:%M}" if job.id in given_at else "",
        )
        for job in queue
    ]
    assert told == [(row["starts"], row["promised"]) for row in rows]
