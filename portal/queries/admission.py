"""What quotas say of a request before it is taken in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from jobs.bands import Band
from jobs.rules import SpecError
from jobs.scheduler.counters import Counters
from jobs.scheduler.fit import leave_too_few
from jobs.scheduler.limits import Demand, Limited, Usage
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.snapshot import Node
from jobs.scheduler.words import listed
from jobs.spec import JobSpec, Resources
from portal.models import Partition, Project, User
from portal.queries import accounts, machines


class Grounds:
    """What requests are judged by, each read when it is first asked for: for several of the same
    moment."""

    @cached_property
    def tree(self) -> QuotaTree:
        return QuotaTree(accounts.projects(), accounts.quotas(), accounts.lends())

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """As if nothing ran."""
        return machines.empty()


@dataclass(frozen=True)
class Admission:
    """A request, or an array of them, that somebody makes in a project and partition."""

    owner: User
    project: Project
    partition: Partition
    spec: JobSpec
    waits: bool = False
    """It is a job that waits in this project and band already."""

    @property
    def jobs(self) -> int:
        """How many more would wait."""
        if self.waits:
            return 0
        return len(self.spec.array.indices) if self.spec.array else 1

    @property
    def band(self) -> Band:
        return self.spec.band or Band(self.partition.default_band)

    def never(self, grounds: Grounds) -> SpecError | None:
        """Why no quota would ever let it start; None where all could."""
        refusal = grounds.tree.refuse(self._demand(grounds), self.jobs)
        return SpecError(refusal.field, refusal.sentence) if refusal else self._no_models(grounds)

    def _no_models(self, grounds: Grounds) -> SpecError | None:
        """Whether too few nodes could hold it with GPUs of the models that its quotas allow."""
        asked, where = self.spec.resources, self.partition.name
        models = grounds.tree.allowed(Limited.GPU_MODELS, self.project.pk, self.band)
        if models is None or not leave_too_few(asked, grounds.nodes, where, models):
            return None
        return SpecError(
            _at_fault(asked),
            f"quotas of project {self.project} allow GPUs of these models only: "
            f"{listed(sorted(models))}; partition {where} has too few nodes that could hold it "
            "with those",
        )

    def too_many(self, now: datetime) -> SpecError | None:
        """Why as many jobs as may wait do so already; None where more may."""
        if self.waits:
            return None
        quotas = accounts.quotas()
        if all(quota.limits.jobs_pending is None for quota in quotas):
            return None
        usage = Usage(now, pending=accounts.pending())
        counters = Counters(accounts.projects(), quotas, usage, accounts.lends())
        group = counters.group(self.project.pk, self.owner.pk, self.band)
        excess = counters.why_not_submit(group, self.jobs)
        field = "array" if self.jobs > 1 else "project"
        return SpecError(field, " ".join(over.sentence for over in excess)) if excess else None

    def counted_in(self) -> list[int]:
        """The projects whose quotas its waiting jobs may count against; most labs have none."""
        if all(quota.limits.jobs_pending is None for quota in accounts.quotas()):
            return []
        line = QuotaTree(accounts.projects(), ()).line(self.project.pk)
        return [project.id for project in line]

    def _demand(self, grounds: Grounds) -> Demand:
        asked, where = self.spec.resources, self.partition.name
        return Demand(
            job_id=0,
            project_id=self.project.pk,
            user_id=self.owner.pk,
            band=self.band,
            gpus=machines.gpus_asked(asked, where, lambda: grounds.nodes),
            walltime_s=self.spec.walltime_s,
            partition=where,
            gpu_model=asked.gpu_model,
        )


def _at_fault(asked: Resources) -> str:
    """By what it wants GPUs at all."""
    if asked.gpu_model:
        return "gpu_model"
    if asked.shards:
        return "shards"
    return "gpus_per_node" if asked.gpus_per_node else "exclusive"
