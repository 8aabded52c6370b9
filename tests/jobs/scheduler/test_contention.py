"""What must hold, where all want the same: few nodes, small quotas, gangs only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Limits, Quota, Scope
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Order, Placing
from jobs.scheduler.snapshot import Pending, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending
from tests.jobs.scheduler.generated import PLAIN, seeds, usage
from tests.jobs.scheduler.play import Play, settle
from tests.jobs.scheduler.quotas import PERIODS
from tests.jobs.scheduler.recount import applied
from tests.jobs.scheduler.test_plan_properties import keeps_to_quotas
from tests.jobs.scheduler.test_preempt import EAGER

LINE = (Project(1, "top", None), Project(2, "middle", 1), Project(3, "leaf", 2))
LIMITS: tuple[Callable[[Random], Limits], ...] = (
    lambda dice: Limits(gpus=dice.randint(1, 6)),
    lambda dice: Limits(jobs_running=dice.randint(1, 3)),
    lambda dice: Limits(gpu_hours=dice.choice([4, 10])),
)


@given(seeds)
def test_no_quota_of_those_above_is_exceeded(seed: int) -> None:
    """There is room for all; the project that most are of has no quota of its own."""
    dice = Random(seed)
    quotas = tuple(
        Quota(
            dice.choice([1, 2]),
            dice.choice(LIMITS)(dice),
            dice.choice(list(Scope)),
            period=PERIODS[0],
        )
        for _ in range(dice.randint(1, 3))
    )
    queue = [
        pending(
            number, dice.randint(1, 3), walltime_s=dice.choice([3600, 7200]),
            project_id=dice.choice([2, 3, 3]), user_id=dice.choice([1, 2]),
        )
        for number in range(1, 9)
    ]  # fmt: skip
    keeps_to_quotas(
        Snapshot(
            tuple(map(node, range(1, 7))), tuple(queue), projects=LINE, quotas=quotas,
            quota_usage=usage(queue, []), policy=PLAIN,
        )
    )  # fmt: skip


@given(seeds)
def test_gangs_start_whole_or_not_at_all(seed: int) -> None:
    dice = Random(seed)
    nodes = tuple(
        node(number, used={100 + number: dice.randint(0, 2)}, switches=(f"s{number % 2}", "top"))
        for number in range(1, 6)
    )
    queue = tuple(
        pending(
            number, dice.randint(1, 3), nodes=dice.choice([2, 2, 3, 4]),
            max_switches=dice.choice([None, 1, 2]),
        )
        for number in range(1, 6)
    )  # fmt: skip
    decided = plan(Snapshot(nodes, queue, policy=PLAIN), NOW)
    asked = {job.id: job.resources.nodes for job in queue}
    for start in decided.starts:
        assert len({part.node_id for part in start.placements}) == asked[start.job_id]
    applied(Snapshot(nodes, queue), decided, NOW)


@given(seeds)
def test_parts_of_gpus_are_given_once_and_only_where_jobs_are_taken(seed: int) -> None:
    """GPUs divided in two, four and eight; half of the nodes are being drained."""
    dice = Random(seed)
    nodes = tuple(
        replace(made, gpus=tuple(replace(gpu, shards=dice.choice([2, 4, 8])) for gpu in made.gpus))
        for made in (
            node(number, gpus=2, unavailable=dice.choice(["", "draining"]))
            for number in range(1, 5)
        )
    )
    queue = tuple(
        pending(number, shards=dice.choice([1, 1, 2, 3]), nodes=dice.choice([1, 1, 2]))
        for number in range(1, 13)
    )
    quotas = (Quota(1, Limits(gpus=dice.choice([0.75, 1.25, 9]))),)
    queue = tuple(replace(job, project_id=1) for job in queue)
    asked = Snapshot(
        nodes, queue, projects=LINE, quotas=quotas, quota_usage=usage(list(queue), []),
        policy=replace(PLAIN, placing=dice.choice(list(Placing))),
    )  # fmt: skip
    applied(asked, plan(asked, NOW), NOW)
    keeps_to_quotas(asked)


def test_a_gang_keeps_to_a_quota_that_it_could_keep_to_elsewhere() -> None:
    """A quarter and a half of a GPU would be within it; two halves are not."""
    nodes = [node(number, gpus=1) for number in (1, 2, 3)]
    divided = tuple(
        replace(made, gpus=(replace(made.gpus[0], shards=shards),))
        for made, shards in zip(nodes, (4, 4, 8), strict=True)
    )
    queue = [pending(1, shards=2, nodes=2, project_id=1)]
    keeps_to_quotas(
        Snapshot(
            divided, tuple(queue), projects=LINE, quotas=(Quota(1, Limits(gpus=0.8)),),
            quota_usage=usage(queue, []), policy=PLAIN,
        )
    )  # fmt: skip


@given(seeds)
def test_of_an_array_as_many_tasks_start_as_it_may_run(seed: int) -> None:
    dice = Random(seed)
    limits = {array_id: dice.randint(1, 3) for array_id in (1, 2)}
    queue = tuple(
        pending(number, 1, array_id=array_id, array_limit=limits[array_id], array_index=number)
        for number, array_id in ((n, dice.choice([1, 2])) for n in range(1, 13))
    )
    begun = {start.job_id for start in plan(Snapshot((node(1), node(2)), queue), NOW).starts}
    for array_id, limit in limits.items():
        tasks = {job.id for job in queue if job.array_id == array_id}
        assert len(tasks & begun) == min(limit, len(tasks))


@given(seeds, st.sampled_from(list(Order)))
def test_of_equal_jobs_the_same_start_in_whatever_order_they_are_told(
    seed: int, order: Order
) -> None:
    dice = Random(seed)
    queue = [pending(number, 2, submitted_at=NOW) for number in range(1, 9)]
    asked = Snapshot((node(1), node(2)), tuple(queue), policy=replace(PLAIN, order=order))
    other = replace(asked, pending=tuple(dice.sample(queue, len(queue))))
    assert plan(other, NOW) == plan(asked, NOW)


@settings(max_examples=max(1, settings().max_examples // 3))
@given(seeds, st.sampled_from([1, 2, 50]))
def test_preempting_comes_to_an_end_on_one_node(seed: int, most: int) -> None:
    """Nobody has to go for who did not get the room last time, more often in a row than the policy
    says, or for anybody but a higher band."""
    dice = Random(seed)
    come = _waves(dice)
    bands = {job.id: job.band for job in come}
    policy = replace(EAGER, max_preemptions=most)
    play = Play(Snapshot((node(1),), (), policy=policy), lambda job_id, limit: max(1, limit // 2))
    settle(play, come, lambda: dice.choice([0, 0, 0, 0, 0, 2]), rounds=300, step_s=300)
    assert all(bands[one.job_id].rank < bands[one.for_id].rank for one in play.preempted)
    assert play.started.keys() == bands.keys()
    asked = Counter(one.job_id for one in play.preempted)
    assert max(asked.values(), default=0) <= most


def _waves(dice: Random) -> list[Pending]:
    """The last comes first: one that runs for hours, then time and again one of a low band that may
    fit beside it and one of a high band that does not."""
    found = [(dice.randint(1, 3), Band.BEST_EFFORT, 20_000)]
    for _ in range(5):
        low = dice.choice([Band.BATCH, Band.BEST_EFFORT])
        high = dice.choice([Band.MONITORING, Band.PRODUCTION])
        found.append((dice.randint(1, 2), low, dice.choice([600, 3600])))
        found.append((dice.randint(3, 4), high, 600))
    return [
        pending(number, gpus, band=band, walltime_s=walltime_s)
        for number, (gpus, band, walltime_s) in reversed([*enumerate(found, 1)])
    ]
