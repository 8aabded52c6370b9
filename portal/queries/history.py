"""How long jobs ran, as each process of the portal remembers it, to foretell how long others will.

What ended is read once and kept; a process that starts reads the last of it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from django.db.models import Max

from jobs.lifecycle import State
from jobs.scheduler.predict import History, Prediction
from jobs.scheduler.work import Work
from portal.models import Attempt, Checkpoint, Event, PreparedFor

READ_AT_FIRST = 20_000
"""Attempts, the last to have ended; fewer than `jobs.scheduler.predict` remembers."""
TELLING = (State.COMPLETED, State.FAILED, State.CANCELLED, State.TIMEOUT, State.OUT_OF_MEMORY)
"""Ends that tell how long a job holds its GPUs. Of a lost node or a preemption nothing follows."""
ENDED = Attempt.objects.filter(outcome__in=TELLING, ended_at__isnull=False)
OVERLAP = 1000
"""Events looked at again: of transactions that are under way at the same time, the later one may
have taken the lower number."""
AT_ONCE = 500
"""Jobs asked for in one query."""
COLUMNS = (
    "pk", "started_at", "ended_at", "job_id", "number", "job__owner_id",
    "job__project_id", "job__name", "job__node_count", "job__gpus_per_node",
    "job__spec__resources__shards", "job__spec__resources__exclusive",
)  # fmt: skip
_ends_after = PreparedFor[Any](
    lambda ids: Event.objects.filter(pk__gt=ids[0], kind="state", new__in=TELLING).values_list(
        "pk", "job_id"
    )
)
_ended = PreparedFor[Any](
    lambda ids: ENDED.filter(job__in=ids).order_by("ended_at", "pk").values_list(*COLUMNS)
)


class _Memory:
    """One for each process."""

    def __init__(self) -> None:
        self.history = History()
        self.lock = threading.Lock()
        self._at_first: frozenset[int] | None = None
        """The attempts that were read when nothing was known."""
        self._event = 0
        """The last one looked at: what is told late has an event of its own all the same."""
        self._seen: set[int] = set()
        """Those looked at again."""

    def catch_up(self) -> None:
        if self._at_first is None:
            self._event = Event.objects.aggregate(last=Max("pk"))["last"] or 0
            latest = ENDED.order_by("-ended_at", "-pk").values_list(*COLUMNS)[:READ_AT_FIRST]
            rows, known = list(reversed(latest)), frozenset[int]()
            self._at_first = frozenset(row[0] for row in rows)
        else:
            rows, known = self._since(), self._at_first
        before = _served_before({pk: job_id for pk, _, _, job_id, number, *_ in rows if number > 1})
        for pk, began, at, _, _, *about in rows:
            if pk not in known:
                run_s = max(1.0, (at - began).total_seconds()) + before.get(pk, 0.0)
                self.history.observe(_work(*about), run_s, at)

    def _since(self) -> list[Any]:
        """Attempts of the jobs of whose end nothing had been seen."""
        found = dict(_ends_after.rows([self._event - OVERLAP]))
        jobs = {job_id for pk, job_id in found.items() if pk not in self._seen}
        self._seen, self._event = set(found), max((self._event, *found))
        return _ended.rows(jobs)


def _work(
    owner: int, project: int, name: str, nodes: int, gpus: int,
    shards: int | None, exclusive: bool | None,
) -> Work:  # fmt: skip
    """Specifications of before there were shards name none."""
    whole_nodes = nodes if exclusive else 0
    return Work(owner, project, name, nodes * gpus, nodes * (shards or 0), whole_nodes)


def _served_before(resumed: dict[int, int]) -> dict[int, float]:
    """By attempt, for how long its job had run in earlier ones, since it last began at the
    beginning: whoever went on from a checkpoint runs in several legs."""
    found = _legs(resumed.values()).attempts
    return {pk: found.get(pk, 0.0) for pk in resumed}


def served(job_ids: Iterable[int]) -> dict[int, float]:
    """By job, for how long it had run before its present run, or, where it waits, its next."""
    return _legs(job_ids).jobs


class _Legs(NamedTuple):
    """How long jobs had run by then, since they last began at the beginning."""

    attempts: dict[int, float]
    jobs: dict[int, float]
    """By the beginning of the attempt that is open, or else of the next."""


def _legs(job_ids: Iterable[int]) -> _Legs:
    ids, found = sorted(set(job_ids)), _Legs({}, {})
    for start in range(0, len(ids), AT_ONCE):
        _read_legs(ids[start : start + AT_ONCE], found)
    return found


def _read_legs(job_ids: list[int], found: _Legs) -> None:
    saved: dict[int, list[datetime]] = defaultdict(list)
    complete = Checkpoint.objects.filter(job__in=job_ids, complete=True)
    for job_id, at in complete.values_list("job_id", "modified_at"):
        saved[job_id].append(at)
    # Of those that were given back nothing has run, however long they waited for their node.
    ran = Attempt.objects.filter(job__in=job_ids).exclude(outcome=State.PENDING)
    attempts = ran.order_by("job_id", "number")
    rows = attempts.values_list("job_id", "pk", "started_at", "ended_at")
    for job_id, of_job in groupby(rows, key=itemgetter(0)):
        run_s = 0.0
        for _, pk, began, ended in of_job:
            before = run_s if any(at <= began for at in saved[job_id]) else 0.0
            found.attempts[pk] = before
            run_s = before + (max(0.0, (ended - began).total_seconds()) if ended else 0.0)
        found.jobs[job_id] = before if ended is None else run_s if saved[job_id] else 0.0


_memory = _Memory()


def forget() -> None:
    """For tests: each has a database of its own."""
    with _memory.lock:
        _memory.__init__()  # type: ignore[misc]


def predictions(
    works: Mapping[int, Work], served: Mapping[int, float] | None = None
) -> dict[int, Prediction]:
    """By the same numbers; those of whom nothing is known are left out.

    Of who has `served`, in seconds: what its present or next run, to which its walltime applies,
    still takes.
    """
    before = {pk: run_s for pk, run_s in (served or {}).items() if run_s > 0}
    # The walltime limits each leg, not all of them together.
    whole = {pk: replace(work, walltime_s=None) for pk, work in works.items() if pk in before}
    asked = {**works, **whole}
    with _memory.lock:
        _memory.catch_up()
        # The tasks of an array are all alike.
        of = {work: _memory.history.predict(work) for work in set(asked.values())}
    found = {pk: of[work] for pk, work in asked.items() if of[work].from_n}
    for pk in before.keys() & found.keys():
        found[pk] = found[pk].remaining(before[pk], works[pk].walltime_s)
    return found
