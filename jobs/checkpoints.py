"""How often a job should save itself: often enough to lose little when a node fails, rarely enough
to spend little on saving. And which of its checkpoints need not be kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median


@dataclass(frozen=True)
class Saved:
    """One checkpoint, as far as keeping it goes."""

    path: str
    step: int | None
    written_at: float
    complete: bool
    pinned: bool = False
    in_use: bool = False
    """A job is to go on from it, or does."""


def superfluous(saved: Iterable[Saved], *, last: int, every: int | None) -> list[Saved]:
    """Those that need not be kept, oldest first.

    All of one step belong together: the model and its optimizer, say. Kept are the `last` newest
    steps that are complete, at least one; those that `every` divides; those of which anything is
    pinned, in use or not complete, as somebody may still be writing it; and all that have no step:
    a name such as `best.pt` was given for a reason.
    """
    steps: dict[int, list[Saved]] = defaultdict(list)
    for one in saved:
        if one.step is not None:
            steps[one.step].append(one)
    whole = [step for step, found in steps.items() if all(one.complete for one in found)]
    whole.sort(key=lambda step: (max(one.written_at for one in steps[step]), step))
    return [
        one
        for step in whole[: -max(1, last)]
        if not (every and step % every == 0)
        and not any(one.pinned or one.in_use for one in steps[step])
        for one in steps[step]
    ]


DAY_S = 86_400.0
USUAL_FAILURES = 1.0
USUAL_NODE_DAYS = 1000 / 6.5
"""What a lab starts from that has seen little: 6.50 failures in 1,000 node-days, as on Meta's RSC-1
(8 GPUs a node), with the weight of one failure. Kokolis et al., Revisiting Reliability in
Large-Scale Machine Learning Research Clusters, HPCA 2025, doi:10.1109/HPCA61900.2025.00096."""


@dataclass(frozen=True)
class Reliability:
    """What was seen of nodes while jobs ran on them."""

    failures: int = 0
    node_days: float = 0.0

    def mttf_s(self, nodes: int) -> float:
        """Mean time in seconds to the first failure of any of so many nodes, each of which fails
        at any time alike and by itself.

        The mean rate under a gamma prior with the usual failures and node-days, to which those
        seen are added (Gelman et al., Bayesian Data Analysis, 2.6).
        """
        days = USUAL_NODE_DAYS + self.node_days
        return days / (USUAL_FAILURES + self.failures) * DAY_S / nodes


def young_s(write_s: float, mttf_s: float) -> float:
    """Seconds of work from one checkpoint to the next, to first order.

    J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974,
    doi:10.1145/361147.361115.
    """
    return math.sqrt(2 * write_s * mttf_s)


def daly_s(write_s: float, mttf_s: float) -> float:
    """Seconds of work from the end of one checkpoint to the beginning of the next.

    J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS
    22(3), 2006, doi:10.1016/j.future.2004.11.016, equation 37. Where writing takes as long as two
    mean times to a failure, no interval is good; then the mean time itself.
    """
    if write_s >= 2 * mttf_s:
        return mttf_s
    part = write_s / (2 * mttf_s)
    return math.sqrt(2 * write_s * mttf_s) * (1 + math.sqrt(part) / 3 + part / 9) - write_s


def usual(times_s: Iterable[float]) -> float | None:
    """The median; None of nothing."""
    found = list(times_s)
    return median(found) if found else None


def interval_s(written_at: Iterable[float]) -> float | None:
    """The usual time between one checkpoint and the next, of times in any order; None of fewer
    than two."""
    return usual(after - before for before, after in pairwise(sorted(written_at)))
