"""From what a node tells to signs: what is seen, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobs.nodes.health import CardSeen, CheckSeen, DiskSeen, HealthSeen, KernelLog, MountSeen
from jobs.nodes.signs import ClockSeen, KnownGpu, Sign, clock_seen, signs

A, B = KnownGpu("GPU-a", "00000000:07:00.0"), KnownGpu("GPU-b", "00000000:0F:00.0")
CARDS = (
    CardSeen("GPU-a", 0, "00000000:07:00.0", 40, 50, 0, False, False, False, False),
    CardSeen("GPU-b", 1, "00000000:0F:00.0"),
)
WELL = HealthSeen("boot", 1000.0, 1.0, KernelLog(5), CARDS)
GIB = 1024


def found(seen: HealthSeen, *gpus: KnownGpu, counted: Any = None) -> list[tuple[str, str]]:
    """GPU and kind of each sign."""
    given = signs(seen, gpus or (A, B), counted or {}, ClockSeen())
    return [(sign.gpu, sign.kind) for sign in given.signs]


def card(**told: Any) -> HealthSeen:
    return replace(WELL, gpus=(replace(CARDS[0], **told), CARDS[1]))


def test_a_node_that_is_well_shows_nothing() -> None:
    assert found(WELL) == []
    given = signs(WELL, (A, B), {}, ClockSeen())
    assert (given.blind, given.limits, given.counters) == (
        frozenset(),
        (),
        {"GPU-a": 0, "GPU-b": 0},
    )


@pytest.mark.parametrize(
    ("told", "kinds"),
    [
        ({"ecc_uncorrected": 2}, ["ecc"]),
        ({"rows_pending": True}, ["rows-pending"]),
        ({"rows_failed": True, "rows_pending": True}, ["rows-failed"]),
        ({"margin_c": 3}, ["hot"]),
        ({"margin_c": 4}, []),
        ({"slowed": True}, ["slowed"]),
        ({"slowed_by_heat": True}, ["slowed"]),
        ({"ecc_uncorrected": None, "margin_c": None, "slowed": None}, []),
    ],
)
def test_signs_of_a_card(told: dict[str, Any], kinds: list[str]) -> None:
    assert found(card(**told)) == [("GPU-a", kind) for kind in kinds]


@pytest.mark.parametrize(
    ("before", "now", "tells"),
    [(0, 3, True), (3, 3, False), (3, 4, True), (5, 1, True), (5, 0, False)],
)
def test_errors_of_the_memory_count_when_they_become_more(
    before: int, now: int, tells: bool
) -> None:
    """They begin anew with the driver."""
    seen = found(card(ecc_uncorrected=now), counted={"GPU-a": before})
    assert seen == ([("GPU-a", "ecc")] if tells else [])


def test_a_gpu_that_is_gone_is_missed() -> None:
    assert found(replace(WELL, gpus=CARDS[:1])) == [("GPU-b", "gpu-missing")]


def test_instances_are_there_while_their_card_is() -> None:
    parts = (replace(A, uuid="MIG-1", mig_mode=True), replace(A, uuid="MIG-2", mig_mode=True))
    assert found(WELL, *parts) == []
    assert found(replace(WELL, gpus=CARDS[1:]), *parts) == [
        ("MIG-1", "gpu-missing"),
        ("MIG-2", "gpu-missing"),
    ]
    assert found(card(rows_failed=True), *parts) == [
        ("MIG-1", "rows-failed"),
        ("MIG-2", "rows-failed"),
    ]


@pytest.mark.parametrize("gpus", [None, ()])
def test_a_driver_that_is_silent_hides_the_cards(gpus: tuple[()] | None) -> None:
    seen = replace(WELL, gpus=gpus, driver_problem="nvidia-smi did not answer within 10 s")
    given = signs(seen, (A, B), {}, ClockSeen())
    assert given.signs == (Sign("driver", "nvidia-smi did not answer within 10 s."),)
    assert {"gpu-missing", "ecc", "hot"} <= given.blind
    assert not signs(seen, (), {}, ClockSeen()).signs, "no job can have a GPU there anyway"


def test_errors_of_the_log_are_of_the_gpu_at_that_place() -> None:
    lines = (
        "NVRM: Xid (PCI:0000:0f:00): 48, one",
        "NVRM: Xid (PCI:0000:0f:00): 48, one",
        "NVRM: Xid (PCI:0000:0f:00): 48, two",
        "NVRM: Xid (PCI:0000:99:00): 79, of a card that no job can have",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 3",
    )
    seen = replace(WELL, kernel_log=KernelLog(9, lines))
    assert found(seen) == [("GPU-b", "xid-48"), ("", "switch"), ("", "switch-fatal")]
    first = signs(seen, (A, B), {}, ClockSeen()).signs[0]
    assert first.text == "Xid 48: one. Xid 48: two."


def test_of_many_lines_some_are_told() -> None:
    lines = tuple(f"NVRM: Xid (PCI:0000:07:00): 31, {number}" for number in range(9))
    (sign,) = signs(replace(WELL, kernel_log=KernelLog(9, lines)), (A,), {}, ClockSeen()).signs
    assert sign.text == "Xid 31: 0. Xid 31: 1. Xid 31: 2. And 6 more."


def test_a_log_that_cannot_be_read_is_a_limit_and_no_sign() -> None:
    seen = replace(WELL, kernel_log=KernelLog(0, why="Operation not permitted"))
    given = signs(seen, (A, B), {}, ClockSeen())
    assert given.signs == ()
    assert "(Operation not permitted)" in given.limits[0]
    assert not signs(seen, (), {}, ClockSeen()).limits, "it would tell of GPUs only"


@pytest.mark.parametrize(
    ("disk", "kinds"),
    [
        (DiskSeen("/", 500 * GIB, 50 * GIB, 1000, 500), []),
        (DiskSeen("/", 500 * GIB, 9 * GIB, 1000, 500), ["disk-filling"]),
        (DiskSeen("/", 500 * GIB, GIB - 1, 1000, 500), ["disk-full"]),
        (DiskSeen("/tmp", 512, 100), []),
        (DiskSeen("/tmp", 512, 40), ["disk-filling"]),
        (DiskSeen("/tmp", 512, 20), ["disk-full"]),
        (DiskSeen("/", 500 * GIB, 50 * GIB, 1000, 9), ["inodes"]),
        (DiskSeen("/", 500 * GIB, 50 * GIB, 0, 0), []),
        (DiskSeen("/", error="/ did not answer within 5 s"), ["disk-hangs"]),
    ],
)
def test_disks(disk: DiskSeen, kinds: list[str]) -> None:
    seen = replace(WELL, disks=(disk,))
    assert found(seen) == [("", kind) for kind in kinds]
    assert ("disk-full" in signs(seen, (A,), {}, ClockSeen()).blind) == bool(disk.error)


@pytest.mark.parametrize(
    ("seen", "sign"),
    [
        (replace(WELL, memory_stalled_pct=10.0), None),
        (
            replace(WELL, memory_stalled_pct=41.6),
            Sign("memory", "For 42 % of the last minute nothing could run."),
        ),
        (replace(WELL, mounts=(MountSeen("/home", True),)), None),
        (
            replace(WELL, mounts=(MountSeen("/home", False),)),
            Sign("mount", "/home: nothing is mounted there."),
        ),
        (
            replace(WELL, mounts=(MountSeen("/home", error="Stale file handle"),)),
            Sign("mount", "/home: Stale file handle."),
        ),
        (replace(WELL, check=CheckSeen(True, "fine")), None),
        (replace(WELL, check=CheckSeen(False, "no InfiniBand")), Sign("check", "no InfiniBand")),
        (replace(WELL, check=CheckSeen(False)), Sign("check", "It said nothing.")),
    ],
)
def test_the_machine(seen: HealthSeen, sign: Sign | None) -> None:
    assert signs(seen, (A, B), {}, ClockSeen()).signs == ((sign,) if sign else ())


@pytest.mark.parametrize(
    ("at", "asked", "answered", "wrong"),
    [
        (1000.0, 999.0, 1000.0, False),
        (1002.5, 999.0, 1000.0, True),
        (997.5, 999.0, 1000.0, True),
        # It may have been on its way back all the time.
        (997.5, 997.0, 1000.0, False),
    ],
)
def test_a_clock_is_wrong_by_more_than_the_way_explains(
    at: float, asked: float, answered: float, wrong: bool
) -> None:
    """The look itself took a second."""
    seen = replace(WELL, at=at)
    clock = clock_seen(seen, asked_at=asked, answered_at=answered)
    assert clock.wrong is wrong
    assert [sign.kind for sign in signs(seen, (A, B), {}, clock).signs] == ["clock"] * wrong
