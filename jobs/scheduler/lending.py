"""Which jobs run on borrowed GPUs. It is computed each time: no job keeps it for life."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.bands import Band
from jobs.scheduler.limits import Holding
from jobs.scheduler.quota import parts


def borrowed(running: Iterable[Holding], over: float) -> tuple[Holding, ...]:
    """The jobs that put a project `over` its guarantee, the first to be taken back first.

    `running` are the jobs of the project and of all below it; `over` is
    `Counters.over_guarantee`. Lowest band first, then the youngest: who came when there was
    room stays. A job of which only a part is beyond the guarantee counts, since it cannot give
    back that part alone.
    """
    found = []
    missing = parts(over)
    for holding in sorted(running, key=_last_in):
        if missing <= 0:
            break
        if holding.demand.gpus and holding.demand.band is not Band.BEST_EFFORT:
            found.append(holding)
            missing -= parts(holding.demand.gpus)
    return tuple(found)


def _last_in(holding: Holding) -> tuple[int, float, int]:
    asked = holding.demand
    return asked.band.rank, -holding.started_at.timestamp(), -asked.job_id
