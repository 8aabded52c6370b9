"""Why a job waits: a cluster and a queue in, sentences with true numbers out."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from jobs.lifecycle import Reason
from jobs.scheduler.plan import plan
from jobs.scheduler.snapshot import (
    DependencyState,
    Node,
    Pending,
    Running,
    Snapshot,
)
from tests.jobs.scheduler.clusters import NOW, node, pending, running

HOUR = timedelta(hours=1)
BUSY = [node(1, used={50: 3}), node(2, used={17: 4})]
ENDS = [running(17, 125, 2), running(50, 1600, 1)]

# name: nodes, running, pending -> {job: (reason, sentence)}
SENTENCES: dict[
    str, tuple[list[Node], list[Running], list[Pending], dict[int, tuple[Reason, str]]]
] = {
    "what is free, and whose end helps": (
        BUSY,
        ENDS,
        [pending(1, 2), pending(2, 1), pending(3, 1)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 2 GPUs on one node; none is free. "
                "Job 17 makes room for it on n2 by 14:05 UTC at the latest.",
            ),
            3: (
                Reason.RESOURCES,
                "Needs 1 GPU on one node; none is free. "
                "Job 2 makes room for it on n1 by 13:00 UTC at the latest.",
            ),
        },
    ),
    "several ends, on another day": (
        BUSY,
        ENDS,
        [pending(1, 4, nodes=2)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 2 nodes with 4 GPUs each; none has that free now. "
                "Jobs 17 and 50 make room for it on n1, n2 by 14:40 UTC on 22 Nov at the latest.",
            ),
        },
    ),
    "a gang that is nearly there": (
        [node(1), node(2), node(3, used={17: 1})],
        [running(17, 125, 3)],
        [pending(1, 4, nodes=3, cpus_per_task=2, memory_mib=65_536)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 3 nodes with 4 GPUs, 2 CPUs and 64 GiB each; 2 have that free now (n1, n2). "
                "Job 17 makes room for it on n1, n2, n3 by 14:05 UTC at the latest.",
            ),
        },
    ),
    "seconds count": (
        [node(1, used={17: 4})],
        [Running(17, NOW + timedelta(minutes=125, seconds=1), (1,))],
        [pending(1, 1)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 1 GPU on one node; none is free. "
                "Job 17 makes room for it on n1 by 14:06 UTC at the latest.",
            ),
        },
    ),
    "an array's next task may go first": (
        [node(1, used={17: 2, 4: 2})],
        [running(17, 125, 1), running(4, 125, 1, array_id=4, array_index=0)],
        [
            pending(5, 2, array_id=4, array_index=1, array_limit=1),
            pending(6, 4),
            pending(7, 1),
        ],
        {
            5: (
                Reason.ARRAY_LIMIT,
                "Its array may run 1 task at once (%1): 1 runs now "
                "and ends by 14:05 UTC at the latest.",
            ),
            6: (
                Reason.RESOURCES,
                "Needs 4 GPUs on one node; none is free. "
                "Jobs 4_0 and 17 make room for it on n1 by 14:05 UTC at the latest.",
            ),
            7: (
                Reason.RESOURCES,
                "Needs 1 GPU on one node; none is free. "
                "Job 6 goes first; there is room for it on n1 by 15:05 UTC unless job"
                " 4_1, which is ahead of it, starts there first.",
            ),
        },
    ),
    "who can go first, and who cannot": (
        [node(1, used={17: 4}), node(2, 0, cpus=1, cpus_free=0)],
        [running(17, 125, 1)],
        [
            pending(1, 1, held=True),
            pending(2, 1, begin_at=NOW + HOUR),
            pending(3, 1, begin_at=NOW + 3 * HOUR),
            pending(4, 1, dependency=DependencyState.NEVER, waits_for=(16,)),
            pending(5, 1, partition="other", held=True),
            pending(6, 1, only_nodes=("n2",)),
            pending(7, 1),
            pending(8, 1, held=True),
        ],
        {
            1: (Reason.HELD_USER, "Held: it does not start before somebody releases it."),
            2: (Reason.BEGIN_TIME, "Asked to start no earlier than 13:00 UTC."),
            3: (Reason.BEGIN_TIME, "Asked to start no earlier than 15:00 UTC."),
            4: (
                Reason.DEPENDENCY_NEVER,
                "It waits for job 16, which did not end the way it asks for: it can never start.",
            ),
            5: (Reason.HELD_USER, "Held: it does not start before somebody releases it."),
            6: (
                Reason.BAD_CONSTRAINTS,
                "It asks for 1 GPU; partition gpu has no GPUs. "
                "It cannot start unless such a node is added.",
            ),
            7: (
                Reason.RESOURCES,
                "Needs 1 GPU on one node; none is free. "
                "Job 17 makes room for it on n1 by 14:05 UTC unless one of 2 jobs "
                "that are ahead of it starts there first.",
            ),
            8: (Reason.HELD_USER, "Held: it does not start before somebody releases it."),
        },
    ),
    "many, and tasks by their labels": (
        [node(1, used={3: 1, 8: 1, 9: 1, 10: 1})],
        [running(8, 125, 1, array_id=4, array_index=4)]
        + [running(number, 100, 1) for number in (3, 9, 10)],
        [pending(20, 4), pending(21, dependency=DependencyState.WAITING, waits_for=(4, 8))],
        {
            20: (
                Reason.RESOURCES,
                "Needs 4 GPUs on one node; none is free. "
                "Jobs 3, 4_4 and 2 others make room for it on n1 by 14:05 UTC at the latest.",
            ),
            21: (Reason.DEPENDENCY, "Waits for jobs 4 and 4_4 to end, by 14:05 UTC at the latest."),
        },
    ),
    "an array as a whole ends with its last task": (
        [node(1, used={4: 1})],
        [running(4, 125, 1, array_id=4, array_index=0)],
        [
            pending(5, held=True, array_id=4, array_index=1),
            pending(6, dependency=DependencyState.WAITING, waits_for=(4,)),
        ],
        {
            5: (Reason.HELD_USER, "Held: it does not start before somebody releases it."),
            6: (Reason.DEPENDENCY, "Waits for job 4 to end."),
        },
    ),
    "a job past its limit": (
        [node(1, used={17: 4})],
        [running(17, -1, 1)],
        [pending(1, 1)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 1 GPU on one node; none is free. "
                "Job 17 is past the time limit and about to leave n1.",
            )
        },
    ),
    "an unknown holder": (
        [node(1, used={17: 4})],
        [],
        [pending(1, 1)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 1 GPU on one node; none is free. When that will be free is not known.",
            )
        },
    ),
    "CPUs are what is missing": (
        [node(1, cpus_free=4, jobs=(17,))],
        [running(17, 125, 1)],
        [pending(1, 2, cpus_per_task=16)],
        {
            1: (
                Reason.RESOURCES,
                "Needs 2 GPUs and 16 CPUs on one node; the closest, n1, has only 4 CPUs free. "
                "Job 17 makes room for it on n1 by 14:05 UTC at the latest.",
            ),
        },
    ),
    "a whole node": (
        [node(1, used={17: 1}), node(2, unavailable="draining: fan noise")],
        [running(17, 125, 1)],
        [pending(1, 1, exclusive=True)],
        {
            1: (
                Reason.RESOURCES,
                "Needs a whole node with 1 GPU; none is empty. "
                "Job 17 makes room for it on n1 by 14:05 UTC at the latest. "
                "Could hold it too, but takes no jobs now: n2 (draining: fan noise).",
            ),
        },
    ),
    "waits of its own": (
        [node(1)],
        [running(17, 125, 1, array_id=7)],
        [
            pending(1, held=True),
            pending(2, held=True, hold_reason=Reason.HELD_LAUNCH),
            pending(3, begin_at=NOW + HOUR),
            pending(4, dependency=DependencyState.WAITING, waits_for=(17,)),
            pending(5, dependency=DependencyState.WAITING, waits_for=(1, 2, 17)),
            pending(6, dependency=DependencyState.NEVER, waits_for=(16,)),
            pending(7, array_id=7, array_limit=1),
            pending(8, held=True, hold_reason=Reason.HELD_ADMIN),
        ],
        {
            1: (Reason.HELD_USER, "Held: it does not start before somebody releases it."),
            8: (
                Reason.HELD_ADMIN,
                "Held by an administrator: it does not start before one releases it.",
            ),
            2: (
                Reason.HELD_LAUNCH,
                "Held because it could not be launched; see its last attempt, then release it.",
            ),
            3: (Reason.BEGIN_TIME, "Asked to start no earlier than 13:00 UTC."),
            4: (Reason.DEPENDENCY, "Waits for job 17 to end, by 14:05 UTC at the latest."),
            5: (Reason.DEPENDENCY, "Waits for jobs 1, 2 and 17 to end; 1 of 3 runs now."),
            6: (
                Reason.DEPENDENCY_NEVER,
                "It waits for job 16, which did not end the way it asks for: it can never start.",
            ),
            7: (
                Reason.ARRAY_LIMIT,
                "Its array may run 1 task at once (%1): 1 runs now "
                "and ends by 14:05 UTC at the latest.",
            ),
        },
    ),
    "nodes that are away": (
        [node(1, 2), node(2, unavailable="down"), node(3, 2)],
        [],
        [pending(1, 4), pending(2, 1, nodes=3)],
        {
            1: (
                Reason.NODE_DOWN,
                "Only n2 (down) could hold it, and takes no jobs now. "
                "It goes on by itself once enough are back.",
            ),
            2: (
                Reason.NODE_DOWN,
                "Needs 3 nodes; of those that could hold it 2 take jobs now. "
                "Not available: n2 (down). It goes on by itself once enough are back.",
            ),
        },
    ),
    "a partition that is away, one that is empty, and the impossible": (
        [node(1, partition="old", unavailable="draining: moved"), node(2)],
        [],
        [pending(1, 1, partition="old"), pending(2, partition="none"), pending(3, 6)],
        {
            1: (
                Reason.PARTITION_DOWN,
                "No node of partition old takes jobs now: n1 (draining: moved). "
                "It goes on by itself once enough are back.",
            ),
            2: (
                Reason.PARTITION_DOWN,
                "Partition none has no nodes. It starts once an admin adds one.",
            ),
            3: (
                Reason.BAD_CONSTRAINTS,
                "It asks for 6 GPUs on one node; the largest node (n2) has 4. "
                "It cannot start unless such a node is added.",
            ),
        },
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_why_the_rest_waits(case: str) -> None:
    nodes, active, queue, expected = SENTENCES[case]
    decided = plan(Snapshot(tuple(nodes), tuple(queue), tuple(active)), NOW)
    told = {job: (why.reason, why.detail) for job, why in decided.explanations.items()}
    assert told == expected


def test_a_start_of_this_very_plan_is_foretold_to_end() -> None:
    decided = plan(Snapshot((node(1),), (pending(1, 3), pending(2, 2))), NOW)
    assert decided.explanations[2].detail == (
        "Needs 2 GPUs on one node; 1 is free (on n1). "
        "Job 1 makes room for it on n1 by 13:00 UTC at the latest."
    )


def test_sentences_tell_the_time_in_the_zone_of_now() -> None:
    tokyo = NOW.astimezone(timezone(timedelta(hours=9), "JST"))
    job = pending(1, begin_at=NOW + 4 * HOUR)
    assert plan(Snapshot((node(1),), (job,)), tokyo).explanations[1].detail == (
        "Asked to start no earlier than 01:00 JST on 22 Nov."
    )
