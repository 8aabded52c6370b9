"""GPU and NVSwitch errors of the kernel's log, and what NVIDIA recommends to do about each.

Sources: NVIDIA, "Xid Errors", Xid Catalog, column "Resolution Bucket (Immediate Action)"
(docs.nvidia.com/deploy/xid-errors); NVIDIA, "Fabric Manager User Guide", SXid errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Remedy(StrEnum):
    """What an error asks for."""

    IGNORE = "nothing"
    RESTART_JOB = "restart the application"
    RESET_GPU = "reset the GPU"
    RESTART_NODE = "restart the machine"
    LOOK = "follow NVIDIA's workflow"
    UNKNOWN = "look it up"


class Meaning(NamedTuple):
    """An error in words, and its remedy."""

    title: str
    remedy: Remedy


XIDS: dict[int, Meaning] = {
    11: Meaning("A job sent the GPU commands that make no sense", Remedy.RESTART_JOB),
    13: Meaning("A job made the GPU fault, mostly by an access out of bounds", Remedy.RESTART_JOB),
    25: Meaning("A job sent the GPU commands that make no sense", Remedy.RESTART_JOB),
    31: Meaning("A job used memory of the GPU that it does not have", Remedy.RESTART_JOB),
    32: Meaning("A job sent the GPU commands that make no sense", Remedy.RESTART_JOB),
    43: Meaning("A job was ended on the GPU after a fault of its own", Remedy.IGNORE),
    45: Meaning("A job was taken off the GPU after an earlier error", Remedy.IGNORE),
    46: Meaning("The GPU stopped working", Remedy.RESET_GPU),
    48: Meaning("The GPU's memory had an error that could not be corrected", Remedy.RESET_GPU),
    62: Meaning("The GPU's own controller halted", Remedy.RESET_GPU),
    63: Meaning("A broken row of the GPU's memory was marked to be replaced", Remedy.IGNORE),
    64: Meaning("A broken row of the GPU's memory could not be replaced", Remedy.RESET_GPU),
    74: Meaning("An NVLink connection of the GPU had an error", Remedy.LOOK),
    79: Meaning("The GPU has fallen off the bus", Remedy.RESTART_NODE),
    92: Meaning("Many errors of the GPU's memory were corrected", Remedy.IGNORE),
    94: Meaning("An error of the GPU's memory ended the job that used it", Remedy.RESTART_JOB),
    95: Meaning("An error of the GPU's memory may have reached several jobs", Remedy.RESET_GPU),
    119: Meaning("The GPU's system processor does not answer", Remedy.RESET_GPU),
    120: Meaning("The GPU's system processor had an error", Remedy.RESET_GPU),
    140: Meaning("The GPU's memory had errors that could not be corrected", Remedy.RESET_GPU),
    143: Meaning("The GPU could not be initialised", Remedy.RESET_GPU),
    154: Meaning("The GPU's driver says what the GPU needs", Remedy.LOOK),
}
OFF_THE_BUS = 79
NEEDS = 154
"""Its own words say what is to be done."""
_NEEDS = (
    ("node reboot", Remedy.RESTART_NODE),
    ("gpu reset", Remedy.RESET_GPU),
    ("drain and reset", Remedy.RESET_GPU),
    ("drain p2p", Remedy.RESET_GPU),
    ("(none)", Remedy.IGNORE),
)
"""Names of recovery actions, as an Xid 154 gives them after `to`."""

_XID = re.compile(r"NVRM: Xid \(((?:PCI:)?[0-9a-fA-F:.]+)\).*?: (\d+),\s*(.*)")
_LOST = re.compile(r"NVRM: GPU (?:at )?((?:PCI:)?[0-9a-fA-F:.]+?):? .*fallen off the bus")
_SXID = re.compile(r"SXid \(((?:PCI:)?[0-9a-fA-F:.]+)\).*?: (\d+),\s*(.*)")
_BUS = re.compile(r"(?:PCI:)?(?:([0-9a-fA-F]+):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?\Z")


@dataclass(frozen=True)
class KernelError:
    """One error; `bus` as `bus_of` gives it, None if it is not to be read."""

    number: int
    bus: str | None
    words: str
    switch: bool = False
    """An SXid, of an NVSwitch."""

    @property
    def fatal(self) -> bool:
        """Of a switch: traffic through it is broken. `Non-fatal` is said of all others."""
        return self.switch and not self.words.lower().startswith("non-fatal")

    @property
    def remedy(self) -> Remedy:
        """What it asks for."""
        if self.number == NEEDS:
            wanted = self.words.lower().rpartition(" to ")[2]
            return next((remedy for name, remedy in _NEEDS if name in wanted), Remedy.LOOK)
        known = XIDS.get(self.number)
        return known.remedy if known else Remedy.UNKNOWN


def bus_of(text: str) -> str | None:
    """`0000:07:00` for the forms in which nvidia-smi and the driver name a place on the PCI bus,
    such as `00000000:07:00.0` and `PCI:0000:07:00`."""
    found = _BUS.match(text.strip())
    if not found:
        return None
    domain, bus, device = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}"


def errors(lines: Iterable[str]) -> Iterator[KernelError]:
    """Those that these lines of the kernel's log tell of, in their order."""
    for line in lines:
        if found := _SXID.search(line):
            bus, number, words = found.groups()
            yield KernelError(int(number), bus_of(bus), words.strip(), switch=True)
        elif found := _XID.search(line):
            bus, number, words = found.groups()
            yield KernelError(int(number), bus_of(bus), words.strip())
        elif found := _LOST.search(line):
            yield KernelError(OFF_THE_BUS, bus_of(found[1]), "GPU has fallen off the bus.")
