"""Jobs that hold something, with what their allocations came to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS

from jobs.events import Cause
from jobs.lifecycle import State
from jobs.outcome import RunEnd
from portal.models import Allocation, Job, PreparedFor, User
from portal.queries.sendings import DELAYED

Phase = Allocation.Phase
READ = ("id", "state", "held", "cancelled_by_id", "cancelled_at", "started_at")
"""Of a job, in the order of its columns."""
NAMES = ("username", "first_name", "last_name")
"""Of who cancelled it."""


class Part(NamedTuple):
    """What counts of an allocation, by the names of its columns."""

    pk: int
    attempt_id: int
    attempt__job_id: int
    attempt__started_at: datetime
    attempt__preempted_by: str
    node__name: str
    phase: str
    tries: int
    started_at: datetime | None
    ended_at: datetime | None
    cause: str
    exit_code: int | None
    signal: int | None
    message: str

    @property
    def open(self) -> bool:
        return self.phase in Allocation.OPEN

    @property
    def counts(self) -> bool:
        """Whether it says anything about the job, and is not only what we stopped or never sent."""
        return self.phase == Phase.ENDED and self.cause != Cause.STOPPED

    @property
    def broken(self) -> bool:
        return self.phase == Phase.VOID or (self.phase == Phase.ENDED and not self.end.well)

    @property
    def late(self) -> bool:
        return self.message.startswith(DELAYED)

    @property
    def end(self) -> RunEnd:
        return RunEnd(
            node=self.node__name,
            ended_at=self.ended_at.timestamp() if self.ended_at else 0.0,
            cause=Cause(self.cause),
            exit_code=self.exit_code,
            signal=self.signal,
            message=self.message,
        )


@dataclass(frozen=True)
class Case:
    """A locked job and the parts, by rank, of its attempt that has not ended."""

    job: Job
    parts: list[Part]

    @property
    def attempt_id(self) -> int:
        return self.parts[0].attempt_id

    @property
    def over(self) -> bool:
        return not any(part.open for part in self.parts)

    @property
    def broken(self) -> bool:
        return any(part.broken for part in self.parts)

    @property
    def unsent(self) -> bool:
        """Nothing of it ever went to a node, and nothing will."""
        return all(part.phase == Phase.VOID and not part.tries for part in self.parts)

    @property
    def why_unstarted(self) -> str:
        """What failed, before what came too late, before what was only stopped for it."""
        told = [part for part in self.parts if part.message]
        first = min(told, key=lambda part: (part.phase != Phase.VOID, part.late), default=None)
        return first.message if first else "it could not be started"

    @property
    def delayed(self) -> bool:
        """Its launch came too late, and no node has failed it."""
        return self.why_unstarted.startswith(DELAYED)

    @property
    def makes_room(self) -> bool:
        """It was told to stop for the sake of another job."""
        return bool(self.parts[0].attempt__preempted_by)

    @property
    def has_begun(self) -> bool:
        """Every part of it runs or has ended well, and its job does not say so yet."""
        return self.job.state == State.CONFIGURING and all(
            part.phase in (Phase.RUNNING, Phase.ENDED) for part in self.parts
        )

    @property
    def never_ran(self) -> bool:
        # What has once run as a whole never runs again, whoever stopped it.
        return self.job.started_at is None and not any(part.counts for part in self.parts)

    @property
    def started_at(self) -> datetime | None:
        return min((part.started_at for part in self.parts if part.started_at), default=None)


_locked = PreparedFor[Any](
    lambda ids: (
        Job.objects.select_for_update(of=("self",))
        .filter(pk__in=ids)
        .order_by("pk")
        .values_list(*READ, *(f"cancelled_by__{name}" for name in NAMES))
    )
)
_parts = PreparedFor(
    lambda ids: (
        Allocation.objects.filter(attempt__job__in=ids, attempt__ended_at=None)
        .order_by("rank")
        .values_list(*Part._fields)
    ),
    Part._make,
)


def lock(job_ids: Iterable[int]) -> list[Job]:
    """These jobs, locked: in one order everywhere, so that no two transactions wait for each
    other."""
    return [_job(*row) for row in _locked.rows(job_ids)]


def _job(*values: Any) -> Job:
    """With nothing read of it but `READ`."""
    of_job, of_user = values[: len(READ)], values[len(READ) :]
    job = Job.from_db(DEFAULT_DB_ALIAS, READ, of_job)
    if job.cancelled_by_id:
        job.cancelled_by = User.from_db(
            DEFAULT_DB_ALIAS, ("id", *NAMES), (job.cancelled_by_id, *of_user)
        )
    return job


def cases_of(jobs: Iterable[Job]) -> list[Case]:
    """Those of these jobs that hold something."""
    active = {job.pk: job for job in jobs if job.active}
    parts: dict[int, list[Part]] = defaultdict(list)
    # Whoever comes late with an earlier attempt must not touch what the present one holds.
    for part in _parts.rows(active):
        parts[part.attempt__job_id].append(part)
    return [Case(active[job_id], found) for job_id, found in parts.items()]
