"""What was used: charges in full, and sums of them that are quick to read."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q

from jobs.bands import Band
from jobs.scheduler.usage import WEEK_S, Decay, EntryPenalty, Weights
from portal.models.allocation import Allocation
from portal.models.people import Project, User

FROM_0 = MinValueValidator(0)


class GpuModel(models.Model):
    """What a model of GPU costs. One without a row costs `Accounting.gpu_weight`."""

    name = models.CharField(max_length=120, unique=True)
    """In full, as the nodes report it."""
    weight = models.FloatField(default=1.0, validators=[FROM_0])

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Accounting(models.Model):
    """How the lab charges: its only row. Where there is none, the defaults hold."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    gpu_weight = models.FloatField(default=Weights.gpu, validators=[FROM_0])
    cpu_weight = models.FloatField(default=Weights.cpu, validators=[FROM_0])
    memory_gib_weight = models.FloatField(default=Weights.memory_gib, validators=[FROM_0])
    half_life_s = models.FloatField(default=WEEK_S, validators=[MinValueValidator(60)])
    entry_penalty = models.FloatField(
        default=EntryPenalty.share, validators=[FROM_0, MaxValueValidator(1)]
    )
    """The part of a job's walltime that counts as used from its start on."""
    lends = models.BooleanField(default=False)
    """Projects without a parent lend each other what they do not use of their quotas of GPUs."""

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_row_of_accounting")]

    def __str__(self) -> str:
        return "accounting"

    @classmethod
    def current(cls) -> Accounting:
        return cls.objects.first() or cls()

    @classmethod
    def locked(cls) -> Accounting:
        """The row, to be changed: nobody else does until the transaction ends."""
        cls.objects.get_or_create(id=1)
        return cls.objects.select_for_update().get()

    @property
    def decay(self) -> Decay:
        return Decay(self.half_life_s)


class _Account(models.Model):
    """Whose something is: jobs that are alike in this are charged together."""

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    band = models.CharField(max_length=16, choices=[(band, band) for band in Band])

    class Meta:
        abstract = True


class _Amount(models.Model):
    """Some use of GPUs of one model, or of none of them."""

    gpu_model = models.CharField(max_length=120, blank=True)
    gpu_seconds = models.FloatField()
    """As they passed; a share of a GPU is a part of one."""
    weighted = models.FloatField()
    """Weighted GPU-seconds (`jobs.scheduler.usage.billing`), not decayed."""

    class Meta:
        abstract = True


class Charge(_Account, _Amount):
    """What an allocation held from one moment to another, of one day in the lab's time zone.

    It is made longer as the allocation goes on, so that there is one a day.
    """

    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, related_name="charges")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["allocation", "gpu_model", "starts_at"], name="charged_once"
            ),
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="charge_ends_after_it_starts"
            ),
        ]
        indexes = [models.Index(fields=["starts_at"], name="charge_by_start")]

    def __str__(self) -> str:
        return f"{self.allocation} from {self.starts_at:%F %T} to {self.ends_at:%F %T}"


class DailyUsage(_Account, _Amount):
    """The sum of a day's charges: whatever is asked of months is asked of these few rows."""

    day = models.DateTimeField()
    """When it began, in the lab's time zone."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["day", "project", "user", "band", "gpu_model"], name="one_sum_per_day"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project} on {self.day:%F}"


class UsageBalance(_Account):
    """The sum of all charges, each faded since: what fair share looks at."""

    value = models.FloatField()
    """Weighted GPU-seconds, decayed to the moment `at`."""
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user", "band"], name="one_balance")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"
