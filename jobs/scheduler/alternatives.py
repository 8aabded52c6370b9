"""What a job's owner could change, one thing at a time, in steps from the least change on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.scheduler.fit import usable_models
from jobs.scheduler.snapshot import DependencyState, Pending, Snapshot
from jobs.scheduler.waits import Others
from jobs.scheduler.words import count, jobs_named, memory, span
from jobs.spec import Resources

LEAST_S = 600
"""Nobody is advised to ask for less time."""
LENGTHS = 24
"""Into how many steps a time limit is divided; below `SHORT_S` they are of ten minutes."""
SHORT_S = 7200
AMOUNTS = 8
"""The same for numbers of things and for memory."""


@dataclass(frozen=True)
class Alternative:
    """In words that go before "it would start now", and the request with the change."""

    words: str
    job: Pending


Steps = Sequence[Alternative]
"""Of one thing; each is a larger change than the one before it."""


def alternatives(
    job: Pending, snapshot: Snapshot, now: datetime,
    partitions: Iterable[str] = (), bands: Iterable[Band] = (),
) -> Iterator[Steps]:  # fmt: skip
    """The smallest sacrifices first. `partitions` and lower `bands`: others that it may go to; room
    that others make for it is not there."""
    own = _own(job, snapshot, now)
    if own is not None:
        yield [own]
        return
    if job.array_limit is not None:
        words = f"outside its array's limit of {count(job.array_limit, 'task')} at once"
        yield [Alternative(words, replace(job, array_limit=None))]
    shorter = _shorter(job)
    half = [step for step in shorter if 2 * step.job.walltime_s >= job.walltime_s]
    yield half
    for words, asked in _looser(job, snapshot):
        yield [Alternative(words, replace(job, resources=asked))]
    yield _fewer_cpus(job)
    yield _less_memory(job)
    for name in partitions:
        yield [Alternative(f"in partition {name}", replace(job, partition=name, claimed_at=None))]
    for band in bands:
        words = f"in band {band}, where others may take its place,"
        yield [Alternative(words, replace(job, band=band, claimed_at=None))]
    if job.deadline_at is not None:
        yield [Alternative("without its deadline", replace(job, deadline_at=None))]
    yield shorter[len(half) :]
    yield _smaller(job)


def _own(job: Pending, snapshot: Snapshot, now: datetime) -> Alternative | None:
    """Without what its owner makes it wait for: until that is gone nothing else helps."""
    if job.held:
        admins = job.hold_reason is Reason.HELD_ADMIN
        words = "once an administrator releases it," if admins else "released,"
        return Alternative(words, replace(job, held=False))
    if job.dependency in (DependencyState.WAITING, DependencyState.NEVER):
        names = Others(snapshot).awaited(job)
        what = jobs_named(names) if names else "other jobs"
        return Alternative(f"without waiting for {what}", _no_longer_after(job))
    if job.begin_at is not None and job.begin_at.timestamp() > now.timestamp():
        return Alternative("without its begin time", replace(job, begin_at=None))
    return None


def _no_longer_after(job: Pending) -> Pending:
    """Of those that it waits for in vain; for the others it goes on waiting."""
    left = DependencyState.WAITING if job.waits_besides else DependencyState.NONE
    return replace(job, dependency=left, waits_for=job.waits_besides, waits_besides=())


def _shorter(job: Pending) -> Steps:
    lengths = [job.walltime_s * part // LENGTHS for part in range(1, LENGTHS)]
    lengths += range(LEAST_S, SHORT_S, 600)
    if job.spread_s is not None:
        # Nine in ten of its like end by then.
        lengths.append(int(job.spread_s[1]))
    return [
        Alternative(
            f"with a time limit of {span(length)} in place of {span(job.walltime_s)}",
            _ending_by(job, length),
        )
        for length in sorted(set(map(_rounded, lengths)), reverse=True)
        if LEAST_S <= length < job.walltime_s
    ]


def _rounded(length: int) -> int:
    """As people type it: whole hours, below two hours whole ten minutes."""
    unit = 3600 if length >= SHORT_S else 600
    return max(unit, length // unit * unit)


def _ending_by(job: Pending, length: int) -> Pending:
    """What is likely of it, no longer than that."""
    shorter = replace(job, walltime_s=length)
    if job.expected_s is not None:
        shorter = replace(shorter, expected_s=min(job.expected_s, length))
    if job.typical_s is not None:
        shorter = replace(shorter, typical_s=min(job.typical_s, length))
    if job.spread_s is not None:
        low, high = job.spread_s
        shorter = replace(shorter, spread_s=(min(low, length), min(high, length)))
    return shorter


def _looser(job: Pending, snapshot: Snapshot) -> Iterator[tuple[str, Resources]]:
    asked = job.resources
    if asked.not_nodes:
        yield "without nodes left out", replace(asked, not_nodes=())
    if asked.max_switches is not None and asked.nodes > 1:
        yield "without a limit on switches", replace(asked, max_switches=None)
    if asked.exclusive:
        yield "without asking for whole nodes", replace(asked, exclusive=False)
    if asked.only_nodes:
        yield "on any node in place of those named", replace(asked, only_nodes=())
    if asked.gpu_model is not None and (asked.gpus_per_node or asked.shards):
        others = replace(asked, gpu_model=None)
        nodes = [node for node in snapshot.nodes if node.partition == job.partition]
        if any(usable_models(node, others) - usable_models(node, asked) for node in nodes):
            yield f"on any GPU in place of {asked.gpu_model}", others
    if asked.features:
        yield f"without {' and '.join(asked.features)}", replace(asked, features=())


def _fewer_cpus(job: Pending) -> Steps:
    asked = job.resources
    each = " for each task" if asked.tasks_per_node > 1 else ""
    return [
        Alternative(
            f"with {count(cpus, 'CPU')}{each} in place of {asked.cpus_per_task:,}",
            replace(job, resources=replace(asked, cpus_per_task=cpus)),
        )
        for cpus in _less(asked.cpus_per_task)
    ]


def _less_memory(job: Pending) -> Steps:
    asked, unit = job.resources, 1024
    return [
        Alternative(
            f"with {memory(gib * unit)} of memory in place of {memory(asked.memory_mib or 0)}",
            replace(job, resources=replace(asked, memory_mib=gib * unit)),
        )
        for gib in _less((asked.memory_mib or 0) // unit)
    ]


def _smaller(job: Pending) -> Steps:
    """On fewer nodes; with less of the one node."""
    asked = job.resources
    if asked.nodes > 1:
        return [
            Alternative(
                f"on {count(nodes, 'node')} in place of {asked.nodes:,}",
                replace(job, resources=replace(asked, nodes=nodes)),
            )
            for nodes in _less(asked.nodes)
        ]
    if asked.shards:
        return [
            Alternative(
                f"with {count(shards, 'part')} of a GPU in place of {asked.shards:,}",
                replace(job, resources=replace(asked, shards=shards)),
            )
            for shards in _less(asked.shards)
        ]
    return [
        Alternative(
            f"with {count(gpus, 'GPU')} in place of {asked.gpus_per_node:,}",
            replace(job, resources=replace(asked, gpus_per_node=gpus)),
        )
        for gpus in _less(asked.gpus_per_node)
    ]


def _less(number: int) -> list[int]:
    """Smaller ones, down to the smallest step, the largest first; none below 1."""
    steps = min(number, AMOUNTS)
    return [number * part // steps for part in range(steps - 1, 0, -1)] if steps else []
