"""How long a job will run, foretold from how long others like it ran.

The expectation is a mixture: the last run times of the narrowest key that has any (the same user,
project, name and size), for what these few cannot say, those of ever wider keys, and for what all
of them leave open the walltime. Of one key, the newest run times weigh most: "using recent data is
more important than mining the history for similar jobs" (Tsafrir, Etsion, Feitelson: Backfilling
using system-generated predictions rather than user runtime estimates, IEEE TPDS 18(6), 2007, whose
predictor is the mean of the user's last two jobs; its corrections of a prediction that proved too
short are `Prediction.longer_than`). The keys are those of Smith, Taylor, Foster (Predicting
application run times using historical information, JSSPP 1998) and of QSSF (Hu et al.:
Characterization and prediction of deep learning workloads in large-scale GPU datacenters, SC'21).
How a job ended does not matter: what counts is for how long it held its GPUs.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import exp, fsum, inf, log, sqrt

from jobs.scheduler.work import KINDS, Key, Work

RUNS_PER_KEY = 20
KEYS = 50_000
REMEMBERED = 8192
"""Predictions kept until a run time that they rest on changes."""
OLDER = 0.8
"""What a run time weighs beside the next newer one of its key."""
WIDER_KEY_WEIGHT = 1.0
"""The wider keys together weigh as much as the newest run time of the narrower one."""
ENOUGH = 0.999
"""Keys wider than those that fill this share of the mixture are left out. Lower values lose the
rare long runs, and with them the mean."""
OPEN = 0.05
"""Of the mixture, if the keys leave so much open, that is filled by the walltime."""
UNKNOWN_S = 3600.0
"""Expected of a job without a walltime when nothing has ended yet."""
LOW, HIGH = 0.1, 0.9
TAIL_LOW, TAIL_HIGH = (1 - LOW) ** -0.5, (1 - HIGH) ** -0.5
ORDER_FLOOR_S = 60.0

Outcome = tuple[float, float]
"""Seconds, and its weight."""
_RestsOn = list[tuple[Key, int]]


@dataclass(frozen=True)
class Prediction:
    """The run time of a job, its whole length, never above its walltime.

    Four of five jobs like it ended between `low_s` and `high_s`.
    """

    expected_s: float
    """The mean: for estimates, and for what fits into a gap."""
    low_s: float
    high_s: float
    typical_s: float
    """The mean of the logarithms: a few long runs among many short ones hardly move it."""
    from_n: int
    """How many run times the narrowest key gave; 0: nothing is known but the walltime."""
    by: str
    """Which key that was, in words: "your last 12 jobs named train-vit on 4 GPUs"."""
    walltime_s: float | None = None
    outcomes: tuple[Outcome, ...] = ()
    """Ascending."""

    def longer_than(self, elapsed_s: float) -> Prediction:
        """The same, now that the job has run for `elapsed_s`.

        The longer a job has run, the longer it is still expected to. Beyond all known run times
        the tail is taken to be Pareto's with exponent 2, so half of the run is still to come.
        """
        left = tuple(outcome for outcome in self.outcomes if outcome[0] > elapsed_s)
        if not left:
            return self._beyond(elapsed_s)
        if len(left) == len(self.outcomes):
            return self
        return _summed(left, self.walltime_s, self.from_n, self.by)

    def remaining(self, served_s: float, walltime_s: float | None) -> Prediction:
        """Of its next run, of `walltime_s` at most, now that `served_s` of its work are done."""
        left = [(seconds - served_s, w) for seconds, w in self.outcomes if seconds > served_s]
        if left:
            return _summed(left, walltime_s, self.from_n, self.by)
        beyond = self._beyond(served_s)
        longest = inf if walltime_s is None else walltime_s
        expected, low, high = (
            min(longest, max(0.0, seconds - served_s))
            for seconds in (beyond.expected_s, beyond.low_s, beyond.high_s)
        )
        return replace(
            beyond,
            expected_s=expected,
            low_s=low,
            high_s=high,
            typical_s=expected,
            walltime_s=walltime_s,
        )

    def _beyond(self, elapsed_s: float) -> Prediction:
        def capped(seconds: float) -> float:
            return seconds if self.walltime_s is None else min(seconds, self.walltime_s)

        expected = capped(max(self.expected_s, 2 * elapsed_s))
        return Prediction(
            expected_s=expected,
            low_s=min(expected, capped(TAIL_LOW * elapsed_s)),
            high_s=max(expected, capped(TAIL_HIGH * elapsed_s)),
            typical_s=expected,
            from_n=self.from_n,
            by=self.by,
            walltime_s=self.walltime_s,
        )


@dataclass
class _Runs:
    """The last run times of one key, oldest first; `stamp` is never the same after a change."""

    stamp: int
    ended: list[tuple[datetime, float]]


class History:
    """The last run times of every key, at most `runs_per_key` of each, of the last `keys` keys.

    The key observed longest ago is forgotten first. Run times of one key are in the order in
    which the jobs ended, whatever the order in which they were observed.
    """

    def __init__(self, runs_per_key: int = RUNS_PER_KEY, keys: int = KEYS) -> None:
        if runs_per_key < 1 or keys < len(KINDS):
            raise ValueError(f"at least 1 run time per key and {len(KINDS)} keys")
        self._runs_per_key = runs_per_key
        self._keys = keys
        self._runs: OrderedDict[Key, _Runs] = OrderedDict()
        self._observed = 0
        self._predicted: dict[Work, tuple[Prediction, _RestsOn]] = {}
        self._weights = [OLDER**age for age in range(runs_per_key)]

    def __len__(self) -> int:
        """How many run times are kept, over all keys."""
        return sum(len(runs.ended) for runs in self._runs.values())

    def observe(self, work: Work, run_s: float, at: datetime) -> None:
        """A job ended at `at`, after `run_s`; only now may this be known."""
        self._observed += 1
        end = (at, max(0.0, float(run_s)))
        for kind in KINDS:
            if (key := kind.of(work)) is None:
                continue
            runs = self._runs.setdefault(key, _Runs(0, []))
            self._runs.move_to_end(key)
            insort(runs.ended, end)
            del runs.ended[: -self._runs_per_key]
            runs.stamp = self._observed
        while len(self._runs) > self._keys:
            self._runs.popitem(last=False)

    def predict(self, work: Work) -> Prediction:
        """What is to be expected of a job that has not run yet."""
        if (known := self._predicted.get(work)) is not None and self._holds(known[1]):
            return known[0]
        if len(self._predicted) >= REMEMBERED:
            self._predicted.clear()
        found = self._predict(work)
        self._predicted[work] = found
        return found[0]

    def _holds(self, rests_on: _RestsOn) -> bool:
        return all(self._stamp(key) == stamp for key, stamp in rests_on)

    def _stamp(self, key: Key) -> int:
        runs = self._runs.get(key)
        return runs.stamp if runs else 0

    def _predict(self, work: Work) -> tuple[Prediction, _RestsOn]:
        outcomes: list[Outcome] = []
        rests_on: _RestsOn = []
        left, from_n, by = 1.0, 0, ""
        for kind in KINDS:
            if (key := kind.of(work)) is None:
                continue
            rests_on.append((key, self._stamp(key)))
            if (runs := self._runs.get(key)) is None:
                continue
            if not from_n:
                from_n = len(runs.ended)
                by = kind.words(work, from_n)
            mixed, share = self._weighted(runs.ended, left)
            outcomes += mixed
            left -= share
            if left < 1 - ENOUGH:
                break
        if not outcomes:
            return _nothing_known(work.walltime_s), rests_on
        if left >= OPEN and work.walltime_s is not None:
            # Of a new lab's first minute-long job nobody shall conclude that all are so short.
            outcomes.append((work.walltime_s, left))
        return _summed(sorted(outcomes), work.walltime_s, from_n, by), rests_on

    def _weighted(
        self, ended: Sequence[tuple[datetime, float]], left: float
    ) -> tuple[list[Outcome], float]:
        """These run times with their share of what the narrower keys left."""
        total = fsum(self._weights[: len(ended)])
        unit = left / (total + WIDER_KEY_WEIGHT)
        weighted = zip(reversed(ended), self._weights, strict=False)
        return [(run_s, unit * weight) for (_, run_s), weight in weighted], unit * total


def response_ratio(waited_s: float, typical_s: float) -> float:
    """Shortest expected first, yet nobody starves; the highest goes first.

    Brinch Hansen's highest response ratio next (1971) with the root of the expected time, as that
    is only expected. A job that has waited w is never passed by one that has waited less than
    (w + 60) sqrt(60 / (typical + 60)) - 60, however short that one is.
    """
    return (waited_s + ORDER_FLOOR_S) / sqrt(typical_s + ORDER_FLOOR_S)


def _nothing_known(walltime_s: float | None) -> Prediction:
    expected = UNKNOWN_S if walltime_s is None else walltime_s
    return Prediction(
        expected_s=expected,
        low_s=0.0,
        high_s=expected,
        typical_s=expected,
        from_n=0,
        by="no job like this has ended yet",
        walltime_s=walltime_s,
        outcomes=((expected, 1.0),),
    )


def _summed(
    outcomes: Sequence[Outcome], walltime_s: float | None, from_n: int, by: str
) -> Prediction:
    if walltime_s is not None:
        outcomes = [(min(seconds, walltime_s), weight) for seconds, weight in outcomes]
    total = fsum(weight for _, weight in outcomes)
    shortest, longest = outcomes[0][0], outcomes[-1][0]
    mean = fsum(seconds * weight for seconds, weight in outcomes) / total
    logarithm = fsum(log(seconds + 1) * weight for seconds, weight in outcomes) / total
    mean, typical = (min(max(value, shortest), longest) for value in (mean, exp(logarithm) - 1))
    return Prediction(
        expected_s=mean,
        low_s=min(mean, _quantile(outcomes, LOW * total)),
        high_s=max(mean, _quantile(outcomes, HIGH * total)),
        typical_s=typical,
        from_n=from_n,
        by=by,
        walltime_s=walltime_s,
        outcomes=tuple(outcomes),
    )


def _quantile(outcomes: Sequence[Outcome], weight: float) -> float:
    """The first run time at which the weights reach `weight`."""
    for seconds, own in outcomes:
        weight -= own
        if weight <= 0:
            return seconds
    return outcomes[-1][0]
