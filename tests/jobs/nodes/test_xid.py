"""GPU errors as drivers print them."""

from __future__ import annotations

import pytest

from jobs.nodes.kinds import AGES_S, KINDS, Does, Ends, Severity, kind, xid_name
from jobs.nodes.xid import XIDS, KernelError, Remedy, bus_of, errors

BUS = "0000:07:00"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "NVRM: Xid (PCI:0000:07:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
            "the bus.",
            (79, BUS, False),
        ),
        ("NVRM: Xid (0000:07:00): 14, Channel 00000001", (14, BUS, False)),
        ("NVRM: Xid (PCI:0000:07:00.0): 31, pid=17, name=python, Ch 00000008", (31, BUS, False)),
        ("NVRM: GPU 0000:07:00.0: GPU has fallen off the bus.", (79, BUS, False)),
        ("NVRM: GPU at PCI:0000:07:00 has fallen off the bus.", (79, BUS, False)),
        ("nvidia-nvswitch0: SXid (PCI:0000:07:00.0): 12028, Fatal, Link 3", (12028, BUS, True)),
        ("NVRM: Xid (PCI:nonsense): 79, x", None),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.127.05", None),
        ("usb 1-1: new device", None),
    ],
)
def test_lines_of_the_kernel_log(line: str, found: tuple[int, str, bool] | None) -> None:
    told = [(one.number, one.bus, one.switch) for one in errors([line])]
    assert told == ([found] if found else [])


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        ("00000000:07:00.0", BUS),
        ("PCI:0000:07:00", BUS),
        ("07:00.0", BUS),
        ("00000001:AF:1F.0", "0001:af:1f"),
        ("", None),
        ("GPU-1", None),
    ],
)
def test_a_place_on_the_bus_has_one_name(text: str, bus: str | None) -> None:
    assert bus_of(text) == bus


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "RESET_GPU"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
         "RESTART_NODE"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", "IGNORE"),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "RESET_GPU"),
        ("something new", "LOOK"),
    ],
)  # fmt: skip
def test_an_xid_154_says_itself_what_is_to_be_done(words: str, remedy: str) -> None:
    assert KernelError(154, BUS, words).remedy is Remedy[remedy]


@pytest.mark.parametrize(
    ("words", "fatal"),
    [("Fatal, Link 3", True), ("Non-fatal, Link 46", False), ("Link 3", True)],
)
def test_an_error_of_a_switch_is_fatal_unless_it_says_otherwise(words: str, fatal: bool) -> None:
    assert KernelError(1, BUS, words, switch=True).fatal is fatal


@pytest.mark.parametrize(
    ("numbers", "does", "ends"),
    [
        ((13, 31, 94, 43, 63, 92), Does.TELL, Ends.OLD),
        ((48, 62, 64, 95, 119, 120, 140, 143), Does.DRAIN_GPU, Ends.CLEARED),
        ((74, 154), Does.DRAIN_GPU, Ends.CLEARED),
        ((79,), Does.DRAIN_NODE, Ends.CLEARED),
        ((999,), Does.TELL, Ends.OLD),
    ],
)
def test_what_is_done_about_each(numbers: tuple[int, ...], does: Does, ends: Ends) -> None:
    for number in numbers:
        found = kind(f"xid-{number}")
        assert (found.does, found.ends) == (does, ends), number
        assert f"(Xid {number})" in found.title


def test_every_kind_says_what_to_do() -> None:
    names = [*KINDS, *(f"xid-{number}" for number in XIDS), "xid-154-restart_node"]
    for name in names:
        found = kind(name)
        assert found.title and found.advice.endswith(".")
        assert (found.does is not Does.TELL) == (found.severity is Severity.SERIOUS), name
        assert len(name) <= 32
    assert AGES_S == 86_400


def test_a_remedy_of_its_own_makes_a_kind_of_its_own() -> None:
    assert xid_name(79, Remedy.RESTART_NODE) == "xid-79"
    assert xid_name(154, Remedy.RESTART_NODE) == "xid-154-restart_node"
    assert kind("xid-154-restart_node").does is Does.DRAIN_NODE
    with pytest.raises(KeyError):
        kind("xid-none")
    with pytest.raises(KeyError):
        kind("unheard of")
