"""What an admin decides about deciding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils.deconstruct import deconstructible

from jobs.bands import Band
from jobs.scheduler.policy import BY_DEFAULT, Backfill, Order, Policy
from jobs.scheduler.words import sentence


@deconstructible
class AllowedInPolicy:
    """Raises `ValidationError` for what a `Policy` does not take as its field of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, value: Any) -> None:
        try:
            replace(Policy(), **{self.name: _read(self.name, value)})
        except ValueError as error:
            raise ValidationError(sentence(str(error))) from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllowedInPolicy) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]


def usual_preempts() -> dict[str, list[str]]:
    """Of a new lab."""
    return {
        band.value: [victim.value for victim in Band if victim in BY_DEFAULT[band]]
        for band in Band
        if band in BY_DEFAULT
    }


class SchedulingPolicy(models.Model):
    """How jobs are scheduled: its only row. Where there is none, the defaults hold."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    order = models.CharField(
        max_length=16, choices=[(order, order) for order in Order], default=Policy.order
    )
    backfill = models.CharField(
        max_length=16, choices=[(way, way) for way in Backfill], default=Policy.backfill
    )
    reservations = models.PositiveIntegerField(
        default=Policy.reservations, validators=[AllowedInPolicy("reservations")]
    )
    """How many waiting jobs of a partition are promised a time."""
    preempts = models.JSONField(
        default=usual_preempts, blank=True, validators=[AllowedInPolicy("preempts")]
    )
    """By band, whose jobs its jobs may preempt."""
    grace_s = models.FloatField(default=Policy.grace_s, validators=[AllowedInPolicy("grace_s")])
    min_run_s = models.FloatField(
        default=Policy.min_run_s, validators=[AllowedInPolicy("min_run_s")]
    )
    max_preemptions = models.PositiveIntegerField(
        default=Policy.max_preemptions, validators=[AllowedInPolicy("max_preemptions")]
    )

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_row_of_policy")]

    def __str__(self) -> str:
        return "scheduling policy"

    @classmethod
    def current(cls) -> SchedulingPolicy:
        return cls.objects.first() or cls()

    def clean(self) -> None:
        """Raises `ValidationError`, by field, for what the validators of fields do not see."""
        try:
            _by_band(self.preempts)
        except ValueError as error:
            raise ValidationError({"preempts": f"{error}."}) from error

    @property
    def policy(self) -> Policy:
        """As the scheduler takes it."""
        return Policy(
            order=Order(self.order),
            backfill=Backfill(self.backfill),
            reservations=self.reservations,
            preempts=_by_band(self.preempts),
            grace_s=self.grace_s,
            min_run_s=self.min_run_s,
            max_preemptions=self.max_preemptions,
        )


def _read(name: str, value: Any) -> Any:
    return _by_band(value) if name == "preempts" else value


def _by_band(value: Any) -> dict[Band, frozenset[Band]]:
    """Raises `ValueError` for what does not say that of bands."""
    lists = isinstance(value, dict) and all(isinstance(names, list) for names in value.values())
    if not lists:
        raise ValueError("give a list of bands for each band")
    return {Band(band): frozenset(map(Band, victims)) for band, victims in value.items()}
