"""Changes that an administrator had tried on the jobs of a past time."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from portal.models.people import User


class WhatIf(models.Model):
    """One trial: what was asked, how far it is, and what came of it."""

    class State(models.TextChoices):
        WAITING = "WAITING", "waiting for its turn"
        RUNNING = "RUNNING", "running"
        DONE = "DONE", "done"
        FAILED = "FAILED", "failed"
        CANCELLED = "CANCELLED", "cancelled"

    UNFINISHED = (State.WAITING, State.RUNNING)

    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    since = models.DateTimeField()
    until = models.DateTimeField()
    """Jobs submitted from the one on and before the other."""
    changes = models.JSONField()
    """`jobs.scheduler.simulate.changes.Changes` as JSON."""
    said = models.JSONField(default=list)
    """The same for people: lists of what, how it was when it was asked, and how it would be."""

    state = models.CharField(max_length=16, choices=State, default=State.WAITING)
    progress = models.FloatField(default=0)
    """The part of the work that is done, from 0 to 1."""
    begun_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    """When its process last said that it is at work."""
    ended_at = models.DateTimeField(null=True)
    detail = models.TextField(blank=True)
    """Why it failed, or who cancelled it."""
    result = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["asked_by"],
                condition=Q(state__in=["WAITING", "RUNNING"]),
                name="one_what_if_per_administrator",
            ),
            # They take a processor for minutes: what schedules jobs needs the others.
            models.UniqueConstraint(
                fields=["state"], condition=Q(state="RUNNING"), name="one_what_if_at_a_time"
            ),
        ]

    def __str__(self) -> str:
        return f"what if {self.pk}"

    @property
    def unfinished(self) -> bool:
        return self.state in self.UNFINISHED
