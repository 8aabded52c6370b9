"""How long a simulation's scheduler takes jobs to run: what it may know of each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from jobs.scheduler.predict import History, Prediction
from jobs.scheduler.simulate.workload import Trial
from jobs.scheduler.work import Work

SURPRISE_S = 60.0
"""Who outlives what was foretold is taken to need as long again, and no less than this."""

Kin = int | str
"""Jobs of which something else is expected when one of them has ended."""


class Lengths(Protocol):
    """In seconds, each no less than one; of who goes on after `done_s` of its work, of the rest."""

    def limit(self, trial: Trial, done_s: float = 0.0) -> float:
        """What the job is taken to need at most, by all that is known now."""

    def expected(self, trial: Trial, done_s: float = 0.0) -> float:
        """What it is expected to need: the mean."""

    def typical(self, trial: Trial, done_s: float = 0.0) -> float:
        """The same for the order."""

    def alike(self, trial: Trial) -> Hashable:
        """Of jobs of which this is equal the same is known, now and later."""

    def kin(self, trial: Trial) -> Kin | None:
        """None: nothing is learnt from others."""

    def ended(self, trial: Trial, now: float) -> None:
        """It has ended: that is history from now on."""

    def more(self, ran_s: float) -> float:
        """What a job is taken to need still that has outlived its limit, by how long it has run.
        0: it may end at any moment."""


class TrueLengths:
    """Everything is known in advance: no scheduler can be told so much."""

    def limit(self, trial: Trial, done_s: float = 0.0) -> float:
        return max(1, trial.run_s - done_s)

    def expected(self, trial: Trial, done_s: float = 0.0) -> float:
        return self.limit(trial, done_s)

    def typical(self, trial: Trial, done_s: float = 0.0) -> float:
        return self.expected(trial, done_s)

    def alike(self, trial: Trial) -> Hashable:
        return self.limit(trial)

    def kin(self, trial: Trial) -> Kin | None:
        return None

    def ended(self, trial: Trial, now: float) -> None:
        """Nothing is learnt."""

    def more(self, ran_s: float) -> float:
        return 0.0  # As in the lab: nobody is allowed to run on.


class Requested(TrueLengths):
    """What users asked for, and no more than that, for each run anew. Needs `Trial.request_s` of
    every job."""

    def limit(self, trial: Trial, done_s: float = 0.0) -> float:
        return max(1, trial.request_s or 0)


class Predicted:
    """What the jobs that have ended by then tell, and nothing before the first has."""

    def __init__(self) -> None:
        self._history = History()

    def limit(self, trial: Trial, done_s: float = 0.0) -> float:
        return self.expected(trial, done_s)

    def expected(self, trial: Trial, done_s: float = 0.0) -> float:
        return max(1.0, self._prediction(trial, done_s).expected_s)

    def typical(self, trial: Trial, done_s: float = 0.0) -> float:
        return max(1.0, self._prediction(trial, done_s).typical_s)

    def alike(self, trial: Trial) -> Hashable:
        return _work(trial)

    def kin(self, trial: Trial) -> Kin | None:
        # The history of its user, and where there are no users that of its project, says most.
        return trial.user_id or f"project {trial.project_id}"

    def ended(self, trial: Trial, now: float) -> None:
        self._history.observe(_work(trial), max(1, trial.run_s), datetime.fromtimestamp(now, UTC))

    def more(self, ran_s: float) -> float:
        return max(SURPRISE_S, ran_s)

    def _prediction(self, trial: Trial, done_s: float) -> Prediction:
        work = _work(trial)
        if not done_s:
            return self._history.predict(work)
        # Its time limit is that of each run anew.
        whole = self._history.predict(replace(work, walltime_s=None))
        return whole.remaining(done_s, work.walltime_s)


class Within(Predicted):
    """What is expected is predicted; what a job may need at most is what its user asked for."""

    def limit(self, trial: Trial, done_s: float = 0.0) -> float:
        return max(1, trial.request_s or 0)

    def more(self, ran_s: float) -> float:
        return 0.0


def _work(trial: Trial) -> Work:
    user, project = str(trial.user_id or ""), str(trial.project_id or "")
    asked = trial.resources
    if asked is not None:
        return Work.of(user, project, trial.name, asked, trial.request_s)
    return Work(user, project, trial.name, round(trial.gpus), walltime_s=trial.request_s)


class Times(NamedTuple):
    """What the scheduler is told of a job, by the fields of `Pending`; limits are whole seconds."""

    walltime_s: int
    expected_s: float
    typical_s: float


def times(trial: Trial, lengths: Lengths, done_s: float = 0.0) -> Times:
    """As of now."""
    return Times(
        max(1, round(lengths.limit(trial, done_s))),
        lengths.expected(trial, done_s),
        lengths.typical(trial, done_s),
    )
