"""Which jobs run on borrowed GPUs. It is computed each time: no job keeps it for life."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from jobs.bands import Band
from jobs.scheduler.quota import parts


class Runs(Protocol):
    """A running job, as far as lending goes."""

    @property
    def job_id(self) -> int: ...
    @property
    def band(self) -> Band: ...
    @property
    def gpus(self) -> float: ...
    @property
    def started_at(self) -> float: ...


Job = TypeVar("Job", bound=Runs)


def borrowed(running: Iterable[Job], over: float) -> tuple[Job, ...]:
    """The jobs that put a project `over` its guarantee, the first to be taken back first.

    `running` are the jobs of the project and of all below it; `over` is
    `Counters.over_guarantee`. Lowest band first, then the youngest: who came when there was
    room stays. A job of which only a part is beyond the guarantee counts, since it cannot give
    back that part alone.
    """
    found = []
    missing = parts(over)
    for job in sorted(running, key=_last_in):
        if missing <= 0:
            break
        if job.gpus and job.band is not Band.BEST_EFFORT:
            found.append(job)
            missing -= parts(job.gpus)
    return tuple(found)


def _last_in(job: Runs) -> tuple[int, float, int]:
    return job.band.rank, -job.started_at, -job.job_id
