"""Nodes set aside by an admin: for some people for a time, or for nobody, to work on them."""

from __future__ import annotations

from django.db import models

from portal.models.node import Node
from portal.models.people import Project, User


class Reservation(models.Model):
    """Only jobs of its projects, with all below them, and of its users may run on its nodes while
    it lasts.

    One that names neither is for maintenance: no job may overlap it.
    """

    name = models.CharField(max_length=64, unique=True)
    reason = models.CharField(max_length=200, blank=True)
    nodes = models.ManyToManyField(Node, related_name="reservations")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    projects = models.ManyToManyField(Project, blank=True, related_name="reservations")
    users = models.ManyToManyField(User, blank=True, related_name="reservations")

    class Meta:
        ordering = ["starts_at", "name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")),
                name="reservation_ends_after_it_starts",
                violation_error_message="It must end after it starts.",
            )
        ]
        indexes = [models.Index(fields=["ends_at"], name="reservation_by_end")]

    def __str__(self) -> str:
        return self.name
