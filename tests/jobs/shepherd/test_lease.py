"""What is behind a fence ends with the node's lease, whatever comes in between."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.shepherd.lease import Lease
from jobs.shepherd.spool import Spool
from tests.jobs.shepherd.node import Node, eventually, processes_with, spec

KEY, OTHER = "j1.a1.n0", "j2.a1.n0"
LONG_S = 600.0


@pytest.fixture
def word() -> str:
    """A number of seconds that no other process sleeps."""
    return f"{uuid4().int % 10**8:08d}"


def clock(node: Node) -> float:
    now: float = node.call("observe", keys=[])["clock"]
    return now


def grant(node: Node, seconds: float) -> dict[str, Any]:
    """So long from now on."""
    seen = node.call("observe", keys=[])
    return {"boot_id": seen["boot_id"], "until": seen["clock"] + seconds}


def start(node: Node, word: str, seconds: float, *, fence: bool = True, key: str = KEY) -> float:
    """Launch a run that goes on and on; when its lease ends."""
    lease = grant(node, seconds)
    script = f"(setsid sleep 9{word} &)\necho ready\nsleep 9{word}\n"
    launches = [spec(script, key, fence=fence)]
    assert node.call("launch", launches=launches, lease=lease)["launched"][0]["accepted"]
    until: float = lease["until"]
    return until


def passed(node: Node, moment: float) -> None:
    eventually(lambda: clock(node) > moment, "that moment passes")


def test_it_ends_with_the_lease(node: Node, word: str) -> None:
    until = start(node, word, 3)
    run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("fenced", None)
    assert clock(node) >= until
    assert processes_with(word) == []
    assert b"Carrel could not reach this node" in node.log()


def test_before_that_it_is_known_to_be_fenced(node: Node, word: str) -> None:
    start(node, word, LONG_S)
    eventually(lambda: node.observe()["fenced"], "both guards count")


def test_what_is_not_fenced_goes_on(node: Node, word: str) -> None:
    until = start(node, word, 2, fence=False)
    passed(node, until + 1)
    assert node.observe()["phase"] == "running"
    assert not node.observe()["fenced"]


def test_its_neighbour_of_the_same_launch_goes_on(node: Node, word: str) -> None:
    lease = grant(node, 3)
    launches = [spec(f"sleep 9{word}", KEY, fence=True), spec("sleep 600", OTHER)]
    node.call("launch", launches=launches, lease=lease)
    os.kill(node.guards()[0], signal.SIGSTOP)  # So that their common keeper has to end it.
    assert node.ended()["cause"] == "fenced"
    assert processes_with(word) == []
    assert node.observe(OTHER)["phase"] == "running"


def test_it_lives_as_long_as_the_lease_is_prolonged(node: Node, word: str) -> None:
    until = start(node, word, 3)
    node.call("observe", keys=[], lease=grant(node, LONG_S))
    passed(node, until + 1)
    assert node.observe()["phase"] == "running"


def test_no_grant_shortens_it(node: Node, word: str) -> None:
    start(node, word, LONG_S)
    shorter = grant(node, 1)
    node.call("observe", keys=[], lease=shorter)
    passed(node, shorter["until"] + 1)
    assert node.observe()["phase"] == "running"


def test_a_grant_of_another_boot_prolongs_nothing(node: Node, word: str) -> None:
    start(node, word, 3)
    node.call("observe", keys=[], lease=grant(node, LONG_S) | {"boot_id": "another"})
    assert node.ended()["cause"] == "fenced"


def test_what_ends_by_itself_before_ended_by_itself(node: Node) -> None:
    node.call("launch", launches=[spec("exit 3", KEY, fence=True)], lease=grant(node, LONG_S))
    run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("exited", 3)


@pytest.mark.parametrize("lease", ["none", "over", "another boot"])
def test_a_launch_that_comes_too_late_starts_nothing(
    node: Node, word: str, tmp_path: Path, lease: str
) -> None:
    given = {
        "none": None,
        "over": grant(node, -0.1),
        "another boot": grant(node, LONG_S) | {"boot_id": "another"},
    }[lease]
    # The node's lease itself goes on: another launch was on its way for less long.
    node.call("observe", keys=[], lease=grant(node, LONG_S))
    launch = spec(f"touch '{tmp_path}/began'; sleep 9{word}", KEY, fence=True)
    for _ in range(2):
        (answer,) = node.call("launch", launches=[launch], lease=given)["launched"]
        assert not answer["accepted"]
    assert node.observe()["cause"] == "not_begun"
    # Nor does the same launch with a good grant: that it never will was told already.
    node.call("launch", launches=[launch], lease=grant(node, LONG_S))
    assert node.observe()["cause"] == "not_begun"
    assert not (tmp_path / "began").exists()


def test_a_fence_that_is_asked_for_later(node: Node, word: str) -> None:
    start(node, word, LONG_S, fence=False)
    lease = grant(node, 4)
    (node.spool / "leases" / node.call("observe", keys=[])["boot_id"]).unlink()
    node.call("observe", keys=[KEY], fence=[KEY], lease=lease)
    eventually(lambda: node.observe()["fenced"] or clock(node) > lease["until"], "it is fenced")
    assert node.ended()["cause"] == "fenced"
    assert clock(node) >= lease["until"]
    assert processes_with(word) == []


def test_nobody_is_told_of_a_fence_without_a_lease(node: Node) -> None:
    node.launch("sleep 600")
    node.call("observe", keys=[KEY], fence=[KEY])
    node.call("observe", keys=[KEY], fence=[KEY])
    assert not node.observe()["fenced"]
    assert node.observe()["phase"] == "running"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("guard", [0, 1], ids=["minder", "keeper"])
def test_either_guard_is_enough(node: Node, word: str, guard: int, number: int) -> None:
    start(node, word, 4)
    eventually(lambda: node.observe()["fenced"], "both guards count")
    os.kill(node.guards()[guard], number)
    run = node.ended()
    killed_first = number == signal.SIGKILL and guard == 0
    assert run["cause"] == ("lost" if killed_first else "fenced")
    assert processes_with(word) == []
    if number == signal.SIGSTOP and guard == 1:
        os.kill(node.guards()[guard], signal.SIGCONT)


def test_a_fence_without_a_keeper(node: Node, word: str) -> None:
    start(node, word, LONG_S, fence=False)
    keeper = node.guards()[1]
    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper is gone")

    def is_fenced() -> bool:
        node.call("observe", keys=[KEY], fence=[KEY], lease=grant(node, LONG_S))
        return bool(node.observe()["fenced"])

    eventually(is_fenced, "its minder says so")


def test_who_was_frozen_does_not_live_on_a_later_lease(node: Node, word: str) -> None:
    """The portal may have started the job elsewhere by then."""
    until = start(node, word, 2)
    eventually(lambda: node.observe()["fenced"], "both guards count")
    guards = node.guards()
    everybody = [*reversed(guards), *processes_with(word)]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    passed(node, until)
    node.call("observe", keys=[], lease=grant(node, LONG_S))
    for pid in reversed(everybody):
        os.kill(pid, signal.SIGCONT)
    assert node.ended()["cause"] == "fenced"
    assert processes_with(word) == []


def test_a_disk_that_hangs_saves_nobody(node: Node, word: str, tmp_path: Path) -> None:
    """Its minder waits for a file that does not come; it is the same as a disk that hangs."""
    pipe = tmp_path / "copy"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    try:
        noise = f"(sleep 9{word} &)\nyes {word}\n"
        launch = spec(noise, KEY, fence=True, stdout=str(pipe))
        node.call("launch", launches=[launch], lease=grant(node, 3))
        # Nobody reads it, so whoever writes into it waits.
        eventually(lambda: not processes_with(word), "all are killed")
    finally:
        os.close(reader)
    assert node.ended()["cause"] == "fenced"


def test_the_lease_needs_no_room_on_the_disk(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    lease = Lease(spool)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    lease.take_in({"boot_id": spool.boot_id, "until": now + 50})
    (path,) = (tmp_path / "leases").iterdir()
    before = path.stat().st_ino
    lease.take_in({"boot_id": spool.boot_id, "until": now + 60})
    assert path.stat().st_ino == before  # Prolonged where it is, nothing was written.
    assert path.stat().st_size == 0
    assert lease.ends_at() == pytest.approx(now + 60)


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=6))
def test_it_ends_when_the_longest_grant_does(offsets: list[float]) -> None:
    """In one term; after it, a new one begins, which who held on to the old one never sees."""
    with TemporaryDirectory() as place:
        spool = Spool(place)
        lease = Lease(spool)
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        for offset in offsets:
            lease.take_in({"boot_id": spool.boot_id, "until": now + 1000 + offset})
        assert lease.ends_at() == pytest.approx(now + 1000 + max(offsets))
        old = lease.term()
        os.utime(Path(place) / "leases" / spool.boot_id, ns=(0, 0))
        lease.take_in({"boot_id": spool.boot_id, "until": now + 5000})
        assert old.ends_at() == 0
        assert lease.term().ends_at() == pytest.approx(now + 5000)
