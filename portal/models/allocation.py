"""What runs: a job's attempts, their allocations on nodes, the leases on GPUs."""

from __future__ import annotations

from django.db import models

from portal.models.job import Job
from portal.models.node import Gpu


class Attempt(models.Model):
    """One try at running a job. Numbers only grow."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=16, blank=True)
    """The state it brought the job to."""
    detail = models.TextField(blank=True)
    master_port = models.PositiveIntegerField(default=0)
    preemptor = models.ForeignKey(
        Job, null=True, on_delete=models.SET_NULL, related_name="preempted"
    )
    """For which job it was told to make room."""
    preempted_by = models.CharField(max_length=300, blank=True)
    """The preemptor in words: `job 17 (production)`."""
    leaves_by = models.DateTimeField(null=True)
    """When it will be gone at the latest, where it was told to make room."""

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="one_attempt_per_number"),
            models.UniqueConstraint(
                fields=["job"],
                condition=models.Q(ended_at=None),
                name="one_open_attempt_per_job",
            ),
        ]
        indexes = [models.Index(fields=["ended_at"], name="attempt_by_end")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job}"


class Allocation(models.Model):
    """An attempt's part on one node: what it may use there, and the run that uses it."""

    class Phase(models.TextChoices):
        PLANNED = "planned", "to be started"
        LAUNCHING = "launching", "sent to the node"
        RUNNING = "running", "running"
        ENDED = "ended", "ended"
        VOID = "void", "never started"

    class Fence(models.TextChoices):
        NEVER = "never", "it waits for its node"
        LATER = "later", "it waits for its node until it has a complete checkpoint"
        UP = "up", "it ends with its node's lease, and goes on elsewhere"

    OPEN = (Phase.PLANNED, Phase.LAUNCHING, Phase.RUNNING)

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="allocations")
    node = models.ForeignKey("Node", on_delete=models.PROTECT, related_name="allocations")
    rank = models.PositiveIntegerField()
    key = models.CharField(max_length=64, unique=True)
    """The run's name on the node, never used twice."""
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    exclusive = models.BooleanField(default=False)

    charged_until = models.DateTimeField()
    """What it held is in the ledger up to here; at first when it began to hold it."""
    released_at = models.DateTimeField(null=True)
    """When it gave back what it held: its processes are known to be gone."""
    charged = models.BooleanField(default=False)
    """All that it ever held is in the ledger."""

    phase = models.CharField(max_length=16, choices=Phase, default=Phase.PLANNED)
    fence = models.CharField(max_length=8, choices=Fence, default=Fence.NEVER)
    """What becomes of it when its node is out of reach. UP is written down before its launch is
    sent, or after its guards have said so."""
    sent_at = models.DateTimeField(null=True)
    """When its launch was last sent; the answer may have been lost."""
    tries = models.PositiveIntegerField(default=0)
    stop_wanted_at = models.DateTimeField(null=True)
    stop_sent_at = models.DateTimeField(null=True)
    stop_signal = models.PositiveSmallIntegerField(null=True)
    stop_grace_s = models.PositiveIntegerField(null=True)
    """How it is to be stopped; None: the usual way."""
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cause = models.CharField(max_length=16, blank=True)
    exit_code = models.IntegerField(null=True)
    signal = models.PositiveIntegerField(null=True)
    message = models.TextField(blank=True)
    log_bytes = models.BigIntegerField(default=0)
    log_kept = models.BooleanField(default=False)
    """Its whole log lies in the portal's archive."""
    tidied = models.BooleanField(default=False)
    """Its directory was removed from the node."""

    class Meta:
        ordering = ["rank"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "rank"], name="one_allocation_per_rank"),
            models.UniqueConstraint(fields=["attempt", "node"], name="one_allocation_per_node"),
        ]
        indexes = [
            models.Index(fields=["node", "phase"], name="allocation_by_node"),
            models.Index(
                fields=["charged_until"],
                condition=models.Q(charged=False),
                name="allocation_to_charge",
            ),
        ]

    def __str__(self) -> str:
        return self.key

    @property
    def gpus(self) -> list[Gpu]:
        """Those it holds or has held, each once, in the order of its leases as they were read."""
        return list(dict.fromkeys(lease.gpu for lease in self.leases.all()))


class Lease(models.Model):
    """A share of a GPU held by an allocation, from the decision until every process is known to be
    gone.

    A GPU that is divided into four has the shares 0 to 3, one that is not has the share 0. Who
    holds it as a whole has a lease on each of its shares, so that the database lets nobody in
    beside.
    """

    gpu = models.ForeignKey(Gpu, on_delete=models.PROTECT, related_name="leases")
    share = models.PositiveSmallIntegerField(default=0)
    of = models.PositiveSmallIntegerField(default=1)
    """Into how many shares the GPU was divided: a lease is this part of one."""
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="leases")
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # The promise itself: no share of a GPU is leased twice.
            models.UniqueConstraint(
                fields=["gpu", "share"],
                condition=models.Q(released_at=None),
                name="one_lease_per_share",
            ),
            models.UniqueConstraint(
                fields=["gpu", "share", "allocation"], name="one_lease_per_allocation"
            ),
            models.CheckConstraint(
                condition=models.Q(share__lt=models.F("of")), name="share_of_those_there_are"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gpu} for {self.allocation}"
