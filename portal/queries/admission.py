"""What quotas say of a request before it is taken in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jobs.bands import Band
from jobs.rules import SpecError
from jobs.scheduler.counters import Counters
from jobs.scheduler.limits import Demand, Usage
from jobs.scheduler.quota import QuotaTree
from jobs.spec import JobSpec
from portal.models import Partition, Project, Quota, User
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
        return SpecError(refusal.field, refusal.sentence) if refusal else None

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
        if not Quota.objects.filter(jobs_pending__isnull=False).exists():
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
