"""How long a simulation's scheduler takes jobs to run: what it may know of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jobs.scheduler.simulate.workload import Trial
from jobs.scheduler.snapshot import Pending


class Lengths(Protocol):
    """In seconds, each no less than one."""

    def limit(self, trial: Trial, now: float) -> float:
        """What the job is taken to need at most when it is submitted."""

    def expected(self, trial: Trial, now: float) -> float:
        """What it is expected to need, by all that is known then."""

    def refreshed(self, waiting: Mapping[int, Pending], now: float) -> dict[int, Pending]:
        """Those of whom something else is expected by now."""

    def ended(self, trial: Trial, now: float) -> None:
        """It has ended: that is history from now on."""


class TrueLengths:
    """Everything is known in advance: no scheduler can be told so much."""

    def limit(self, trial: Trial, now: float) -> float:
        return max(1, trial.run_s)

    def expected(self, trial: Trial, now: float) -> float:
        return max(1, trial.run_s)

    def refreshed(self, waiting: Mapping[int, Pending], now: float) -> dict[int, Pending]:
        return {}

    def ended(self, trial: Trial, now: float) -> None:
        """Nothing is learnt."""


class Requested(TrueLengths):
    """What users asked for, and no more than that."""

    def limit(self, trial: Trial, now: float) -> float:
        return max(1, trial.request_s or 0)

    def expected(self, trial: Trial, now: float) -> float:
        return self.limit(trial, now)
