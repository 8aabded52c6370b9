"""The order in which waiting jobs are taken: bands first, within a band as the policy says."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from jobs.scheduler.demand import least
from jobs.scheduler.fairshare import Association, standings
from jobs.scheduler.policy import Order
from jobs.scheduler.predict import response_ratio
from jobs.scheduler.priority import LONG_WAIT_S, points
from jobs.scheduler.snapshot import DependencyState, Node, Pending, Running, Snapshot
from jobs.spec import Resources


def ranked(snapshot: Snapshot, now: datetime) -> list[Pending]:
    """All pending jobs, the first to be taken in front. Equal ones go by submission."""
    return sorted(snapshot.pending, key=place(snapshot, now))


Place = tuple[bool, int, float, float, float, int]
Score = Callable[[Pending], float]


def place(snapshot: Snapshot, now: datetime) -> Callable[[Pending], Place]:
    """What sorts the first to be taken in front. Who waits beside a job matters to it only where
    somebody has waited for too long. Those for whom others make room keep the order in which these
    were told: else the place that was made for one could go to a later one."""
    own = _score(snapshot, now)
    return lambda job: (
        job.claimed_at is None,
        -job.band.rank,
        job.claimed_at.timestamp() if job.claimed_at else 0.0,
        -own(job),
        job.submitted_at.timestamp(),
        job.id,
    )


def _score(snapshot: Snapshot, now: datetime) -> Score:
    """The highest goes first."""
    order = snapshot.policy.order
    if order is Order.SUBMISSION:
        return lambda job: 0.0
    by_points = order is Order.PRIORITY
    own = points_of(snapshot, now) if by_points else _by_length(snapshot, now.timestamp())
    first = passed_over(snapshot, now) if snapshot.policy.gives_turns else frozenset()
    return (lambda job: math.inf if job.id in first else own(job)) if first else own


def passed_over(snapshot: Snapshot, now: datetime) -> frozenset[int]:
    """Who goes before all others of its band, having waited for too long: of each user of a project
    the one that came first, and nobody while one runs that came before it and waited as long."""
    since = now - timedelta(seconds=LONG_WAIT_S)
    long = [job for job in snapshot.pending if job.submitted_at < since and _waits_long(job, now)]
    if not long:
        return frozenset()
    first: dict[tuple[object, ...], Pending] = {}
    for job in sorted(long, key=lambda job: (job.submitted_at, job.id)):
        first.setdefault((job.partition, job.band, *job.association), job)
    partitions = {node.id: node.partition for node in snapshot.nodes}
    for run in snapshot.running:
        who = partitions.get(run.node_ids[0]), run.band, run.project_id, run.user_id
        # One that came later has passed it, and not had the turn.
        if is_long(run.waited_s) and who in first and _came_before(run, first[who]):
            del first[who]
    return frozenset(job.id for job in first.values())


def _came_before(run: Running, job: Pending) -> bool:
    return run.submitted_at is None or (run.submitted_at, run.id) < (job.submitted_at, job.id)


def is_long(waited_s: float) -> bool:
    """Whether nobody should have to wait for longer, in any order but that of submission."""
    return waited_s > LONG_WAIT_S


def _waits_long(job: Pending, now: datetime) -> bool:
    """And nothing but its turn keeps it back."""
    free = not job.held and job.dependency in (DependencyState.NONE, DependencyState.MET)
    begun = job.begin_at is None or job.begin_at <= now
    return free and begun and is_long(waited_s(job, now.timestamp()))


def _by_length(snapshot: Snapshot, now: float) -> Score:
    order = snapshot.policy.order
    if order is Order.SHORTEST:
        return lambda job: -expected_s(job)
    if order is Order.LEAST_SERVICE:
        return lambda job: -service(job)
    if order is Order.RESPONSE_RATIO:
        return lambda job: ratio(job, now)
    shares = fair_shares(snapshot)
    last = min(shares.values(), default=1.0)
    return lambda job: ratio(job, now) * shares.get(job.association, last)


def expected_s(job: Pending) -> float:
    """How long it is expected to run, for the orders that go by that."""
    if job.typical_s is not None:
        return job.typical_s
    return job.walltime_s if job.expected_s is None else job.expected_s


def service(job: Pending) -> float:
    """GPUs x expected seconds; a job without a GPU counts like one with one."""
    return expected_s(job) * max(1, job.resources.gpus)


def ratio(job: Pending, now: float) -> float:
    """The response ratio."""
    return response_ratio(waited_s(job, now), expected_s(job))


def points_of(snapshot: Snapshot, now: datetime) -> Score:
    """How many points a job has by `priority.py`."""
    shares = fair_shares(snapshot)
    sizes = Sizes(snapshot.nodes)
    own, usual, moment = dict(snapshot.weights), snapshot.policy.weights, now.timestamp()
    return lambda job: points(
        own.get(job.partition, usual),
        waited_s(job, moment),
        shares.get(job.association, 0.0),
        sizes.asked(job.partition, job.resources),
        sizes.of(job.partition),
        job.nice,
    )


class Sizes:
    """What requests and partitions come to in GPUs. Equal requests are counted once."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes: dict[str, list[Node]] = defaultdict(list)
        for node in nodes:
            self._nodes[node.partition].append(node)
        self._asked: dict[tuple[str, Resources], float] = {}
        self._of: dict[str, int] = {}

    def of(self, partition: str) -> int:
        """All GPUs of its nodes."""
        if partition not in self._of:
            self._of[partition] = sum(len(node.gpus) for node in self._nodes.get(partition, ()))
        return self._of[partition]

    def asked(self, partition: str, asked: Resources) -> float:
        """The fewest that a request comes to there."""
        if not asked.exclusive and not asked.shards:
            return asked.gpus
        if (partition, asked) not in self._asked:
            self._asked[partition, asked] = least(self._nodes.get(partition, ()), asked)
        return self._asked[partition, asked]


def waited_s(job: Pending, now: float) -> float:
    """The waiting that counts."""
    since = job.eligible_at or job.submitted_at
    return job.waited_before_s + max(0.0, now - since.timestamp())


def fair_shares(snapshot: Snapshot) -> dict[Association, float]:
    """The factor of each association; who is in no project of the tree has none."""
    found = standings(snapshot.projects, snapshot.members, dict(snapshot.usage))
    return {association: standing.factor for association, standing in found.items()}
