"""What was asked for, and where it stands.

`Job.move`, and `move_all` for many at once, are the only places where a job's state changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models, transaction

from jobs import lifecycle
from jobs.bands import Band
from jobs.lifecycle import Reason, State
from jobs.scheduler.snapshot import label
from portal import live
from portal.models.event import Event
from portal.models.prepared import PreparedFor
from portal.models.rows import insert_all, update_each


class Script(models.Model):
    """A script's text, once for all jobs that run it (an array's thousand, say)."""

    digest = models.CharField(max_length=64, unique=True)
    """SHA-256 of the text in UTF-8, hexadecimal."""
    text = models.TextField()

    def __str__(self) -> str:
        return self.digest[:12]


class Job(models.Model):
    """One request and where it stands. An array is one row per index, under one `array_id`."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs"
    )
    project = models.ForeignKey("Project", on_delete=models.PROTECT, related_name="jobs")
    partition = models.ForeignKey("Partition", on_delete=models.PROTECT, related_name="jobs")
    name = models.CharField(max_length=200)
    script = models.ForeignKey(Script, on_delete=models.PROTECT, related_name="jobs")
    spec = models.JSONField()
    """The `jobs.spec.JobSpec` as JSON, less its script."""
    node_count = models.PositiveIntegerField()
    gpus_per_node = models.PositiveIntegerField()
    walltime_s = models.PositiveIntegerField()
    array_id = models.BigIntegerField(null=True)
    """The id of the array's first job."""
    array_index = models.PositiveIntegerField(null=True)
    submission_key = models.CharField(max_length=64, null=True, unique=True)
    """Given with the form, so that two clicks submit once."""
    relaunch_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL)
    resume_from = models.TextField(blank=True)
    """The checkpoint it was told to go on from."""

    state = models.CharField(
        max_length=16, choices=[(state, state) for state in State], default=State.PENDING
    )
    reason = models.CharField(max_length=40, blank=True)
    detail = models.TextField(blank=True)
    """The reason as a sentence."""
    also = models.JSONField(default=list)
    """What else was in its way at the last pass, a sentence each."""
    held = models.BooleanField(default=False)
    held_by_admin = models.BooleanField(default=False)
    """Then only an administrator releases it."""
    held_by_owner = models.BooleanField(default=False)
    """Also beneath an administrator's hold, whose release leaves this."""

    band = models.CharField(
        max_length=16, choices=[(band, band) for band in Band], default=Band.BATCH
    )
    nice = models.SmallIntegerField(default=0)
    """From -1000, to the front, which is for admins, to 1000."""
    eligible_at = models.DateTimeField(null=True)
    """Since when only room and others keep it waiting; None while something else does."""
    waited_before_s = models.FloatField(default=0)
    """What it waited so before; with the time since `eligible_at` that is its age."""
    preemptions = models.PositiveSmallIntegerField(default=0)
    """How often in a row it had to make room for others; a long run ends the row."""
    node_losses = models.PositiveSmallIntegerField(default=0)
    """How often in a row it lost a node; a long run ends the row."""
    claimed_at = models.DateTimeField(null=True)
    """When others were first told to make room for it: until it starts it goes before all. Any move
    ends the claim, and so does a hold."""

    expected_s = models.PositiveIntegerField(null=True)
    """How long it is expected to run; None where there is nothing to tell it from."""
    expected_low_s = models.PositiveIntegerField(null=True)
    expected_high_s = models.PositiveIntegerField(null=True)
    starts_at = models.DateTimeField(null=True)
    """When the last pass expected it to start, and its place in the queue then."""
    starts_low = models.DateTimeField(null=True)
    starts_high = models.DateTimeField(null=True)
    position = models.PositiveIntegerField(null=True)

    cancelled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    cancelled_at = models.DateTimeField(null=True)
    """When somebody asked for its end; the node is told until it is so."""

    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    signal = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["state", "submitted_at", "id"], name="job_by_state"),
            models.Index(fields=["owner", "state", "-id"], name="job_by_owner"),
            models.Index(fields=["project", "state", "-id"], name="job_by_project"),
            models.Index(fields=["-ended_at"], name="job_by_end"),
            models.Index(fields=["owner", "-ended_at"], name="job_by_owner_and_end"),
            models.Index(fields=["project", "-ended_at"], name="job_by_project_and_end"),
            models.Index(
                fields=["array_id", "state", "id"],
                condition=models.Q(array_id__isnull=False),
                name="job_by_array",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(nice__gte=-1000, nice__lte=1000), name="nice_in_bounds"
            ),
            models.CheckConstraint(
                condition=models.Q(held=True) | models.Q(held_by_admin=False),
                name="held_if_held_by_admin",
            ),
            models.CheckConstraint(
                condition=models.Q(held=True) | models.Q(held_by_owner=False),
                name="held_if_held_by_owner",
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.label}"

    @property
    def label(self) -> str:
        """`17`, or `17_3` for index 3 of array 17, as in Slurm."""
        return label(self.pk, self.array_id, self.array_index)

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.node_count * self.gpus_per_node

    @property
    def waiting(self) -> bool:
        return self.state in lifecycle.WAITING

    @property
    def active(self) -> bool:
        return self.state in lifecycle.ACTIVE

    @property
    def ended(self) -> bool:
        return self.state in lifecycle.ENDED

    def move(
        self,
        to: State,
        *,
        now: datetime,
        reason: Reason = Reason.NONE,
        detail: str = "",
        actor: Any = None,
        **changes: Any,
    ) -> bool:
        """Change the state, with other columns in `changes`, and write its Event.

        False, and nothing done, when the job is no longer in the state this object was read in,
        since somebody else was quicker. Raises `jobs.lifecycle.IllegalTransition` for a move the
        table does not have.
        """
        move = Move(self, to, reason, detail, actor, changes)
        with transaction.atomic(savepoint=False):
            return bool(move_all([move], now=now))


@dataclass(frozen=True)
class Move:
    """What is to become of one job: the arguments of `Job.move`."""

    job: Job
    to: State
    reason: Reason = Reason.NONE
    detail: str = ""
    actor: Any = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, Any]:
        return {
            **self.changes, "state": self.to, "reason": self.reason, "detail": self.detail,
            "claimed_at": None,
        }  # fmt: skip

    def event(self, now: datetime) -> Event:
        return Event(
            at=now, job=self.job, kind="state", old=self.job.state, new=self.to,
            reason=self.reason, detail=self.detail, actor=self.actor,
        )  # fmt: skip


_locked = PreparedFor[Any](
    lambda ids: (
        Job.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk", "state")
    )
)


def move_all(moves: Iterable[Move], *, now: datetime) -> list[Job]:
    """`Job.move` for many jobs, each once; those that were moved, in the order of their ids.

    Call it in a transaction: rows are locked, then written by as many statements for a thousand
    as for one.
    """
    wanted = {move.job.pk: move for move in moves}
    for move in wanted.values():
        lifecycle.check(State(move.job.state), move.to)
    if not wanted:
        return []
    done = [wanted[pk] for pk, state in _locked.rows(wanted) if state == wanted[pk].job.state]
    update_each(Job.objects.all(), {move.job.pk: move.columns for move in done})
    insert_all(move.event(now) for move in done)
    for move in done:
        for name, value in move.columns.items():
            setattr(move.job, name, value)
    if done:
        live.changed("jobs", *(f"job-{move.job.pk}" for move in done))
    return [move.job for move in done]
