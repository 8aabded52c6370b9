"""What quotas say of a request before it is taken in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.bands import Band
from jobs.rules import SpecError
from jobs.scheduler.counters import Counters
from jobs.scheduler.fit import narrowed, refuse
from jobs.scheduler.limits import Demand, Limited, Usage
from jobs.scheduler.quota import QuotaTree
from jobs.scheduler.words import listed
from jobs.spec import JobSpec
from portal.models import Partition, Project, User
from portal.queries import accounts, machines


@dataclass(frozen=True)
class Admission:
    """A request, or an array of them, that somebody makes in a project and partition."""

    owner: User
    project: Project
    partition: Partition
    spec: JobSpec

    @property
    def jobs(self) -> int:
        return len(self.spec.array.indices) if self.spec.array else 1

    @property
    def band(self) -> Band:
        return self.spec.band or Band(self.partition.default_band)

    def never(self) -> SpecError | None:
        """Why no quota would ever let it start; None where all could."""
        tree = QuotaTree(accounts.projects(), accounts.quotas(), accounts.lends())
        refusal = tree.refuse(self._demand(), self.jobs)
        if refusal:
            return SpecError(refusal.field, refusal.sentence)
        return self._without_models(tree.allowed(Limited.GPU_MODELS, self.project.pk, self.band))

    def _without_models(self, models: frozenset[str] | None) -> SpecError | None:
        """Whether too few nodes could hold it with GPUs of the models that its quotas allow."""
        asked, nodes, where = self.spec.resources, machines.empty(), self.partition.name
        if models is None or refuse(asked, nodes, where) is not None:
            return None
        if refuse(asked, [narrowed(node, models) for node in nodes], where) is None:
            return None
        field = "gpu_model" if asked.gpu_model else "shards" if asked.shards else "gpus_per_node"
        return SpecError(
            field,
            f"quotas of project {self.project} allow GPUs of these models only: "
            f"{listed(sorted(models))}; partition {where} has too few nodes that could hold it "
            "with those",
        )

    def too_many(self, now: datetime) -> SpecError | None:
        """Why as many jobs as may wait do so already; None where more may."""
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

    def _demand(self) -> Demand:
        asked = self.spec.resources
        return Demand(
            job_id=0,
            project_id=self.project.pk,
            user_id=self.owner.pk,
            band=self.band,
            gpus=machines.gpus_asked(asked, self.partition.name),
            walltime_s=self.spec.walltime_s,
            partition=self.partition.name,
            gpu_model=asked.gpu_model,
        )
