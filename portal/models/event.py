"""What happened, to whom, by whom: rows that are only ever added."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Event(models.Model):
    """One thing that happened to a job, a node or a project. `actor` is None for Carrel itself."""

    at = models.DateTimeField()
    job = models.ForeignKey("Job", null=True, on_delete=models.CASCADE, related_name="events")
    node = models.ForeignKey("Node", null=True, on_delete=models.SET_NULL, related_name="events")
    project = models.ForeignKey(
        "Project", null=True, on_delete=models.SET_NULL, related_name="events"
    )
    kind = models.CharField(max_length=32)
    """`state` for a move of the state machine, else a verb: `submitted`, `drained`, ..."""
    old = models.CharField(max_length=32, blank=True)
    new = models.CharField(max_length=32, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    detail = models.TextField(blank=True)
    changes = models.JSONField(null=True)
    """What was changed: by the name of each field, what it was and what it became."""
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.at:%F %T} {self.kind} {self.old} {self.new}".strip()
