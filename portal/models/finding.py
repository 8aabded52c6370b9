"""What is wrong with nodes and GPUs, and what was looked at to find it."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from jobs.nodes.kinds import Does, Kind, Severity, kind
from portal.models.node import Gpu, Node


class Finding(models.Model):
    """One thing that is, or was, wrong with a node or one of its GPUs."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="findings")
    gpu = models.ForeignKey(Gpu, null=True, on_delete=models.CASCADE, related_name="findings")
    """None: of the node as a whole."""
    kind = models.CharField(max_length=32)
    """One of `jobs.nodes.kinds`."""
    severity = models.CharField(max_length=16, choices=[(one.value, one.value) for one in Severity])
    does = models.CharField(max_length=16, choices=[(one.value, one.value) for one in Does])
    text = models.TextField(blank=True)
    """What was seen, as last told."""
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    absent = models.PositiveIntegerField(default=0)
    """Looks in a row that did not find it."""
    drained = models.BooleanField(default=False)
    """The node is drained for this, alone or among others: with the last of them that is over."""
    cleared_at = models.DateTimeField(null=True)
    cleared_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    """None: it was over by itself."""

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["gpu", "kind"],
                condition=Q(cleared_at=None, gpu__isnull=False),
                name="one_open_finding_per_gpu_and_kind",
            ),
            models.UniqueConstraint(
                fields=["node", "kind"],
                condition=Q(cleared_at=None, gpu=None),
                name="one_open_finding_per_node_and_kind",
            ),
            models.CheckConstraint(
                condition=Q(cleared_at=None) | Q(drained=False), name="drained_by_open_findings"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} on {self.gpu or self.node}"

    @property
    def meaning(self) -> Kind:
        """Its kind, with its title and what to do."""
        return kind(self.kind)

    @property
    def is_node_out(self) -> bool:
        return self.does == Does.DRAIN_NODE

    @property
    def is_gpu_out(self) -> bool:
        return self.does == Does.DRAIN_GPU


class Checkup(models.Model):
    """What is remembered of a node from one look at its health to the next."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, related_name="checkup")
    asked_at = models.DateTimeField(null=True)
    """The last look, answered or not."""
    answered_at = models.DateTimeField(null=True)
    log_boot_id = models.CharField(max_length=64, blank=True)
    log_stamp_us = models.BigIntegerField(default=0)
    """Up to where its kernel's log is known."""
    counters = models.JSONField(default=dict, blank=True)
    """By the UUIDs of cards, how many uncorrectable memory errors they had counted."""
    suspects = models.JSONField(default=list, blank=True)
    """What must last before it is a finding: [GPU, kind, since] each."""
    limits = models.JSONField(default=list, blank=True)
    """What cannot be seen there, in plain words."""

    def __str__(self) -> str:
        return f"checkup of {self.node}"
