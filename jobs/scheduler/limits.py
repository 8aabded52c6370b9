"""What a quota may limit, what counts against it, and what is said of it: frozen values.

The rules are in `docs/quotas.md`; `quota.py` applies them to a request, `counters.py` to a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from jobs.bands import Band
from jobs.scheduler.periods import CalendarMonth, Period, Slice

PARTS_PER_GPU = 4_655_851_200
"""GPUs are counted in whole parts, so that what is added and taken away again leaves no rounding
behind. It is the least number that can be divided by all from 1 to 20, and by 24, 25, 32, 36, 40,
48, 50, 60, 64 and 100: what an admin may divide a GPU into."""

MAX_LIMIT = 10**9
"""Of GPUs, and of GPU-hours: more than any lab has, and in its parts still a number of 64 bits."""

Key = tuple[int, int, Band]
"""(project id, user id, band): jobs that count against the same limits."""


class Account(NamedTuple):
    """Whose use counts against a limit."""

    project_id: int
    """With all below it."""
    user_id: int | None = None
    """None: of all users."""
    band: Band | None = None
    """None: of all but best-effort."""


def nothing_told(_: Account) -> tuple[Slice, ...]:
    """Of nobody is it known when something was used."""
    return ()


class Limited(StrEnum):
    """What is limited, in the order in which it is told."""

    PARTITIONS = "partitions"
    GPU_MODELS = "gpu_models"
    WALLTIME = "walltime"
    JOBS_PENDING = "jobs_pending"
    JOBS_RUNNING = "jobs_running"
    GPUS = "gpus"
    LENDING = "lending"
    """GPUs of all projects that lend to each other, together."""
    GPU_HOURS = "gpu_hours"


class Scope(StrEnum):
    """Whom a quota holds for."""

    PROJECT = "project"
    """The project and all below it, together."""
    USER = "user"
    """Each user by themselves, with all they have in the project and below it."""


@dataclass(frozen=True)
class Limits:
    """None is no limit. Fractions of a GPU are shards."""

    gpus: float | None = None
    gpu_hours: float | None = None
    jobs_running: int | None = None
    jobs_pending: int | None = None
    walltime_s: int | None = None
    partitions: frozenset[str] | None = None
    gpu_models: frozenset[str] | None = None
    """Full names, as the nodes report them."""

    def __post_init__(self) -> None:
        for name in ("gpus", "gpu_hours", "jobs_running", "jobs_pending", "walltime_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number from 0, or None for no limit")
        for name in ("gpus", "gpu_hours"):
            value = getattr(self, name)
            if value is not None and value > MAX_LIMIT:
                raise ValueError(f"{name} must be {MAX_LIMIT:,} at most, or None for no limit")


@dataclass(frozen=True)
class Quota:
    """Limits of a project, or of each user in it. `band` None: all but best-effort, together."""

    project_id: int
    limits: Limits
    scope: Scope = Scope.PROJECT
    band: Band | None = None
    period: Period = field(default_factory=CalendarMonth)
    """What the GPU-hours are for."""

    def __post_init__(self) -> None:
        held = (self.limits.gpus, self.limits.gpu_hours, self.limits.jobs_running)
        if self.band is Band.BEST_EFFORT and held != (None, None, None):
            raise ValueError("what runs in best-effort counts against no quota")


@dataclass(frozen=True)
class Demand:
    """What a job asks for, as far as quotas look at it."""

    job_id: int
    project_id: int
    user_id: int
    band: Band
    gpus: float
    """In all; shards as a fraction of their GPU."""
    walltime_s: int
    partition: str
    gpu_model: str | None = None

    @property
    def gpu_seconds(self) -> float:
        """What its start is charged with."""
        return self.gpus * self.walltime_s


@dataclass(frozen=True)
class Holding:
    """A job that runs."""

    demand: Demand
    started_at: datetime

    def seconds_left(self, now: datetime) -> float:
        """How long it may go on: what it holds beyond what it has used."""
        # Not `now - started_at`: within one time zone that would overlook that clocks change.
        return max(0.0, self.demand.walltime_s - (now.timestamp() - self.started_at.timestamp()))


@dataclass(frozen=True)
class Usage:
    """All that counts against quotas at one moment."""

    at: datetime
    running: tuple[Holding, ...] = ()
    pending: Mapping[Key, int] = field(default_factory=dict)
    """How many jobs wait; the tasks of an array each for themselves."""
    used: Mapping[Period, Mapping[Key, float]] = field(default_factory=dict)
    """GPU-seconds since `period.begin(at)`, of running jobs too, for each period that a limit on
    GPU-hours has. They are not weighted and do not decay."""
    history: Callable[[Account], Iterable[Slice]] = nothing_told
    """What `used` is made of. It may be years of many people, and is only asked for the limits that
    somebody waits for, to foretell when a rolling period has room again."""


@dataclass(frozen=True)
class Rule:
    """One limit, of one project. A pool of lenders at the top of the tree has no project."""

    limited: Limited
    project_id: int | None
    project: str
    limit: float = math.inf
    names: frozenset[str] = frozenset()
    """What is allowed, of partitions or GPU models."""
    scope: Scope = Scope.PROJECT
    band: Band | None = None
    period: Period | None = None
    guarantee: bool = False
    """Siblings lend: its jobs may go beyond it."""

    @property
    def kind(self) -> tuple[object, ...]:
        """Of limits that agree in this the narrowest is the one that counts."""
        return (self.project_id, self.limited, self.scope, self.band, self.period)

    def account(self, user_id: int | None) -> Account:
        """Whose use counts against one on GPU-hours, of this user where it is one for each."""
        assert self.project_id is not None
        return Account(self.project_id, user_id, self.band)


@dataclass(frozen=True)
class Refusal:
    """A request that can never start: `field` is the form's, the sentence is for its author.

    What is asked and allowed is in GPUs, GPU-hours, jobs or seconds, or it is names.
    """

    rule: Rule
    field: str
    asked: float | str
    allowed: float | tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Excess:
    """A limit that is in the way now. In GPUs, GPU-hours or jobs."""

    rule: Rule
    user_id: int | None
    """Whose limit it is, where it is one for each user."""
    used: float
    held: float
    """GPU-hours that running jobs have been charged with and not used yet."""
    asked: float
    over: float
    """By how much it would be exceeded."""
    until: datetime | None
    """When the period lets go of enough, if nothing else starts; None where that is not known."""
    owed: bool
    """What is missing has been borrowed from this job's project, which may take it back."""
    sentence: str


@dataclass(frozen=True)
class Standing:
    """How much of a limit is left, for a page. In GPUs, GPU-hours or jobs."""

    limit: float
    used: float
    held: float

    @property
    def available(self) -> float:
        """Nothing is left where the limit was lowered below what is used."""
        return max(0.0, self.limit - self.used - self.held)


@dataclass(frozen=True)
class Borrower:
    """A project that runs more GPUs than it was guaranteed."""

    project_id: int
    guarantee: float
    over: float
