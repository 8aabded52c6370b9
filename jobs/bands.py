"""The bands of priority: a job of a higher one goes before every job of a lower one."""

from __future__ import annotations

from enum import StrEnum


class Band(StrEnum):
    """What a job's work is to the lab. Taken from Borg's bands (Verma et al., EuroSys 2015)."""

    MONITORING = "monitoring"
    PRODUCTION = "production"
    BATCH = "batch"
    BEST_EFFORT = "best-effort"

    @property
    def rank(self) -> int:
        """3 for monitoring down to 0 for best-effort: the higher goes first."""
        return _RANKS[self]

    @property
    def description(self) -> str:
        """What belongs here, for whoever chooses."""
        return _DESCRIPTIONS[self]


_RANKS = {band: rank for rank, band in enumerate(reversed(Band))}

_DESCRIPTIONS = {
    Band.MONITORING: "Small jobs that watch over the cluster itself. They go before all others.",
    Band.PRODUCTION: "Work that others depend on, or that has a date to meet.",
    Band.BATCH: "Ordinary work: training, evaluation, experiments.",
    Band.BEST_EFFORT: "Work for GPUs that nobody else wants now. It needs no quota, counts against "
    "none, and any job of a higher band may take its place at any time.",
}
