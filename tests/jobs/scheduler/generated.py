"""Clusters, labs and queues of every kind, small enough that much meets.

Each thing has a random generator of its own, so that a failing case stays as it is while nodes and
jobs are left out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Member
from jobs.scheduler.limits import Demand, Holding, Key, Usage
from jobs.scheduler.periods import Slice
from jobs.scheduler.policy import BY_DEFAULT, Backfill, Order, Policy
from jobs.scheduler.snapshot import (
    DependencyState,
    Node,
    Pending,
    Placement,
    Reservation,
    Running,
    Snapshot,
)
from jobs.spec import Resources
from tests.jobs.scheduler.clusters import A100, H100, NOW, node
from tests.jobs.scheduler.quotas import PERIODS, Lab, labs
from tests.jobs.scheduler.recount import able, counted, fits, occupied, usable
from tests.jobs.scheduler.told import NOTHING, Told

SWITCHES = (
    (), ("s1", "left", "top"), ("s2", "left", "top"), ("s3", "right", "top"), ("s4", "right", "top")
)  # fmt: skip
EVERY = BY_DEFAULT | {Band.PRODUCTION: frozenset({Band.BATCH, Band.BEST_EFFORT})}
PLAIN = Policy(preempts={})
NO_LAB = Lab((), (), frozenset())
ARRAY = 7
PLAIN_BANDS = (Band.PRODUCTION, Band.BATCH, Band.BATCH, Band.BEST_EFFORT)
seeds = st.integers(0, 2**32 - 1)


def request(dice: Random, most_nodes: int = 3, most_gpus: int = 4) -> Resources:
    """What somebody may ask for: mostly something that there is."""
    shards = dice.choice([0, 0, 0, 0, 1, 2, 3])
    return Resources(
        nodes=dice.choice([1, min(2, most_nodes), dice.randint(1, most_nodes)]),
        gpus_per_node=0 if shards else dice.choice([0, 1, 1, 2, dice.randint(0, most_gpus)]),
        shards=shards,
        gpu_model=dice.choice([None] * 8 + ["a100", "h100"]),
        tasks_per_node=dice.choice([1, 1, 2, 3]),
        cpus_per_task=dice.choice([1, 1, 2, 8]),
        memory_mib=dice.choice([None, None, 1024, 8192, 70_000]),
        exclusive=not shards and dice.random() < 0.15,
        features=dice.choice([()] * 8 + [("nvlink",), ("a100",)]),
        not_nodes=dice.choice([()] * 5 + [("n1",)]),
        max_switches=dice.choice([None, None, None, 1, 2]),
    )


resources = seeds.map(lambda seed: request(Random(seed)))


def machine(dice: Random, number: int, plain: bool) -> Node:
    """One node with nothing on it. `plain`: of the one partition, and it takes jobs."""
    found = node(
        number,
        gpus=dice.choice([0, 1, 2, 3, 4, 4, 4]),
        model=dice.choice([A100, A100, H100]),
        partition="gpu" if plain else dice.choice(["gpu"] * 5 + ["cpu"]),
        cpus=dice.choice([4, 16, 32, 32]),
        memory_mib=dice.choice([8192, 65_536, 131_072, 131_072]),
        features=dice.choice([(), ("nvlink",)]),
        switches=dice.choice(SWITCHES),
        unavailable="" if plain else dice.choice([""] * 6 + ["draining: fan noise"]),
    )
    parts = dice.choice([(0,), (2,), (4,), (2, 4), (0, 3)])
    cards = (replace(g, shards=dice.choice(parts), domain=g.index // 2) for g in found.gpus)
    return replace(found, gpus=tuple(cards))


def policy(dice: Random) -> Policy:
    return Policy(
        order=dice.choice(list(Order)),
        backfill=dice.choice([*Backfill, Backfill.RESERVING]),
        reservations=dice.choice([1, 2, 16]),
        preempts=dice.choice([BY_DEFAULT, EVERY, {}]),
        min_run_s=dice.choice([0.0, 600.0]),
    )


@st.composite
def snapshots(draw: st.DrawFn, most: int = 9, plain: bool = False) -> Snapshot:
    """A consistent cluster: what running jobs hold is what is missing on the nodes.

    `plain`: nothing of a job's own keeps it back, no quota, and all nodes take jobs.
    """
    seed = draw(seeds)
    lab = NO_LAB if plain else draw(labs() | st.just(NO_LAB))
    count = 6 - draw(st.integers(1, 5))
    nodes = [machine(Random(f"node {n} {seed}"), n, plain) for n in range(1, count + 1)]
    projects = [project.id for project in lab.projects] or [0]
    active = []
    for job_id in range(101, 109 - draw(st.integers(0, 8))):
        found = _busy(Random(f"job {job_id} {seed}"), nodes, job_id, projects)
        active += [found] if found else []
    dice = Random(seed)
    kept = [] if plain else reserved(Random(f"kept {seed}"), nodes)
    make = _plain if plain else _pending
    waiting = [
        make(Random(f"job {job_id} {seed}"), job_id, projects)
        for job_id in range(1, 1 + most - draw(st.integers(0, most)))
    ]
    usable_by = [frozenset[int](), *(frozenset({one.id}) for one in kept[1:])]
    waiting = [replace(job, reservations=dice.choice(usable_by)) for job in waiting]
    limits = dice.choice([[None], [1], [2], [None, 1, 2]])
    waiting = [
        replace(job, array_limit=dice.choice(limits) if job.array_id else None) for job in waiting
    ]
    members = [Member(project, user) for project in projects if lab.projects for user in (1, 2)]
    return Snapshot(
        tuple(nodes),
        tuple(waiting),
        tuple(active),
        projects=lab.projects,
        members=tuple(members),
        usage=tuple(((m.project_id, m.user_id), dice.choice([0.0, 1e2, 5e3])) for m in members),
        quotas=lab.quotas,
        lends=lab.lends,
        quota_usage=usage(
            waiting, active, NOTHING if plain else before(Random(f"used {seed}"), lab)
        ),
        reservations=tuple(kept),
        policy=PLAIN if plain else policy(dice),
    )


def reserved(dice: Random, nodes: list[Node]) -> list[Reservation]:
    """Of nodes for a time: the first for maintenance, any other for some of the jobs."""
    return [
        Reservation(
            number,
            f"r{number}",
            _later(dice, -100, 200),
            _later(dice, 201, 500),
            frozenset(node.id for node in nodes if dice.random() < 0.5),
        )
        for number in range(1, 1 + dice.choice([0, 0, 1, 2, 3]))
    ]


def before(dice: Random, lab: Lab) -> Told:
    """GPU-hours used this month, which is less than 30 days old."""
    found = {}
    for project in lab.projects:
        for user in (1, 2):
            if dice.random() < 0.4:
                start = NOW - timedelta(hours=dice.randint(25, 24 * 19))
                lasts = timedelta(hours=dice.randint(1, 24))
                seconds = 3600.0 * dice.choice([1, 5, 40])
                key = project.id, user, dice.choice([Band.BATCH, Band.PRODUCTION])
                found[key] = (Slice(start, start + lasts, seconds),)
    return Told(found, lab.projects)


def usage(
    waiting: Iterable[Pending],
    active: Iterable[Running],
    history: Told = NOTHING,
) -> Usage:
    """What counts against quotas, with what was used before in both periods."""
    key: Counter[Key] = Counter((job.project_id, job.user_id, job.band) for job in waiting)
    used = {who: sum(one.gpu_seconds for one in some) for who, some in history.by_key.items()}
    told = dict.fromkeys(PERIODS, used)
    return Usage(NOW, tuple(map(_holding, active)), key, told, history)


def _holding(job: Running) -> Holding:
    start = job.started_at or NOW
    length = round((job.ends_by - start).total_seconds())
    asked = Demand(job.id, job.project_id, job.user_id, job.band, job.gpus, length, "gpu")
    return Holding(asked, start)


def _busy(dice: Random, nodes: list[Node], job_id: int, projects: list[int]) -> Running | None:
    """A job that runs on the first nodes that have room, which are changed; None if there is no
    room."""
    asked = request(dice)
    partition = dice.choice(["gpu", "gpu", "cpu"])
    there = [n for n in nodes if n.partition == partition and able(n, asked) and fits(n, asked)]
    if len(there) < asked.nodes:
        return None
    chosen = there[: asked.nodes]
    parts = [_part(one, asked) for one in chosen]
    for one, part in zip(chosen, parts, strict=True):
        nodes[one.id - 1] = occupied(one, part, job_id, asked)
    gpus = float(counted(parts, {one.id: one for one in chosen}, asked))
    ends_by = _later(dice, -5, 500)
    found = Running(
        job_id,
        ends_by,
        tuple(one.id for one in chosen),
        dice.choice([None, None, ARRAY]),
        0 if asked.exclusive else asked.cpus,
        0 if asked.exclusive else asked.memory_mib or 0,
        project_id=dice.choice(projects),
        user_id=dice.choice([1, 2]),
        band=dice.choice(list(Band)),
        expected_end=min(_later(dice, -5, 500), ends_by) if dice.random() < 0.5 else None,
        gpus=gpus,
        started_at=min(ends_by, NOW) - timedelta(minutes=dice.randint(0, 300)),
        saved_at=NOW - timedelta(minutes=1) if dice.random() < 0.5 else None,
        preemptions=dice.choice([0, 0, 0, 3]),
        leaving=dice.random() < 0.15,
    )
    if dice.random() < 0.3:
        return found
    again = replace(_plain(dice, job_id, projects), resources=asked, partition=partition)
    again = replace(again, project_id=found.project_id, user_id=found.user_id, band=found.band)
    return replace(found, again=again)


def _part(machine: Node, asked: Resources) -> Placement:
    if asked.exclusive:
        every = tuple(gpu.uuid for gpu in machine.gpus)
        return Placement(machine.id, every, machine.cpus, asked.memory_mib or 0)
    cards = [gpu for gpu in usable(machine, asked) if gpu.job_id is None]
    if asked.shards:
        left = {g.uuid: g.shards - sum(shards for _, shards in g.sharers) for g in cards}
        chosen = [next(uuid for uuid, parts in left.items() if parts >= asked.shards)]
    else:
        chosen = [gpu.uuid for gpu in cards if not gpu.sharers][: asked.gpus_per_node]
    memory = asked.memory_mib or 0
    return Placement(machine.id, tuple(chosen), asked.cpus, memory, asked.shards)


def _later(dice: Random, low: int, high: int) -> datetime:
    return NOW + timedelta(minutes=dice.randint(low, high))


def _plain(dice: Random, job_id: int, projects: list[int]) -> Pending:
    """Nothing of its own keeps this one back."""
    return Pending(
        id=job_id,
        submitted_at=NOW - timedelta(hours=dice.randint(0, 3)),
        resources=request(dice),
        walltime_s=dice.choice([60, 3600, 20_000]),
        partition="gpu",
        project_id=dice.choice(projects),
        user_id=dice.choice([1, 2]),
        band=dice.choice(PLAIN_BANDS),
    )


def _pending(dice: Random, job_id: int, projects: list[int]) -> Pending:
    dependency = DependencyState.NONE if dice.random() < 0.85 else dice.choice([*DependencyState])
    return replace(
        _plain(dice, job_id, projects),
        band=dice.choice(list(Band)),
        partition=dice.choice(["gpu"] * 12 + ["cpu", "cpu", "none"]),
        held=dice.random() < 0.07,
        begin_at=_later(dice, -60, 60) if dice.random() < 0.15 else None,
        deadline_at=_later(dice, 0, 600) if dice.random() < 0.15 else None,
        dependency=dependency,
        waits_for=dice.choice([(), (101,), (101, 3)]),
        array_id=dice.choice([None, None, ARRAY]),
        nice=dice.choice([0, 0, 0, -1000, 1000]),
        expected_s=dice.choice([None, None, 1.0, 50.0]),
        spread_s=dice.choice([None, None, (1.0, 60.0)]),
        claimed_at=NOW - timedelta(minutes=1) if dice.random() < 0.1 else None,
    )


def late(seed: int, turn: int, longest: int = 20_000) -> list[Pending]:
    """Small ones that everybody else goes before, and who come while a cluster is played."""
    dice = Random(f"{turn} {seed}")
    return [
        Pending(
            id=1000 + 10 * turn + number,
            submitted_at=NOW + timedelta(seconds=10 * turn + number),
            resources=request(dice, most_nodes=1, most_gpus=2),
            walltime_s=dice.choice([60, 3600, longest]),
            partition="gpu",
            band=Band.BEST_EFFORT,
        )
        for number in range(3)
    ]
