"""Project trees with quotas, jobs in them, and an oracle that counts everything anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from typing import TypeVar

from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.gpu_models import is_model
from jobs.scheduler.limits import Demand, Key, Limits, Quota, Scope, Usage
from jobs.scheduler.periods import CalendarMonth, Period, Rolling
from tests.jobs.scheduler.clusters import A100, H100

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PERIODS: tuple[Period, ...] = (CalendarMonth("Europe/Berlin"), Rolling(30))
USERS = (1, 2)
GPUS = (*map(Fraction, (0, 1, 2, 4, 8)), Fraction(1, 2), Fraction(1, 3), Fraction(3, 7))
KINDS = tuple(
    product(USERS, Band, GPUS, (0.5, 1, 12, 24, 168), ("gpu", "long"), (None, "a100", "h100"))
)
of_any_kind = st.integers(0, len(KINDS) - 1)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Lab:
    """Who may how much."""

    projects: tuple[Project, ...]
    quotas: tuple[Quota, ...]
    lends: frozenset[int | None]


@dataclass(frozen=True)
class Job:
    """A demand with its GPUs as they are, not as floats."""

    demand: Demand
    gpus: Fraction

    @property
    def key(self) -> Key:
        return self.demand.project_id, self.demand.user_id, self.demand.band

    @property
    def gpu_seconds(self) -> Fraction:
        return self.gpus * self.demand.walltime_s


def maybe(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value | None]:
    """No limit more often than not, so that most trees let something through."""
    return st.one_of(st.none(), st.none(), values)


limits = st.builds(
    Limits,
    gpus=maybe(st.sampled_from((0, 0.5, 1, 4, 8, 12, 20))),
    gpu_hours=maybe(st.sampled_from((0, 1, 12, 100, 500))),
    jobs_running=maybe(st.integers(0, 5)),
    jobs_pending=maybe(st.integers(0, 5)),
    walltime_s=maybe(st.sampled_from((3600, 86_400))),
    partitions=maybe(st.frozensets(st.sampled_from(("gpu", "long")), min_size=1)),
    gpu_models=maybe(st.frozensets(st.sampled_from((A100, H100)), min_size=1)),
)


def _allowed(quota: tuple[int, Limits, Scope, Band | None, Period]) -> Quota:
    project_id, chosen, scope, band, period = quota
    if band is Band.BEST_EFFORT:
        chosen = replace(chosen, gpus=None, gpu_hours=None, jobs_running=None)
    return Quota(project_id, chosen, scope, band, period)


@st.composite
def labs(draw: st.DrawFn) -> Lab:
    """Small forests, where much is above each other and limits meet."""
    many = draw(st.integers(1, 6))
    projects = tuple(
        Project(number, f"p{number}", draw(st.sampled_from((None, *range(1, number)))))
        for number in range(1, many + 1)
    )
    of_one = st.tuples(
        st.integers(1, many),
        limits,
        st.sampled_from(Scope),
        st.sampled_from((None, None, *Band)),
        st.sampled_from(PERIODS),
    )
    lends = draw(st.frozensets(st.sampled_from((None, *range(1, many + 1)))))
    return Lab(projects, tuple(map(_allowed, draw(st.lists(of_one, max_size=8)))), lends)


def jobs(lab: Lab, job_id: int = 1) -> st.SearchStrategy[Job]:
    """One of any kind."""
    return st.tuples(st.integers(1, len(lab.projects)), of_any_kind).map(
        lambda drawn: _job(job_id, drawn[0], *KINDS[drawn[1]])
    )


def _job(
    job_id: int, project_id: int, user_id: int, band: Band, gpus: Fraction, hours: float,
    partition: str, model: str | None,
) -> Job:  # fmt: skip
    walltime_s = round(hours * 3600)
    demand = Demand(
        job_id, project_id, user_id, band, float(gpus), walltime_s, partition, model
    )  # fmt: skip
    return Job(demand, gpus)


@st.composite
def queues(draw: st.DrawFn, lab: Lab, most: int = 10) -> list[Job]:
    """Jobs with ids from 1."""
    many = draw(st.integers(1, most))
    return [draw(jobs(lab, job_id)) for job_id in range(1, many + 1)]


def usage(used: dict[Key, int] | None = None) -> Usage:
    """Nothing runs; in both periods so many GPU-seconds were used."""
    return Usage(NOW, used=dict.fromkeys(PERIODS, used or {}))


class Oracle:
    """Walks all ancestors and adds up all jobs, each time."""

    def __init__(self, lab: Lab, active: list[Job], used: dict[Key, int] | None = None) -> None:
        self.lab = lab
        self.active = active
        self.used = used or {}
        self.parents = {project.id: project.parent_id for project in lab.projects}

    def line(self, project_id: int | None) -> list[int]:
        above = []
        while project_id is not None:
            above.append(project_id)
            project_id = self.parents[project_id]
        return above

    def counts(self, quota: Quota, key: Key, user_id: int) -> bool:
        """Whether what `key` does counts against the quota, for this user of it."""
        project_id, whose, band = key
        if quota.project_id not in self.line(project_id) or band is Band.BEST_EFFORT:
            return False
        if quota.scope is Scope.USER and whose != user_id:
            return False
        return quota.band is None or quota.band is band

    def judging(self, project_id: int, band: Band) -> list[Limits]:
        """Of the quotas for jobs of a project in a band, what they say of each by itself."""
        return [
            quota.limits
            for quota in self.lab.quotas
            if quota.project_id in self.line(project_id)
            and (quota.band is band or (quota.band is None and band is not Band.BEST_EFFORT))
        ]

    def models(self, project_id: int, band: Band) -> frozenset[str]:
        """The GPU models, of the two that there are, that all quotas allow."""
        left = frozenset((A100, H100))
        for limits in self.judging(project_id, band):
            left &= left if limits.gpu_models is None else limits.gpu_models
        return left

    def forbids(self, demand: Demand) -> bool:
        """Whether a quota would not have such a job at all, whatever is counted."""
        models = self.models(demand.project_id, demand.band)
        asked = demand.gpu_model
        served = any(asked is None or is_model(asked, model) for model in models)
        return (demand.gpus > 0 and not served) or any(
            (limits.walltime_s is not None and demand.walltime_s > limits.walltime_s)
            or (limits.partitions is not None and demand.partition not in limits.partitions)
            for limits in self.judging(demand.project_id, demand.band)
        )

    def against(self, quota: Quota, user_id: int) -> list[Job]:
        return [job for job in self.active if self.counts(quota, job.key, user_id)]

    def gpu_seconds(self, quota: Quota, user_id: int) -> Fraction:
        used = sum(s for key, s in self.used.items() if self.counts(quota, key, user_id))
        return sum((job.gpu_seconds for job in self.against(quota, user_id)), Fraction(used))

    def is_guarantee(self, quota: Quota) -> bool:
        return (
            (quota.scope, quota.band) == (Scope.PROJECT, None)
            and quota.limits.gpus is not None
            and self.parents[quota.project_id] in self.lab.lends
        )

    def guarantees(self) -> dict[int, Fraction]:
        found: dict[int, Fraction] = {}
        for quota in self.lab.quotas:
            if self.is_guarantee(quota):
                limit = Fraction(quota.limits.gpus or 0)
                found[quota.project_id] = min(limit, found.get(quota.project_id, limit))
        return found

    def gpus_of(self, project_id: int) -> Fraction:
        return sum(
            (
                job.gpus
                for job in self.active
                if project_id in self.line(job.demand.project_id)
                and job.demand.band is not Band.BEST_EFFORT
            ),
            Fraction(0),
        )

    def pools(self) -> list[tuple[list[int], Fraction, Fraction]]:
        """Projects that lend to each other, what they have together, and what they use."""
        guarantees = self.guarantees()
        found = []
        for parent_id in self.lab.lends:
            lenders = [child for child in guarantees if self.parents[child] == parent_id]
            total = sum((guarantees[child] for child in lenders), Fraction(0))
            found.append((lenders, total, sum(map(self.gpus_of, lenders), Fraction(0))))
        return found

    def exceeded(self, job: Job) -> bool:
        """Whether any limit would be exceeded by this job."""
        mine = [q for q in self.lab.quotas if self.counts(q, job.key, job.demand.user_id)]
        return any(self.exceeds(quota, job) for quota in mine) or any(
            job.gpus and used + job.gpus > total
            for lenders, total, used in self.pools()
            if set(lenders) & set(self.line(job.demand.project_id))
            and job.demand.band is not Band.BEST_EFFORT
        )

    def exceeds(self, quota: Quota, job: Job) -> bool:
        limits, user_id = quota.limits, job.demand.user_id
        there = self.against(quota, user_id)
        if limits.jobs_running is not None and len(there) + 1 > limits.jobs_running:
            return True
        if not job.gpus:
            return False
        gpus = sum((other.gpus for other in there), job.gpus)
        if limits.gpus is not None and gpus > limits.gpus and not self.is_guarantee(quota):
            return True
        seconds = self.gpu_seconds(quota, user_id) + job.gpu_seconds
        return limits.gpu_hours is not None and seconds > limits.gpu_hours * 3600

    def borrows(self, job: Job) -> bool:
        """Whether it would be beyond a guarantee."""
        return (
            bool(job.gpus)
            and job.demand.band is not Band.BEST_EFFORT
            and any(
                self.gpus_of(project_id) + job.gpus > guarantee
                for project_id, guarantee in self.guarantees().items()
                if project_id in self.line(job.demand.project_id)
            )
        )
