"""How often jobs save themselves, and how often they should."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Coalesce

from jobs import checkpoints
from jobs.checkpoints import Reliability
from jobs.events import Cause
from portal.models import Allocation, Checkpoint, Job

SEEN_FOR = timedelta(days=365)
"""Older failures say little of the machines of today."""
LOST = (Cause.LOST, Cause.NODE_RESTARTED, Cause.FENCED)


@dataclass(frozen=True)
class Interval:
    """Of one job; all times in seconds."""

    write_s: float
    """The median of those that were measured."""
    measured: int
    seen: Reliability
    mttf_s: float
    """The mean time until one of its nodes fails."""
    young_s: float
    daly_s: float
    actual_s: float | None
    """As it does it now; None where it has saved less than twice."""


def interval(job: Job, now: datetime) -> Interval | None:
    """None where it is not known how long writing takes."""
    rows = Checkpoint.objects.filter(job=job, complete=True).order_by("attempt__number")
    facts = list(rows.values_list("write_s", "modified_at", "attempt__number", "path"))
    took = [row[0] for row in facts if row[0] is not None]
    write_s = checkpoints.usual(took)
    if write_s is None:
        return None
    # Several nodes may tell of the same one; between attempts it did not run.
    last = {row[3]: row[1].timestamp() for row in facts if row[2] == facts[-1][2]}
    seen = reliability(now)
    mttf_s = seen.mttf_s(job.node_count)
    return Interval(
        write_s, len(took), seen, mttf_s, checkpoints.young_s(write_s, mttf_s),
        checkpoints.daly_s(write_s, mttf_s), checkpoints.interval_s(last.values()),
    )  # fmt: skip


def intervals(nodes: Mapping[int, int], now: datetime) -> dict[int, int]:
    """By job, the seconds from one checkpoint to the next by which it loses least; without those of
    which it is not known how long writing takes. `nodes`: how many each has."""
    measured = _write_times(nodes)
    if not measured:
        return {}
    seen = reliability(now)
    return {
        pk: max(1, round(checkpoints.daly_s(write_s, seen.mttf_s(nodes[pk]))))
        for pk, write_s in measured.items()
    }


def _write_times(job_ids: Iterable[int]) -> dict[int, float]:
    took: dict[int, list[float]] = defaultdict(list)
    rows = Checkpoint.objects.filter(job__in=list(job_ids), complete=True, write_s__isnull=False)
    for job_id, write_s in rows.values_list("job", "write_s"):
        took[job_id].append(write_s or 0.0)
    return {job_id: checkpoints.usual(times) or 0.0 for job_id, times in took.items()}


def reliability(now: datetime) -> Reliability:
    """Of this lab's nodes in the last year, as of the last full hour."""
    return _as_of(now.replace(minute=0, second=0, microsecond=0))


@lru_cache(maxsize=1)
def _as_of(hour: datetime) -> Reliability:
    # A node that fails under three jobs at once counts three times, as its days under them do.
    ran = Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=hour - SEEN_FOR), started_at__lt=hour,
        node__simulated=False,
    )  # fmt: skip
    found = ran.aggregate(
        time=Sum(Coalesce("ended_at", hour) - F("started_at")),
        failures=Count("pk", filter=Q(cause__in=LOST)),
    )
    days = (found["time"] or timedelta()) / timedelta(days=1)
    return Reliability(found["failures"], max(0.0, days))


def forget() -> None:
    """For tests: each has a database of its own."""
    _as_of.cache_clear()
