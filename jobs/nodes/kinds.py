"""The kinds of findings: what each means, what Carrel does about it, and what a person should."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from jobs.nodes.xid import XIDS, Meaning, Remedy

MINUTE = 60.0
TWICE_S = 30.0
"""Seen in two looks in a row, which are a minute apart."""
AGES_S = 24 * 3600.0
"""So long after it was last seen an error of the past counts no more."""
GONE_LOOKS = 3
"""So many looks in a row that do not find it before it counts as gone."""


class Severity(StrEnum):
    """How bad it is."""

    NOTE = "note"
    WARNING = "warning"
    SERIOUS = "serious"


class Does(StrEnum):
    """What Carrel does by itself. Jobs that run are left alone in any case."""

    TELL = "tell"
    DRAIN_GPU = "drain GPU"
    """No further job gets this GPU."""
    DRAIN_NODE = "drain node"


class Ends(StrEnum):
    """When a finding is over."""

    GONE = "gone"
    """When several looks in a row do not find it any more."""
    OLD = "old"
    """When it has not happened again for a day."""
    CLEARED = "cleared"
    """When an administrator says so."""


@dataclass(frozen=True)
class Kind:
    """One kind of finding. `after_s`: it must have been so for that long."""

    title: str
    advice: str
    severity: Severity = Severity.WARNING
    does: Does = Does.TELL
    ends: Ends = Ends.GONE
    after_s: float = 0.0
    hits_jobs: bool = False
    """Told also to the jobs that have the GPU, which go on."""


_RESET = (
    "When no job uses the GPU any more, reset it (nvidia-smi --gpu-reset -i INDEX) or restart the "
    "machine, then clear this. If it comes back, have the card replaced."
)
_RESTART = (
    "Restart the machine when no job runs on it any more, then clear this. If it comes back, check "
    "the card's seat, power and cooling, or have it replaced."
)
KINDS: dict[str, Kind] = {
    "driver": Kind(
        "The GPU driver does not answer",
        "Look at dmesg on the machine. A driver that was updated while it was loaded, or one that "
        "hangs, needs the machine restarted.",
        Severity.SERIOUS, Does.DRAIN_NODE, after_s=TWICE_S,
    ),
    "gpu-missing": Kind(
        "The GPU is not there any more",
        "If it was taken out, probe the node again. Otherwise look at dmesg and restart the "
        "machine.",
        Severity.SERIOUS, Does.DRAIN_GPU, hits_jobs=True,
    ),
    "ecc": Kind(
        "Errors of the GPU's memory could not be corrected",
        _RESET, Severity.SERIOUS, Does.DRAIN_GPU, Ends.CLEARED, hits_jobs=True,
    ),
    "rows-pending": Kind(
        "Rows of the GPU's memory are to be replaced at its next reset",
        "Reset the GPU (nvidia-smi --gpu-reset -i INDEX) or restart the machine at the next "
        "occasion; until then jobs can use it.",
    ),
    "rows-failed": Kind(
        "The GPU has no spare rows of memory left",
        "Have the card replaced.",
        Severity.SERIOUS, Does.DRAIN_GPU,
    ),
    "hot": Kind(
        "The GPU is about to be slowed down for its heat",
        "Check fans, air flow and the temperature of the room.",
        after_s=2 * MINUTE,
    ),
    "slowed": Kind(
        "The GPU is slowed down by its hardware",
        "Check cooling and power supply. Jobs on it run slower than they should, and with them "
        "all others of their gang.",
        after_s=5 * MINUTE,
    ),
    "disk-full": Kind(
        "The disk is full",
        "Make room there: jobs could not write their logs.",
        Severity.SERIOUS, Does.DRAIN_NODE,
    ),
    "disk-filling": Kind(
        "The disk is nearly full", "Make room there before jobs fail for want of it.",
    ),
    "inodes": Kind(
        "The disk has no room for further files",
        "Remove files there, of which there are too many rather than too large ones.",
        Severity.SERIOUS, Does.DRAIN_NODE,
    ),
    "disk-hangs": Kind(
        "The disk does not answer",
        "Look at dmesg on the machine, and at the file server if it is on one.",
        Severity.SERIOUS, Does.DRAIN_NODE, after_s=TWICE_S,
    ),
    "memory": Kind(
        "The machine stands still for want of memory",
        "Look for what uses it up (ps aux --sort -rss). Jobs that ask for --mem are held to it.",
        after_s=2 * MINUTE,
    ),
    "mount": Kind(
        "A required mount is missing",
        "Mount it, or look why it does not answer. Which ones are required is set on this page.",
        Severity.SERIOUS, Does.DRAIN_NODE,
    ),
    "clock": Kind(
        "The machine's clock is wrong",
        "Have it kept right by NTP (timedatectl shows how it is). Jobs of several nodes and files "
        "on shared storage are told apart by their times.",
        after_s=TWICE_S,
    ),
    "check": Kind(
        "The lab's own check fails",
        "Run the program on the machine to see all that it says. Which one it is is set on this "
        "page.",
        Severity.SERIOUS, Does.DRAIN_NODE,
    ),
    "stray": Kind(
        "A process of no job uses the GPU",
        "Ask its owner to end it, or to submit it as a job: who leases the GPU finds its memory "
        "taken.",
        after_s=10 * MINUTE,
    ),
    "occupied": Kind(
        "A process of no job has memory of the GPU",
        "End it, or have its owner submit it as a job. Jobs get the GPU again when it is gone.",
        Severity.SERIOUS, Does.DRAIN_GPU,
    ),
    "unused": Kind(
        "The GPU is leased and not used",
        "Ask the job's owner whether it still needs the GPU.",
        Severity.NOTE, after_s=60 * MINUTE,
    ),
    "quarantine": Kind(
        "Jobs of several users failed here right at their start",
        "Submit a small job to this node alone after you have looked at its log and dmesg, then "
        "clear this.",
        Severity.SERIOUS, Does.DRAIN_NODE, Ends.CLEARED,
    ),
    "switch-fatal": Kind(
        "An NVSwitch had a fatal error",
        "Restart the machine when no job runs on it any more, then clear this; the Fabric Manager "
        "User Guide tells what the number means.",
        Severity.SERIOUS, Does.DRAIN_NODE, Ends.CLEARED,
    ),
    "switch": Kind(
        "An NVSwitch had an error that it got over",
        "Nothing, unless it comes again and again; then look its number up in the Fabric Manager "
        "User Guide.",
        Severity.NOTE, ends=Ends.OLD,
    ),
}  # fmt: skip
_BY_REMEDY = {
    Remedy.IGNORE: Kind("", "Nothing.", Severity.NOTE, ends=Ends.OLD),
    Remedy.RESTART_JOB: Kind(
        "",
        "Start the job again. If it happens to different jobs on this GPU, reset the GPU and have "
        "it tested.",
        Severity.NOTE, ends=Ends.OLD, hits_jobs=True,
    ),
    Remedy.RESET_GPU: Kind(
        "", _RESET, Severity.SERIOUS, Does.DRAIN_GPU, Ends.CLEARED, hits_jobs=True
    ),
    Remedy.RESTART_NODE: Kind(
        "", _RESTART, Severity.SERIOUS, Does.DRAIN_NODE, Ends.CLEARED, hits_jobs=True
    ),
    Remedy.LOOK: Kind(
        "",
        "Follow the workflow for this number in NVIDIA's Xid catalogue, then clear this.",
        Severity.SERIOUS, Does.DRAIN_GPU, Ends.CLEARED, hits_jobs=True,
    ),
    Remedy.UNKNOWN: Kind(
        "",
        "Look the number up in NVIDIA's Xid catalogue; Carrel does not know it.",
        ends=Ends.OLD,
    ),
}  # fmt: skip
_UNKNOWN = Meaning("The GPU's driver reported an error", Remedy.UNKNOWN)


def xid_name(number: int, remedy: Remedy) -> str:
    """The kind of an Xid; its remedy is part of it where its words alone say which it is."""
    known = XIDS.get(number, _UNKNOWN).remedy
    return f"xid-{number}" if remedy is known else f"xid-{number}-{remedy.name.lower()}"


def kind(name: str) -> Kind:
    """The kind of that name. Raises KeyError for none of ours."""
    if name in KINDS:
        return KINDS[name]
    word, _, rest = name.partition("-")
    number, _, told = rest.partition("-")
    if word != "xid" or not number.isdigit():
        raise KeyError(name)
    meaning = XIDS.get(int(number), _UNKNOWN)
    base = _BY_REMEDY[Remedy[told.upper()] if told else meaning.remedy]
    return Kind(
        f"{meaning.title} (Xid {number})", base.advice, base.severity, base.does, base.ends,
        base.after_s, base.hits_jobs,
    )  # fmt: skip
