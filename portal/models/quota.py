"""How much a project, and each of its users, may have."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from jobs.bands import Band
from jobs.scheduler.limits import MAX_LIMIT, Scope

MAX_DAYS = 3660
AMOUNT = [MinValueValidator(0), MaxValueValidator(MAX_LIMIT)]
LIMITS = (
    "gpus", "gpu_hours", "jobs_running", "jobs_pending", "walltime_s", "partitions", "gpu_models",
)  # fmt: skip
"""The columns that are limits; None is no limit."""


def check_names(value: Any) -> None:
    """Raises `ValidationError` for what is no list of names."""
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise ValidationError("Give a list of names.")


class Quota(models.Model):
    """Limits of a project with all below it, or of each user in them. None is no limit."""

    class PeriodKind(models.TextChoices):
        MONTH = "month", "calendar month"
        ROLLING = "rolling", "rolling"

    project = models.ForeignKey("Project", on_delete=models.CASCADE, related_name="quotas")
    scope = models.CharField(
        max_length=8, choices=[(scope, scope) for scope in Scope], default=Scope.PROJECT
    )
    band = models.CharField(
        max_length=16, choices=[("", "all"), *((band, band) for band in Band)], blank=True
    )
    """Empty: all but best-effort, together."""

    gpus = models.FloatField(null=True, blank=True, validators=AMOUNT)
    gpu_hours = models.FloatField(null=True, blank=True, validators=AMOUNT)
    period = models.CharField(
        max_length=8, choices=PeriodKind, default=PeriodKind.MONTH, blank=True
    )
    """What the GPU-hours are for."""
    period_days = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MAX_DAYS)]
    )
    """Of a rolling period."""
    jobs_running = models.PositiveIntegerField(null=True, blank=True)
    jobs_pending = models.PositiveIntegerField(null=True, blank=True)
    walltime_s = models.PositiveIntegerField(null=True, blank=True)
    partitions = models.JSONField(null=True, blank=True, validators=[check_names])
    gpu_models = models.JSONField(null=True, blank=True, validators=[check_names])
    """Full names, as the nodes report them."""

    class Meta:
        ordering = ["project", "scope", "band"]
        constraints = [
            models.UniqueConstraint(
                fields=["project", "scope", "band"],
                name="one_quota_per_band",
                violation_error_message="This project has a quota of this scope and band already.",
            ),
            models.CheckConstraint(
                condition=(
                    Q(period="month", period_days=None)
                    | Q(period="rolling", period_days__isnull=False, period_days__gt=0)
                ),
                name="days_of_a_rolling_period",
                violation_error_message="A rolling period has a number of days, a month has none.",
            ),
            models.CheckConstraint(
                condition=~Q(band=Band.BEST_EFFORT)
                | Q(gpus=None, gpu_hours=None, jobs_running=None),
                name="best_effort_counts_against_no_quota",
                violation_error_message="What runs in best-effort counts against no quota: "
                "no GPUs, GPU-hours or running jobs can be limited there.",
            ),
        ]

    def __str__(self) -> str:
        whose = "each user" if self.scope == Scope.USER else "all users"
        return f"{self.project}: {whose}, {self.band or 'all bands'}"
