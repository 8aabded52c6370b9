"""What quotas and nodes mean for the jobs there are: which run beyond them, and which can never
start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from django.db.models import TextField
from django.db.models.functions import Cast

from jobs import lifecycle
from jobs.bands import Band
from jobs.scheduler.counters import Counters
from jobs.scheduler.excuse import no_such_nodes
from jobs.scheduler.explain import models_missing
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.fit import leave_too_few
from jobs.scheduler.limits import Demand, Holding, Limited, Quota, Usage
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.rank import Sizes
from jobs.scheduler.snapshot import Node
from jobs.spec import JobSpec, Resources
from portal.models import Job
from portal.queries import accounts, machines, specs
from portal.queries.books import Books


class _Asked(NamedTuple):
    """What is read of a waiting job, by the names of its columns."""

    pk: int
    project_id: int
    owner_id: int
    band: str
    walltime_s: int
    partition__name: str
    spec_text: str
    """Its specification as JSON; not a column."""


Whose = tuple[int, int | None]
"""A project, or a user in it."""


class Part(NamedTuple):
    """The part of the shares at its level that a project or a user has, and what it is called."""

    name: str
    share: float


@dataclass(frozen=True)
class Outcome:
    """By job why; and by project, or by project and user, its part of the shares."""

    over: Mapping[int, str]
    """Running jobs that would not start now; of several that together are too many, those of the
    lowest band, and of these the youngest."""
    never: Mapping[int, str]
    """Waiting jobs that would be refused now, by a quota or as no nodes could hold them."""
    parts: Mapping[Whose, Part]


@dataclass(frozen=True)
class Standing:
    """The rows of one moment, to be judged after a transaction in which others cannot write."""

    projects: Sequence[Project]
    members: Sequence[Member]
    quotas: Sequence[Quota]
    lends: frozenset[int | None]
    usage: Usage
    models: Mapping[int, str]
    """By job that runs, the model of its GPUs."""
    waiting: Sequence[_Asked]
    nodes: Sequence[Node]
    now: datetime

    def outcome(self) -> Outcome:
        """What follows for each job."""
        unused = replace(self.usage, running=())
        counters = Counters(self.projects, self.quotas, unused, self.lends)
        running = [_of_model(holding, self.models) for holding in self.usage.running]
        return Outcome(
            over=dict(_over(running, counters, self.now)),
            never=dict(_never(self.waiting, counters, self.nodes)),
            parts=dict(_parts(self.projects, self.members)),
        )


def read(now: datetime) -> Standing:
    """As the database stands, in a constant number of queries."""
    quotas, books = accounts.quotas(), Books.read(now)
    return Standing(
        projects=accounts.projects(),
        members=accounts.members(),
        quotas=quotas,
        lends=accounts.lends(),
        usage=accounts.counted(books, quotas),
        models={meter.job_id: rate.gpu_model for meter in books.running for rate in meter.rates},
        waiting=_waiting(),
        nodes=machines.empty(),
        now=now,
    )


def _waiting() -> list[_Asked]:
    rows = Job.objects.filter(state__in=lifecycle.WAITING).order_by("pk")
    texts = rows.annotate(spec_text=Cast("spec", TextField()))
    return [_Asked._make(row) for row in texts.values_list(*_Asked._fields)]


def _of_model(holding: Holding, models: Mapping[int, str]) -> Holding:
    """What it got, whatever it asked for."""
    model = models.get(holding.demand.job_id) or None
    return replace(holding, demand=replace(holding.demand, gpu_model=model))


def _over(
    running: Iterable[Holding], counters: Counters, now: datetime
) -> Iterator[tuple[int, str]]:
    """As if they started anew, one after the other, those that matter most first."""
    for holding in sorted(running, key=_rank):
        asked = holding.demand
        group = counters.group(asked.project_id, asked.user_id, asked.band)
        charged = asked.gpus * holding.seconds_left(now)
        refusal = counters.tree.refuse(asked, jobs=0)
        why = counters.why(group, asked.gpus, charged)
        if refusal:
            yield asked.job_id, refusal.sentence
        elif why:
            yield asked.job_id, " ".join(excess.sentence for excess in why)
        else:
            counters.add(group, asked.gpus, charged)


def _rank(holding: Holding) -> tuple[int, datetime, int]:
    return -holding.demand.band.rank, holding.started_at, holding.demand.job_id


def _never(
    waiting: Sequence[_Asked], counters: Counters, nodes: Sequence[Node]
) -> Iterator[tuple[int, str]]:
    sizes, models, fit = Sizes(nodes), _Models(counters.tree, nodes), _Fit(nodes)
    for row, spec in zip(waiting, specs.read(row.spec_text for row in waiting), strict=True):
        # One that cannot be read waits for its request to be mended, whatever a quota says.
        if isinstance(spec, JobSpec):
            demand = _demand(row, spec.resources, sizes)
            refusal = counters.tree.refuse(demand, jobs=0)
            why = refusal.sentence if refusal else models.missing(demand, spec.resources)
            why = why or fit.missing(demand, spec.resources)
            if why:
                yield row.pk, why


class _Models:
    """Whether enough nodes have GPUs that quotas allow. Equal requests are looked at once."""

    def __init__(self, tree: QuotaTree, nodes: Sequence[Node]) -> None:
        self._tree, self._nodes = tree, nodes
        self._known: dict[tuple[object, ...], bool] = {}

    def missing(self, demand: Demand, asked: Resources) -> str:
        """Why a request can never start; empty where it can."""
        models = self._tree.allowed(Limited.GPU_MODELS, demand.project_id, demand.band)
        about = (asked, demand.partition, models)
        if about not in self._known:
            self._known[about] = leave_too_few(asked, self._nodes, demand.partition, models)
        if models is None or not self._known[about]:
            return ""
        return models_missing(models, demand.partition).detail


class _Fit:
    """Whether enough nodes could hold a request when they are empty. Equal ones are looked at
    once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._known: dict[tuple[Resources, str], str] = {}

    def missing(self, demand: Demand, asked: Resources) -> str:
        """Why not; empty where they could, or the partition has none yet."""
        about = (asked, demand.partition)
        if about not in self._known:
            there = any(node.partition == demand.partition for node in self._nodes)
            found = no_such_nodes(asked, self._nodes, demand.partition) if there else None
            self._known[about] = found.detail if found else ""
        return self._known[about]


def _demand(row: _Asked, asked: Resources, sizes: Sizes) -> Demand:
    return Demand(
        job_id=row.pk,
        project_id=row.project_id,
        user_id=row.owner_id,
        band=Band(row.band),
        gpus=sizes.asked(row.partition__name, asked),
        walltime_s=row.walltime_s,
        partition=row.partition__name,
        gpu_model=asked.gpu_model,
    )


def _parts(projects: Iterable[Project], members: Iterable[Member]) -> Iterator[tuple[Whose, Part]]:
    whole: dict[int | None, int] = {}
    projects, members = list(projects), list(members)
    for project in projects:
        whole[project.parent_id] = whole.get(project.parent_id, 0) + project.shares
    for member in members:
        whole[member.project_id] = whole.get(member.project_id, 0) + member.shares
    names = {project.id: project.name for project in projects}
    for project in projects:
        share = project.shares / (whole[project.parent_id] or 1)
        yield (project.id, None), Part(project.name, share)
    for member in members:
        share = member.shares / (whole[member.project_id] or 1)
        called = f"{member.name} in {names[member.project_id]}"
        yield (member.project_id, member.user_id), Part(called, share)
