"""No process of a job survives it, whatever is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from tests.jobs.shepherd.node import Node, eventually, processes_with

RUNAWAYS = """
sleep 9{word} &
(setsid sleep 9{word} &)
setsid bash -c 'trap "" TERM HUP INT; (setsid sleep 9{word} &) & sleep 9{word}' &
python3 -c '
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        time.sleep(9{word})
    os._exit(0)
os.wait()'
echo ready
"""
UNMARKED = "env -i /usr/bin/setsid -f /bin/sleep 9{word}\n"


@pytest.fixture
def word() -> str:
    """A number of seconds that no other process sleeps."""
    return f"{uuid4().int % 10**8:08d}"


def _run_away(node: Node, word: str, ending: str = "sleep 600", more: str = "") -> None:
    node.launch((more + RUNAWAYS).replace("{word}", word) + ending)
    node.says(b"ready")
    assert len(processes_with(word)) >= 5


def test_when_it_ends_by_itself(node: Node, word: str) -> None:
    _run_away(node, word, "read -t 3 < <(sleep 3); exit 3", UNMARKED)
    assert node.ended()["exit_code"] == 3
    assert processes_with(word) == []


def test_when_it_is_stopped(node: Node, word: str) -> None:
    _run_away(node, word, more=UNMARKED)
    node.stop(grace_s=1)
    run = node.ended()
    assert (run["cause"], run["message"]) == ("stopped", "asked to stop")
    assert processes_with(word) == []


def test_when_a_fork_bomb_is_stopped(node: Node, word: str) -> None:
    node.launch(f"grow() {{ sleep 9{word} & (grow &) ; sleep 0.2; }}; echo ready; grow; sleep 600")
    node.says(b"ready")
    eventually(lambda: len(processes_with(word)) > 10, "it grows")
    node.stop(grace_s=0)
    assert node.ended()["cause"] == "stopped"
    assert processes_with(word) == []


def _minder(node: Node) -> list[int]:
    return [node.guards()[0]]


def _both(node: Node) -> list[int]:
    return list(node.guards())


@pytest.mark.parametrize("killed", [_minder, _both], ids=["minder", "both guards"])
def test_when_its_guards_are_killed(
    node: Node, word: str, killed: Callable[[Node], list[int]]
) -> None:
    _run_away(node, word, more=UNMARKED if killed is _minder else "")
    pids = killed(node)
    for pid in reversed(pids[1:]):
        os.kill(pid, signal.SIGSTOP)  # So that it cannot act before its own turn.
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    run = node.ended()
    assert run["cause"] == "lost"
    assert "killed" in run["message"]
    assert processes_with(word) == []
    assert node.observe() == run


def test_when_the_keeper_is_killed_the_run_goes_on(node: Node, word: str, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    _run_away(node, word, f"while [ ! -e '{go_on}' ]; do sleep 0.05; done; exit 4")
    minder, keeper = node.guards()
    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper is gone")
    assert node.observe()["phase"] == "running"
    go_on.touch()
    run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("exited", 4)
    assert processes_with(word) == []
    eventually(lambda: not Path(f"/proc/{minder}").exists(), "the minder leaves")


def test_polite_signals_do_not_move_the_guards(node: Node) -> None:
    node.launch("sleep 600")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        for pid in node.guards():
            os.kill(pid, number)
    assert node.observe()["phase"] == "running"
    assert all(Path(f"/proc/{pid}").exists() for pid in node.guards())


def test_another_spool_on_the_same_machine_is_left_alone(node: Node, word: str) -> None:
    neighbour = Node(node.spool.parent / "neighbour")
    try:
        neighbour.launch(f"sleep 9{word}")
        node.launch("sleep 600")
        for pid in reversed(node.guards()):
            os.kill(pid, signal.SIGKILL)
        assert node.ended()["cause"] == "lost"
        assert neighbour.observe()["phase"] == "running"
        assert processes_with(word)
    finally:
        neighbour.end_everything()


def test_after_a_restart_of_the_machine(node: Node, word: str) -> None:
    (node.spool / "boot_id").write_text("first\n")
    _run_away(node, word)
    assert node.call("observe", keys=[])["boot_id"] == "first"
    (node.spool / "boot_id").write_text("second\n")
    run = node.ended()
    assert run["cause"] == "node_restarted"
    assert run["started_at"] <= run["ended_at"]
    assert processes_with(word) == []
    node.launch("exit 0", key="j2.a1.n0")
    assert node.ended("j2.a1.n0")["exit_code"] == 0
