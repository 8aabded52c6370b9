"""The one thing a job's owner could change for it to start sooner: tried, not guessed.

Each change is put into the queue in place of the request, and the real plan is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from jobs.scheduler.fit import usable_models
from jobs.scheduler.plan import expect, plan
from jobs.scheduler.snapshot import Pending, Snapshot
from jobs.scheduler.words import count, latest, span
from jobs.spec import Resources

SOONER = timedelta(minutes=5)
"""Less is not worth a change."""
SHORTER = (1 / 2, 1 / 4, 1 / 8, 1 / 24)
LEAST_S = 600
"""Nobody is advised to ask for less."""
FORECASTS = 4
"""Changes of which none starts the job at once are forecast, the least first; no more than this."""


@dataclass(frozen=True)
class Advice:
    """A change, in words that follow "with" or "on", and when the job would start then."""

    change: str
    job: Pending
    at: datetime
    sentence: str


def advise(snapshot: Snapshot, job_id: int, now: datetime) -> Advice | None:
    """The change that starts this waiting job first; None if none does so noticeably sooner."""
    job = next(waits for waits in snapshot.pending if waits.id == job_id)
    changes = list(_changes(job, snapshot))
    for words, other in changes:
        decided = plan(_with(snapshot, other), now, explained=False)
        if any(start.job_id == job_id for start in decided.starts):
            return Advice(words, other, now, f"{_begin(words)} it would start now.")
    usual = expect(snapshot, now).get(job_id)
    best: Advice | None = None
    for words, other in changes[:FORECASTS]:
        at = expect(_with(snapshot, other), now).get(job_id)
        if at is not None and (best is None or at < best.at):
            best = Advice(words, other, at, _sentence(words, at, now))
    if best is None or (usual is not None and usual - best.at < SOONER):
        return None
    return best


def _with(snapshot: Snapshot, job: Pending) -> Snapshot:
    others = tuple(waits for waits in snapshot.pending if waits.id != job.id)
    return replace(snapshot, pending=(*others, job))


def _sentence(words: str, at: datetime, now: datetime) -> str:
    lasts = (at - now).total_seconds()
    when = f"in {span(lasts)}" if lasts < 3 * 3600 else f"at {latest(at, now)}"
    return f"{_begin(words)} it is expected to start {when}."


def _begin(words: str) -> str:
    return words[0].upper() + words[1:]


def _changes(job: Pending, snapshot: Snapshot) -> Iterator[tuple[str, Pending]]:
    """What may be changed, the least first."""
    yield from _shorter(job)
    asked = job.resources
    for words, other in _looser(asked, snapshot, job.partition):
        yield words, replace(job, resources=other)
    yield from _smaller(job)


def _shorter(job: Pending) -> Iterator[tuple[str, Pending]]:
    lengths = [int(job.walltime_s * part) for part in SHORTER]
    if job.spread_s is not None:
        # Nine in ten of its like end by then.
        lengths.append(int(job.spread_s[1]))
    for length in sorted({_rounded(length) for length in lengths}, reverse=True):
        if LEAST_S <= length < job.walltime_s:
            words = f"with a time limit of {span(length)} in place of {span(job.walltime_s)}"
            yield words, replace(job, walltime_s=length, spread_s=None, expected_s=None)


def _rounded(length: int) -> int:
    """As people type it: whole hours, below two hours whole ten minutes."""
    unit = 3600 if length >= 7200 else 600
    return max(unit, length // unit * unit)


def _looser(
    asked: Resources, snapshot: Snapshot, partition: str
) -> Iterator[tuple[str, Resources]]:
    if asked.exclusive:
        yield "without asking for whole nodes", replace(asked, exclusive=False)
    if asked.max_switches is not None and asked.nodes > 1:
        yield "without a limit on switches", replace(asked, max_switches=None)
    if asked.only_nodes:
        yield "on any node in place of those named", replace(asked, only_nodes=())
    if asked.not_nodes:
        yield "without nodes left out", replace(asked, not_nodes=())
    if asked.gpu_model is not None and (asked.gpus_per_node or asked.shards):
        others = replace(asked, gpu_model=None)
        models = {
            model
            for node in snapshot.nodes
            if node.partition == partition
            for model in usable_models(node, others)
        }
        if len(models) > 1:
            yield f"on any GPU in place of {asked.gpu_model}", others
    if asked.features:
        yield f"without {' and '.join(asked.features)}", replace(asked, features=())


def _smaller(job: Pending) -> Iterator[tuple[str, Pending]]:
    asked = job.resources
    if asked.nodes > 1 and not asked.only_nodes:
        fewer = replace(asked, nodes=asked.nodes // 2)
        words = f"on {count(fewer.nodes, 'node')} in place of {asked.nodes}"
        yield words, replace(job, resources=fewer)
    elif asked.gpus_per_node > 1:
        fewer = replace(asked, gpus_per_node=asked.gpus_per_node // 2)
        words = f"with {count(fewer.gpus_per_node, 'GPU')} in place of {asked.gpus_per_node}"
        yield words, replace(job, resources=fewer)
