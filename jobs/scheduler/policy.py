"""What an admin decides about deciding. The defaults are those of a new lab."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from jobs.bands import Band
from jobs.scheduler.priority import PriorityWeights


class Order(StrEnum):
    """Who goes first within a band."""

    PRIORITY = "priority"
    """Fair share, age, size and the nice value."""
    SUBMISSION = "submission"
    """First come, first served."""
    SHORTEST = "shortest"
    """The shortest expected run time first."""
    LEAST_SERVICE = "least-service"
    """The least expected service first: GPUs x expected seconds."""
    RESPONSE_RATIO = "response-ratio"
    """The longest wait for the shortest expected run first."""
    FAIR_RATIO = "fair-ratio"
    """The same, sooner for those who have had less than their share."""


class Backfill(StrEnum):
    """What may start while a job ahead of it waits for resources."""

    NONE = "none"
    """Nothing."""
    RESERVING = "reserving"
    """What ends before, or stays clear of, what those ahead are promised."""
    EASY = "easy"
    """As RESERVING, but each job is only tried where it would be if nothing was promised: the
    rule of published simulations."""
    GREEDY = "greedy"
    """Whatever fits; large jobs may wait for ever."""


class Placing(StrEnum):
    """Which of the nodes that fit a job of one node takes."""

    LEAST_FRAGMENTATION = "least-fragmentation"
    """Where it leaves the most to jobs like those that wait and run."""
    BEST_FIT = "best-fit"
    """Where the fewest GPUs are free: the rule of published simulations."""


MAX_S = 30 * 86_400
"""The longest that a policy may speak of."""

BY_DEFAULT: Mapping[Band, frozenset[Band]] = {
    band: frozenset({Band.BEST_EFFORT}) for band in Band if band is not Band.BEST_EFFORT
}
"""Best-effort work is for what nobody else wants now. That batch work gives way to production is
for the admin to say."""


@dataclass(frozen=True)
class Policy:
    """How one cluster is scheduled."""

    order: Order = Order.PRIORITY
    backfill: Backfill = Backfill.RESERVING
    placing: Placing = Placing.LEAST_FRAGMENTATION
    reservations: int = 16
    """How many waiting jobs of a partition are promised a time, beside those for whom others make
    room; at least one."""
    preempts: Mapping[Band, frozenset[Band]] = field(default_factory=lambda: BY_DEFAULT)
    """Whose jobs a band's jobs may preempt: lower bands only."""
    grace_s: float = 60.0
    """A victim's time from its signal to its end."""
    min_run_s: float = 600.0
    """Nobody is preempted before so long a run."""
    max_preemptions: int = 3
    """Who had to make room so often in a row is left alone."""
    weights: PriorityWeights = field(default_factory=PriorityWeights)
    bounded: bool = True
    """In all orders but that of submission, who has waited too long goes before all others of its
    band. Published simulations know no such bound."""

    @property
    def gives_turns(self) -> bool:
        """Whether who has waited too long goes first; by submission that is so anyway."""
        return self.bounded and self.order is not Order.SUBMISSION

    @property
    def room_after_s(self) -> float:
        """How long it takes until there is room where others have been told to leave: nobody is
        promised a time before the next second."""
        return max(1.0, self.grace_s)

    def __post_init__(self) -> None:
        if self.reservations < 1:
            raise ValueError(f"at least 1 job is promised a time, not {self.reservations!r}")
        for what, number in (("grace", self.grace_s), ("shortest run", self.min_run_s)):
            # NaN is not, either.
            if not 0 <= number <= MAX_S:
                raise ValueError(f"the {what} must be from 0 to {MAX_S:,} s, not {number!r}")
        if self.max_preemptions < 0:
            raise ValueError(f"nobody can make room {self.max_preemptions!r} times")
        for band, victims in self.preempts.items():
            if any(victim.rank >= band.rank for victim in victims):
                raise ValueError(f"{band} jobs may preempt lower bands only")
