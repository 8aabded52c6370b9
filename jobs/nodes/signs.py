"""From what a node told of its health to signs: each may become a finding.

A sign on a GPU names its UUID. Several on the same GPU, or on the node, are told apart by kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jobs.nodes.health import CardSeen, DiskSeen, HealthSeen
from jobs.nodes.kinds import xid_name
from jobs.nodes.xid import KernelError, bus_of, errors

GIB = 1024
FULL_MIB, FULL_PART = 1 * GIB, 0.05
"""A disk with less than the smaller of these is full."""
FILLING_MIB, FILLING_PART = 10 * GIB, 0.10
INODES_PART = 0.01
STALLED_PCT = 10.0
MARGIN_C = 3
"""So close to the limit a GPU is hot."""
CLOCK_S = 2.0
"""So far off a clock is wrong."""
NUMBER_OF_LINES = 3
_LONGEST = 1000


@dataclass(frozen=True)
class Sign:
    """Something that looks sick. `gpu` is a UUID, empty for the node as a whole."""

    kind: str
    text: str
    gpu: str = ""


@dataclass(frozen=True)
class KnownGpu:
    """A GPU that jobs can have: a card, or one of the instances of one in MIG mode."""

    uuid: str
    pci_bus_id: str
    mig_mode: bool = False


@dataclass(frozen=True)
class Found:
    """The signs of one look. Of the kinds in `blind` nothing could be seen, so that their absence
    says nothing; `limits` tells in words what never can be seen as it is."""

    signs: tuple[Sign, ...]
    blind: frozenset[str] = frozenset()
    limits: tuple[str, ...] = ()
    counters: Mapping[str, int] | None = None
    """Uncorrectable memory errors by card, to be given next time; None: not told."""


_OF_CARDS = frozenset({"gpu-missing", "ecc", "rows-pending", "rows-failed", "hot", "slowed"})
_OF_DISKS = frozenset({"disk-full", "disk-filling", "inodes"})


def signs(
    seen: HealthSeen, gpus: Iterable[KnownGpu], counted: Mapping[str, int], clock: ClockSeen
) -> Found:
    """What a look found. `counted` is what the last one counted."""
    known = tuple(gpus)
    cards, blind = seen.gpus, frozenset[str]()
    found = [*_kernel(errors(seen.kernel_log.lines), known)]
    if cards is not None and (cards or not known):
        found += _cards(cards, known, counted)
    else:
        blind |= _OF_CARDS
        if known:
            found.append(Sign("driver", _driver(seen)))
    for disk in seen.disks:
        found += _disk(disk)
        if disk.error:
            blind |= _OF_DISKS
    found += _machine(seen, clock)
    unread = seen.kernel_log.why
    return Found(
        signs=tuple(_one_each(found)),
        blind=blind,
        limits=(_unread(unread),) if unread and known else (),
        counters=None if cards is None else _counted(cards),
    )


def _driver(seen: HealthSeen) -> str:
    return f"{seen.driver_problem or 'nvidia-smi is not on the PATH'}."


def _unread(why: str) -> str:
    return (
        f"This account cannot read the kernel's log ({why}), so Xid errors are not seen here. "
        "Allow it, by kernel.dmesg_restrict=0 for instance."
    )


def _one_each(found: Iterable[Sign]) -> Iterator[Sign]:
    """Of each kind and place one; where there are several, with the words of the first ones."""
    texts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for sign in found:
        words = texts[sign.kind, sign.gpu]
        if sign.text not in words:
            words.append(sign.text)
    for (kind, gpu), words in texts.items():
        more = len(words) - NUMBER_OF_LINES
        told = [*words[:NUMBER_OF_LINES], f"And {more} more." if more > 0 else ""]
        yield Sign(kind, " ".join(filter(None, told))[:_LONGEST], gpu)


def _kernel(told: Iterable[KernelError], known: tuple[KnownGpu, ...]) -> Iterator[Sign]:
    on_bus = defaultdict(list)
    for gpu in known:
        on_bus[bus_of(gpu.pci_bus_id)].append(gpu.uuid)
    for error in told:
        if error.switch:
            kind = "switch-fatal" if error.fatal else "switch"
            yield Sign(kind, _words("SXid", error))
            continue
        # Of a card that no job can have nothing is told: it is none of ours.
        kind = xid_name(error.number, error.remedy)
        for uuid in on_bus.get(error.bus, ()) if error.bus else ():
            yield Sign(kind, _words("Xid", error), uuid)


def _words(name: str, error: KernelError) -> str:
    return f"{name} {error.number}: {error.words.rstrip('. ')}."


def _cards(
    cards: tuple[CardSeen, ...], known: tuple[KnownGpu, ...], counted: Mapping[str, int]
) -> Iterator[Sign]:
    by_bus = {bus_of(card.pci_bus_id or ""): card for card in cards}
    by_uuid = {card.uuid: card for card in cards}
    for gpu in known:
        card = by_bus.get(bus_of(gpu.pci_bus_id)) if gpu.mig_mode else by_uuid.get(gpu.uuid)
        if card is None:
            yield Sign("gpu-missing", "nvidia-smi does not list it.", gpu.uuid)
        else:
            yield from (
                Sign(kind, text, gpu.uuid) for kind, text in _card(card, counted.get(card.uuid, 0))
            )


def _card(card: CardSeen, before: int) -> Iterator[tuple[str, str]]:
    errors = card.ecc_uncorrected or 0
    # It begins anew with the driver.
    if errors > (before if before <= errors else 0):
        yield "ecc", f"{errors} since the driver was loaded."
    if card.rows_failed:
        yield "rows-failed", "Replacing a row failed."
    elif card.rows_pending:
        yield "rows-pending", "It waits for a reset."
    if card.margin_c is not None and card.margin_c <= MARGIN_C:
        now = f"{card.temperature_c} °C, " if card.temperature_c is not None else ""
        yield "hot", f"{now}{card.margin_c} °C below the limit."
    if card.slowed or card.slowed_by_heat:
        yield "slowed", "For its heat." if card.slowed_by_heat else "By the power supply or heat."


def _counted(cards: Iterable[CardSeen]) -> dict[str, int]:
    return {card.uuid: card.ecc_uncorrected or 0 for card in cards}


def _disk(disk: DiskSeen) -> Iterator[Sign]:
    if disk.error:
        yield Sign("disk-hangs", f"{disk.path}: {disk.error}.")
        return
    left = f"{disk.path}: {disk.free_mib:,} MiB of {disk.total_mib:,} MiB are free."
    if disk.free_mib < min(FULL_MIB, disk.total_mib * FULL_PART):
        yield Sign("disk-full", left)
    elif disk.free_mib < min(FILLING_MIB, disk.total_mib * FILLING_PART):
        yield Sign("disk-filling", left)
    if disk.inodes and disk.inodes_free < disk.inodes * INODES_PART:
        files = f"{disk.path}: room for {disk.inodes_free:,} files of {disk.inodes:,} is left."
        yield Sign("inodes", files)


@dataclass(frozen=True)
class ClockSeen:
    """How far a node's clock is ahead of ours, and how much of that the way there may explain."""

    offset_s: float = 0.0
    doubt_s: float = 0.0

    @property
    def wrong(self) -> bool:
        return abs(self.offset_s) - self.doubt_s > CLOCK_S


def clock_seen(seen: HealthSeen, *, asked_at: float, answered_at: float) -> ClockSeen:
    """The times are ours, in Unix seconds. The way there and back takes what the look did not; at
    the end of the look the answer had half of it before it, give or take that half."""
    way = max(answered_at - asked_at - seen.took_s, 0.0)
    return ClockSeen(seen.at - (answered_at - way / 2), way / 2)


def _machine(seen: HealthSeen, clock: ClockSeen) -> Iterator[Sign]:
    if (stalled := seen.memory_stalled_pct) is not None and stalled > STALLED_PCT:
        yield Sign("memory", f"For {stalled:.0f} % of the last minute nothing could run.")
    for mount in seen.mounts:
        if mount.error or not mount.mounted:
            yield Sign("mount", f"{mount.path}: {mount.error or 'nothing is mounted there'}.")
    if clock.wrong:
        ahead = "ahead of" if clock.offset_s > 0 else "behind"
        yield Sign("clock", f"It is {abs(clock.offset_s):.1f} s {ahead} the portal's.")
    if seen.check is not None and not seen.check.well:
        yield Sign("check", seen.check.said or "It said nothing.")
