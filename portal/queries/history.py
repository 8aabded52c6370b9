"""How long jobs ran, as each process of the portal remembers it, to foretell how long others will.

What ended is read once and kept; a process that starts reads the last of it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import datetime
from typing import Any

from django.db.models import Max

from jobs.lifecycle import State
from jobs.scheduler.predict import History, Prediction, Work
from portal.models import Attempt, Checkpoint, Event

READ_AT_FIRST = 20_000
"""Attempts, the last to have ended; fewer than `jobs.scheduler.predict` remembers."""
TELLING = (State.COMPLETED, State.FAILED, State.CANCELLED, State.TIMEOUT, State.OUT_OF_MEMORY)
"""Ends that tell how long a job holds its GPUs. Of a lost node or a preemption nothing follows."""
ENDED = Attempt.objects.filter(outcome__in=TELLING, ended_at__isnull=False)
OVERLAP = 1000
"""Events looked at again: of transactions that are under way at the same time, the later one may
have taken the lower number."""
COLUMNS = (
    "pk", "started_at", "ended_at", "job_id", "number", "job__owner__username",
    "job__project__name", "job__name", "job__node_count", "job__gpus_per_node",
)  # fmt: skip


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
        for pk, began, at, _, _, owner, project, name, nodes, gpus in rows:
            if pk not in known:
                run_s = max(1.0, (at - began).total_seconds()) + before.get(pk, 0.0)
                self.history.observe(Work(owner, project, name, nodes * gpus), run_s, at)

    def _since(self) -> list[Any]:
        """Attempts of the jobs of whose end nothing had been seen."""
        again = self._event - OVERLAP
        ends = Event.objects.filter(pk__gt=again, kind="state", new__in=TELLING)
        found = dict(ends.values_list("pk", "job_id"))
        jobs = {job_id for pk, job_id in found.items() if pk not in self._seen}
        self._seen, self._event = set(found), max((self._event, *found))
        if not jobs:
            return []
        return list(ENDED.filter(job__in=jobs).order_by("ended_at", "pk").values_list(*COLUMNS))


def _served_before(resumed: dict[int, int]) -> dict[int, float]:
    """By attempt, for how long its job had run in earlier ones, since it last began at the
    beginning: whoever went on from a checkpoint runs in several legs."""
    found: dict[int, float] = {}
    ids = sorted(set(resumed.values()))
    for start in range(0, len(ids), 500):
        found |= _legs(ids[start : start + 500])
    return {pk: found.get(pk, 0.0) for pk in resumed}


def _legs(job_ids: list[int]) -> dict[int, float]:
    saved: dict[int, list[datetime]] = defaultdict(list)
    complete = Checkpoint.objects.filter(job__in=job_ids, complete=True)
    for job_id, at in complete.values_list("job_id", "modified_at"):
        saved[job_id].append(at)
    attempts = Attempt.objects.filter(job__in=job_ids).order_by("job_id", "number")
    found: dict[int, float] = {}
    served, of = 0.0, 0
    for pk, job_id, began, ended in attempts.values_list("pk", "job_id", "started_at", "ended_at"):
        resumes = job_id == of and any(at <= began for at in saved[job_id])
        found[pk] = served = served if resumes else 0.0
        if ended is not None:
            served += max(0.0, (ended - began).total_seconds())
        of = job_id
    return found


_memory = _Memory()


def forget() -> None:
    """For tests: each has a database of its own."""
    with _memory.lock:
        _memory.__init__()  # type: ignore[misc]


def predictions(works: dict[int, Work]) -> dict[int, Prediction]:
    """By the same numbers; those of whom nothing is known are left out."""
    with _memory.lock:
        _memory.catch_up()
        # The tasks of an array are all alike.
        of = {work: _memory.history.predict(work) for work in set(works.values())}
    return {pk: of[work] for pk, work in works.items() if of[work].from_n}
