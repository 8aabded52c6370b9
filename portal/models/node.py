"""Where: partitions, nodes and their GPUs, with the last look at each."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from jobs.bands import Band
from jobs.rules import MAX_WALLTIME_S
from jobs.scheduler.limits import PARTS_PER_GPU
from jobs.scheduler.priority import PriorityWeights
from jobs.spec import JobSpec
from portal.models.people import User

MAX_SHARDS = 64
WITHIN_WALLTIMES = [MinValueValidator(60), MaxValueValidator(MAX_WALLTIME_S)]
"""In seconds; none is below a minute, as people give them in minutes."""


def check_weights(value: Any) -> None:
    """Raises `ValidationError` for what are no weights of priority."""
    try:
        PriorityWeights(**value)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"These are no weights of priority: {error}.") from error


def check_bands(value: Any) -> None:
    """Raises `ValidationError` for what is no list of bands."""
    if not isinstance(value, list) or not value or any(band not in list(Band) for band in value):
        raise ValidationError(f"Name one or more of {', '.join(Band)}.")


def check_shards(value: int) -> None:
    """Raises `ValidationError` for parts of a GPU that could not be counted exactly."""
    if value > MAX_SHARDS or (value and PARTS_PER_GPU % value):
        raise ValidationError("A GPU can be divided into 1 to 20 parts, or 24, 25, 32, 48 or 64.")


class Partition(models.Model):
    """A named set of nodes that jobs ask for, as in Slurm."""

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", "Use letters and digits.")],
    )
    is_default = models.BooleanField(default=False)
    max_walltime_s = models.PositiveIntegerField(null=True, blank=True, validators=WITHIN_WALLTIMES)
    default_walltime_s = models.PositiveIntegerField(
        null=True, blank=True, validators=WITHIN_WALLTIMES
    )
    """Of jobs that name none."""
    default_band = models.CharField(
        max_length=16, choices=[(band, band) for band in Band], default=Band.BATCH
    )
    allowed_bands = models.JSONField(null=True, blank=True, validators=[check_bands])
    """None allows all, and monitoring to administrators only."""
    priority_weights = models.JSONField(default=dict, blank=True, validators=[check_weights])
    """Those of `jobs.scheduler.priority.PriorityWeights` that differ from its defaults."""
    foretold_at = models.DateTimeField(null=True, editable=False)
    """As of when the reasons and estimates of its waiting jobs hold."""

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"],
                condition=models.Q(is_default=True),
                name="one_default_partition",
            )
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raises `ValidationError`, by field, where one setting denies another."""
        longest, usual = self.max_walltime_s, self.default_walltime_s
        if longest and usual and usual > longest:
            raise ValidationError({"default_walltime_s": "It is longer than the longest."})
        if self.allowed_bands is None:
            return
        # Django leaves out the validators of what is empty.
        if not self.allowed_bands:
            raise ValidationError({"allowed_bands": "Name one or more, or allow all."})
        if self.default_band not in self.allowed_bands:
            raise ValidationError({"default_band": f"{self.default_band} is not allowed here."})

    def bands_for(self, user: User) -> list[Band]:
        """Those in which this user may ask for jobs here, highest first."""
        if self.allowed_bands is not None:
            return [band for band in Band if band in self.allowed_bands]
        return [band for band in Band if band is not Band.MONITORING or user.is_staff]

    @property
    def usual_walltime_s(self) -> int:
        """Of jobs that name none."""
        usual = self.default_walltime_s or JobSpec.walltime_s
        return min(usual, self.max_walltime_s or usual)

    @property
    def weights(self) -> PriorityWeights:
        return PriorityWeights(**self.priority_weights)


ASKED = (
    "name", "transport", "host", "port", "login", "host_key", "jump", "spool", "checkpoint_root",
    "hostname", "health", "health_since", "boot_id", "probed_at", "guards_gpus",
)  # fmt: skip
"""How to reach a node, and what its answer is compared with."""


class PresentNodes(models.Manager["Node"]):
    """Nodes that were not removed."""

    def get_queryset(self) -> models.QuerySet[Node]:
        return super().get_queryset().filter(removed_at=None)

    def to_ask(self, pk: int) -> Node | None:
        """The node, if it is still there, with what is read of it in each look and dispatch."""
        return self.filter(pk=pk).only(*ASKED).first()


class Node(models.Model):
    """A machine that runs jobs: how to reach it, what it has, how it was when last seen."""

    class Transport(models.TextChoices):
        SSH = "ssh", "over SSH"
        LOCAL = "local", "this machine"

    class Sharing(models.TextChoices):
        TIME_SLICING = "time-slicing", "by time slices"
        MPS = "mps", "by CUDA's Multi-Process Service"

    class Health(models.TextChoices):
        NEW = "NEW", "not probed yet"
        UP = "UP", "up"
        UNREACHABLE = "UNREACHABLE", "out of reach"

    name = models.CharField(
        max_length=64,
        validators=[
            RegexValidator(
                r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z",
                "Use letters, digits, '.', '_' and '-', beginning with a letter or digit.",
            )
        ],
    )
    partition = models.ForeignKey(Partition, on_delete=models.PROTECT, related_name="nodes")
    simulated = models.BooleanField(default=False)
    """One of the practice lab's; said so on every page."""

    transport = models.CharField(max_length=8, choices=Transport, default=Transport.SSH)
    host = models.CharField(max_length=255, blank=True)
    port = models.PositiveIntegerField(
        default=22, validators=[MinValueValidator(1), MaxValueValidator(65535)]
    )
    login = models.CharField(max_length=64, blank=True)
    """The account jobs run as."""
    host_key = models.TextField(blank=True)
    """The pinned key: `ssh-ed25519 AAAA...`."""
    jump = models.JSONField(default=list, blank=True)
    """Bastions from here to there, each {host, port, user, host_key}."""
    spool = models.CharField(max_length=255, default="~/.carrel")
    """Where runs and their logs lie on the node."""
    checkpoint_root = models.CharField(max_length=255, default="~/.carrel/checkpoints")
    """Where jobs' checkpoint directories are made, best on storage that all nodes see."""

    health = models.CharField(max_length=16, choices=Health, default=Health.NEW)
    health_since = models.DateTimeField(null=True)
    problem = models.TextField(blank=True)
    """Why it is not UP, with what to do."""
    missed = models.PositiveIntegerField(default=0)
    """Looks in a row that brought no answer."""
    drained = models.BooleanField(default=False)
    drain_reason = models.CharField(max_length=200, blank=True)

    hostname = models.CharField(max_length=255, blank=True)
    os = models.CharField(max_length=200, blank=True)
    python = models.CharField(max_length=32, blank=True)
    driver = models.CharField(max_length=64, blank=True)
    cpus = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    features = models.JSONField(default=list, blank=True)
    topology = models.TextField(blank=True)
    switches = models.JSONField(default=list, blank=True)
    """The names of the switches above it, the nearest first."""
    sharing = models.CharField(max_length=16, choices=Sharing, blank=True)
    """How several jobs use one of its GPUs; empty where an admin has not allowed it."""
    mounts = models.JSONField(default=list, blank=True)
    """Paths on which something must be mounted there."""
    check_program = models.CharField(max_length=255, blank=True)
    """An administrator's own program there that says whether it is well."""
    guards_gpus = models.BooleanField(default=False)
    """No job is started on a GPU that processes of no job use."""
    notes = models.JSONField(default=list, blank=True)
    """What the last probe or look could not read, in plain words."""
    boot_id = models.CharField(max_length=64, blank=True)
    probed_at = models.DateTimeField(null=True)
    clock = models.FloatField(null=True)
    clock_boot_id = models.CharField(max_length=64, blank=True)
    """What its own clock showed in a late answer: seconds since that boot, suspends included."""
    lease_until = models.FloatField(default=0)
    lease_boot_id = models.CharField(max_length=64, blank=True)
    """Until when, by that clock, it was ever granted a lease."""

    seen_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    """The last full look, answered or not; looks at the runs alone do not count."""
    load1 = models.FloatField(null=True)
    memory_available_mib = models.PositiveIntegerField(null=True)
    disk_total_mib = models.PositiveBigIntegerField(null=True)
    disk_free_mib = models.PositiveBigIntegerField(null=True)

    removed_at = models.DateTimeField(null=True)
    """Removed nodes stay in the table, as past jobs point to them."""

    objects = PresentNodes()
    all_objects = models.Manager["Node"]()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(removed_at=None),
                name="one_node_per_name",
                violation_error_message="A node of this name exists already.",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def unavailable(self) -> str:
        """Why no job may start here now; empty when one may."""
        if self.drained:
            return f"drained: {self.drain_reason}" if self.drain_reason else "drained"
        if self.health != self.Health.UP:
            return self.get_health_display()
        return "" if self.probed_at else "not probed since its restart"


class Gpu(models.Model):
    """One GPU of a node, with its last sample (None: the card does not tell)."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=80, unique=True)
    index = models.PositiveIntegerField()
    model = models.CharField(max_length=120)
    memory_mib = models.PositiveIntegerField()
    pci_bus_id = models.CharField(max_length=32, blank=True)
    mig_mode = models.BooleanField(default=False)
    shards = models.PositiveSmallIntegerField(default=0, validators=[check_shards])
    """Into how many equal parts it is divided for jobs that ask for parts; 0 where not allowed."""
    domain = models.PositiveSmallIntegerField(null=True)
    """GPUs of a node with the same number reach each other over NVLink; None: not known."""
    out_of_service = models.BooleanField(default=False)
    """A finding keeps it from being leased; who has it goes on."""
    present = models.BooleanField(default=True)
    """False once a probe no longer finds it; kept, as past jobs point to it."""

    sampled_at = models.DateTimeField(null=True)
    memory_used_mib = models.PositiveIntegerField(null=True)
    utilization_pct = models.PositiveIntegerField(null=True)
    temperature_c = models.IntegerField(null=True)
    power_w = models.FloatField(null=True)
    processes = models.JSONField(default=list, blank=True)

    class Meta:
        ordering = ["node", "index"]

    def __str__(self) -> str:
        return f"{self.node} GPU {self.index}"

    @property
    def shares(self) -> range:
        """What can be leased of it; all of them by who holds it as a whole."""
        return range(self.shards or 1)
