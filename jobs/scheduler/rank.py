"""The order in which waiting jobs are taken: bands first, within a band as the policy says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from jobs.scheduler.fairshare import Association, standings
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.priority import points
from jobs.scheduler.snapshot import Pending, Snapshot

RESPONSE_S = 60.0
"""Added to waiting and to running, so that jobs of a few seconds do not always go first."""


def ranked(snapshot: Snapshot, now: datetime) -> list[Pending]:
    """All pending jobs, the first to be taken in front. Equal ones go by submission."""
    return in_order(snapshot.pending, snapshot.policy, priorities(snapshot, now), now.timestamp())


def in_order(
    jobs: Iterable[Pending], policy: Policy, priority: dict[int, float], now: float
) -> list[Pending]:
    """The same for some of them; `priority` in points, by job id."""
    return sorted(jobs, key=place(policy, priority, now))


Place = tuple[bool, int, float, float, int]


def place(policy: Policy, priority: dict[int, float], now: float) -> Callable[[Pending], Place]:
    """What sorts the first to be taken in front."""
    own = _keys(policy, priority, now)
    return lambda job: (
        job.claimed_at is None,
        -job.band.rank,
        own(job),
        job.submitted_at.timestamp(),
        job.id,
    )


def _keys(policy: Policy, priority: dict[int, float], now: float) -> Callable[[Pending], float]:
    if policy.order is Order.SHORTEST:
        return _expected
    if policy.order is Order.LEAST_SERVICE:
        return lambda job: _expected(job) * max(1, job.resources.gpus)
    if policy.order is Order.RESPONSE_RATIO:
        # Jensen's highest response ratio next: waiting lifts every job, the short ones sooner.
        return lambda job: (
            -(
                (max(0.0, now - job.submitted_at.timestamp()) + RESPONSE_S)
                / (_expected(job) + RESPONSE_S)
            )
        )
    if policy.order is Order.SUBMISSION:
        return lambda job: 0.0
    return lambda job: -priority[job.id]


def _expected(job: Pending) -> float:
    return job.walltime_s if job.expected_s is None else job.expected_s


def priorities(snapshot: Snapshot, now: datetime) -> dict[int, float]:
    """Points by job id; empty where the order does not ask for them."""
    if snapshot.policy.order is not Order.PRIORITY:
        return {}
    shares = fair_shares(snapshot)
    sizes: dict[str, int] = {}
    for node in snapshot.nodes:
        sizes[node.partition] = sizes.get(node.partition, 0) + len(node.gpus)
    own, usual, moment = dict(snapshot.weights), snapshot.policy.weights, now.timestamp()
    return {
        job.id: points(
            own.get(job.partition, usual),
            _waited_s(job, moment),
            shares.get(job.association, 0.0),
            job.gpus,
            sizes.get(job.partition, 0),
            job.nice,
        )
        for job in snapshot.pending
    }


def _waited_s(job: Pending, now: float) -> float:
    """The waiting that counts."""
    since = job.eligible_at or job.submitted_at
    return job.waited_before_s + max(0.0, now - since.timestamp())


def fair_shares(snapshot: Snapshot) -> dict[Association, float]:
    """The factor of each association; who is in no project of the tree has none, and counts 0."""
    found = standings(snapshot.projects, snapshot.members, dict(snapshot.usage))
    return {association: standing.factor for association, standing in found.items()}
