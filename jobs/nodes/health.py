"""What a node is asked of its health, and what it tells, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HealthAsked:
    """What the shepherd cannot know by itself."""

    log_boot_id: str | None = None
    """Up to which boot and which moment of it the kernel's log is known, the latter in
    microseconds; None: it was never read."""
    log_after_us: int | None = None
    mounts: tuple[str, ...] = ()
    """Paths on which something must be mounted."""
    check: str = ""
    """An administrator's own program."""


@dataclass(frozen=True)
class KernelLog:
    """New lines of the kernel's log about GPUs; `why` in words if it could not be read."""

    stamp_us: int
    """Of its newest line, in microseconds since the boot."""
    lines: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class CardSeen:
    """One card, MIG instances not counted. None: it does not tell."""

    uuid: str
    index: int | None = None
    pci_bus_id: str | None = None
    temperature_c: int | None = None
    margin_c: int | None = None
    """How much hotter it may get before it is slowed down."""
    ecc_uncorrected: int | None = None
    """Errors since the driver was loaded."""
    rows_pending: bool | None = None
    """Memory rows are to be replaced at its next reset."""
    rows_failed: bool | None = None
    """There are no spare rows left."""
    slowed: bool | None = None
    slowed_by_heat: bool | None = None


@dataclass(frozen=True)
class DiskSeen:
    """A file system; `error` where it could not be asked."""

    path: str
    total_mib: int = 0
    free_mib: int = 0
    """For accounts other than root."""
    inodes: int = 0
    """0 where the file system does not count them."""
    inodes_free: int = 0
    error: str = ""


@dataclass(frozen=True)
class MountSeen:
    """A path that must be a mount point; `error` where it could not be looked at."""

    path: str
    mounted: bool = False
    error: str = ""


@dataclass(frozen=True)
class CheckSeen:
    """What an administrator's program came to, and the last line that it printed."""

    well: bool
    said: str = ""


@dataclass(frozen=True)
class HealthSeen:
    """All that one look found."""

    boot_id: str
    at: float
    """The node's clock at the end of the look, in Unix seconds."""
    took_s: float
    kernel_log: KernelLog
    gpus: tuple[CardSeen, ...] | None = None
    """None when the driver did not answer; `driver_problem` says how."""
    driver_problem: str = ""
    disks: tuple[DiskSeen, ...] = ()
    mounts: tuple[MountSeen, ...] = ()
    memory_stalled_pct: float | None = None
    """Of the last minute, in which nothing ran for want of memory."""
    check: CheckSeen | None = None
