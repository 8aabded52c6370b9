"""Which limits hold for whom, and what they can never allow.

The rules are in `docs/quotas.md`. A quota holds for its project and for all below it, so that a job
has to keep to those of every project on the way up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import fsum

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.gpu_models import is_model
from jobs.scheduler.limits import (
    PARTS_PER_GPU,
    Demand,
    Limited,
    Quota,
    Refusal,
    Rule,
    Scope,
)
from jobs.scheduler.quota_words import refusal
from jobs.scheduler.snapshot import Pending

MICROS = 1_000_000
_ORDER = {limited: place for place, limited in enumerate(Limited)}
NOBODY: frozenset[int | None] = frozenset()
OF_ONE_JOB = frozenset({Limited.WALLTIME, Limited.PARTITIONS, Limited.GPU_MODELS})
"""Limits that go by what a job asks for, whoever else runs or waits."""


def parts(gpus: float) -> int:
    """GPUs as they are counted: in whole parts."""
    return round(gpus * PARTS_PER_GPU)


def micros(gpu_seconds: float) -> int:
    """GPU-seconds as they are counted: in whole millionths."""
    return round(gpu_seconds * MICROS)


def counted(limited: Limited, number: float) -> int:
    """A limit's number in what is counted."""
    if limited in (Limited.GPUS, Limited.LENDING):
        return parts(number)
    if limited is Limited.GPU_HOURS:
        return micros(number * 3600)
    return round(number)


class QuotaTree:
    """The projects with their limits.

    `lends` are the projects whose children lend to each other what they do not use; None among
    them is the top of the tree. Raises `ValueError` for a tree that is none.
    """

    def __init__(
        self,
        projects: Iterable[Project],
        quotas: Iterable[Quota],
        lends: frozenset[int | None] = NOBODY,
    ) -> None:
        self.projects = {project.id: project for project in projects}
        self._lines: dict[int, tuple[Project, ...]] = {}
        self._found: dict[tuple[int, Band], tuple[Rule, ...]] = {}
        self._refused: dict[tuple[object, ...], Refusal | None] = {}
        self._allowed: dict[tuple[Limited, int, Band], frozenset[str] | None] = {}
        self._of_one_job: dict[tuple[int, Band], tuple[Rule, ...]] = {}
        stated: defaultdict[int, list[Quota]] = defaultdict(list)
        for quota in quotas:
            self.line(quota.project_id)
            stated[quota.project_id].append(quota)
        self._stated = {
            project_id: _merged(
                self.projects[project_id], theirs, self.projects[project_id].parent_id in lends
            )
            for project_id, theirs in sorted(stated.items())
        }
        self.guarantees = {
            project_id: rule
            for project_id, rules in self._stated.items()
            for rule in rules
            if rule.guarantee
        }
        """By project: the GPUs that siblings may borrow and have to give back."""
        self.lenders: dict[int | None, dict[int, Rule]] = {parent_id: {} for parent_id in lends}
        """By the project above them: who lends to each other, with what each is guaranteed."""
        for project_id, rule in self.guarantees.items():
            self.lenders[self.projects[project_id].parent_id][project_id] = rule
        self._pools = {parent_id: self._pool(parent_id) for parent_id in lends}

    def line(self, project_id: int) -> tuple[Project, ...]:
        """A project and all above it, up to the top."""
        found = self._lines.get(project_id)
        if found is None:
            found = self._lines[project_id] = tuple(self._upwards(project_id))
        return found

    def rules(self, project_id: int, band: Band) -> tuple[Rule, ...]:
        """All limits for jobs of a project in a band: by what they limit, the nearest first.

        A project that is not in the tree has none.
        """
        if project_id not in self.projects:
            return ()
        found = self._found.get((project_id, band))
        if found is None:
            every = [rule for project in self.line(project_id) for rule in self._own(project)]
            every = [rule for rule in every if _holds_for(rule, band)]
            every.sort(key=lambda rule: _ORDER[rule.limited])
            found = self._found[project_id, band] = tuple(every)
        return found

    def allowed(self, limited: Limited, project_id: int, band: Band) -> frozenset[str] | None:
        """The partitions or GPU models that all limits together allow; None: all."""
        about = (limited, project_id, band)
        if about not in self._allowed:
            rules = self.rules(project_id, band)
            sets = [rule.names for rule in rules if rule.limited is limited]
            self._allowed[about] = frozenset.intersection(*sets) if sets else None
        return self._allowed[about]

    @property
    def limits_models(self) -> bool:
        """Whether anybody's GPU models are limited."""
        return any(
            rule.limited is Limited.GPU_MODELS for rules in self._stated.values() for rule in rules
        )

    def gpu_models(self, job: Pending) -> frozenset[str] | None:
        """Those that a waiting job may use; None: all."""
        return self.allowed(Limited.GPU_MODELS, job.project_id, job.band)

    def judges(self, project_id: int, band: Band) -> bool:
        """Whether any limit goes by what a single job asks for."""
        return bool(self._judging(project_id, band))

    def forbids(self, demand: Demand) -> Refusal | None:
        """What keeps a job back that was taken in before this was forbidden.

        Limits on what is counted are left out: those the tally keeps.
        """
        return _refused(self._judging(demand.project_id, demand.band), demand, 1)

    def _judging(self, project_id: int, band: Band) -> tuple[Rule, ...]:
        found = self._of_one_job.get((project_id, band))
        if found is None:
            rules = self.rules(project_id, band)
            found = tuple(rule for rule in rules if rule.limited in OF_ONE_JOB)
            self._of_one_job[project_id, band] = found
        return found

    def refuse(self, demand: Demand, jobs: int = 1) -> Refusal | None:
        """What a quota can never allow, not even in an empty cluster; None where all could.

        `jobs` is how many are submitted at once: the tasks of an array; 0 for one that was taken
        in already, which no limit on waiting jobs keeps out any more. Equal requests are looked at
        once.
        """
        asked = (
            demand.project_id, demand.band, demand.gpus, demand.walltime_s, demand.partition,
            demand.gpu_model, jobs,
        )  # fmt: skip
        if asked not in self._refused:
            rules = self.rules(demand.project_id, demand.band)
            self._refused[asked] = _refused(rules, demand, jobs)
        return self._refused[asked]

    def of(self, quota: Quota) -> tuple[Rule, ...]:
        """The limits of one quota by itself, also where another one is narrower."""
        project = self.projects[quota.project_id]
        return tuple(_rules(project, quota, project.id in self.guarantees))

    def _upwards(self, project_id: int) -> Iterator[Project]:
        seen: set[int] = set()
        at: int | None = project_id
        while at is not None:
            if at not in self.projects:
                raise ValueError(f"there is no project {at}")
            if at in seen:
                raise ValueError(f"project {at} is above itself")
            seen.add(at)
            project = self.projects[at]
            yield project
            at = project.parent_id

    def _own(self, project: Project) -> Iterator[Rule]:
        yield from self._stated.get(project.id, ())
        if project.id in self.guarantees:
            yield self._pools[project.parent_id]

    def _pool(self, parent_id: int | None) -> Rule:
        total = fsum(rule.limit for rule in self.lenders[parent_id].values())
        name = "" if parent_id is None else self.projects[parent_id].name
        return Rule(Limited.LENDING, parent_id, name, total)


def _refused(rules: Iterable[Rule], demand: Demand, jobs: int) -> Refusal | None:
    models: frozenset[str] | None = None
    for rule in rules:
        if rule.limited is Limited.GPU_MODELS:
            # Each may allow some of what was asked, and all together nothing.
            models = rule.names if models is None else models & rule.names
            if demand.gpus > 0 and not _serves(models, demand.gpu_model):
                alone = _serves(rule.names, demand.gpu_model)
                return refusal(replace(rule, names=models) if alone else rule, demand, jobs)
        elif _never(rule, demand, jobs):
            return refusal(rule, demand, jobs)
    return None


def _holds_for(rule: Rule, band: Band) -> bool:
    """Best-effort counts against nothing, and has to keep only to what is said of itself."""
    return rule.band is band or (rule.band is None and band is not Band.BEST_EFFORT)


def _never(rule: Rule, demand: Demand, jobs: int) -> bool:
    match rule.limited:
        case Limited.WALLTIME:
            return demand.walltime_s > rule.limit
        case Limited.PARTITIONS:
            return demand.partition not in rule.names
        case Limited.JOBS_PENDING:
            return jobs > rule.limit
        case Limited.JOBS_RUNNING:
            return rule.limit < 1
        case Limited.GPU_HOURS:
            return micros(demand.gpu_seconds) > counted(rule.limited, rule.limit)
    return not rule.guarantee and parts(demand.gpus) > counted(rule.limited, rule.limit)


def _serves(models: frozenset[str], asked: str | None) -> bool:
    return any(asked is None or is_model(asked, model) for model in models)


def _merged(project: Project, quotas: Iterable[Quota], lends: bool) -> tuple[Rule, ...]:
    """Of limits of one kind the narrowest, in an order of their own."""
    found: dict[tuple[object, ...], Rule] = {}
    for quota in quotas:
        for rule in _rules(project, quota, lends):
            known = found.get(rule.kind, rule)
            found[rule.kind] = replace(
                rule, limit=min(rule.limit, known.limit), names=rule.names & known.names
            )
    return tuple(sorted(found.values(), key=_place))


def _place(rule: Rule) -> tuple[str, int, str]:
    return rule.scope, 1 if rule.band is None else -rule.band.rank, repr(rule.period)


def _rules(project: Project, quota: Quota, lends: bool) -> Iterator[Rule]:
    limits = quota.limits
    for_all = quota.scope is Scope.PROJECT and quota.band is None
    bare = Rule(Limited.GPUS, project.id, project.name, scope=quota.scope, band=quota.band)
    if limits.gpus is not None:
        yield replace(bare, limit=limits.gpus, guarantee=lends and for_all)
    if limits.gpu_hours is not None:
        hours = Limited.GPU_HOURS
        yield replace(bare, limited=hours, limit=limits.gpu_hours, period=quota.period)
    for limited, number in (
        (Limited.JOBS_RUNNING, limits.jobs_running),
        (Limited.JOBS_PENDING, limits.jobs_pending),
        (Limited.WALLTIME, limits.walltime_s),
    ):
        if number is not None:
            yield replace(bare, limited=limited, limit=number)
    for limited, names in (
        (Limited.PARTITIONS, limits.partitions),
        (Limited.GPU_MODELS, limits.gpu_models),
    ):
        if names is not None:
            yield replace(bare, limited=limited, names=names)
