"""A shepherd that stays is used while it answers; when it does not, a call takes its place."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.nodes import warm
from jobs.nodes.local import LocalTransport
from jobs.nodes.memory import Call, MemoryTransport
from jobs.nodes.shepherd import Shepherd
from jobs.nodes.transport import CommandFailed, Completed, ConnectionLost, DeadlineExceeded
from tests.jobs.nodes import programs

Reply = Callable[[dict[str, Any]], list[bytes]]


def _node(reply: Reply) -> MemoryTransport:
    """A node whose shepherd stays and answers by `reply`, and whose calls answer `called`."""

    def serve(call: Call) -> Iterator[bytes | None]:
        yield b"{}\n"
        while not call.ended.is_set():
            asked = json.loads(call.more.get().partition(b"\n")[2])
            yield from reply(asked)

    def called(call: Call) -> Completed:
        return Completed(0, b'{"ok": true, "by": "a call"}\n', b"")

    return MemoryTransport({"python3": called}, {"python3": serve})


def _watched(transport: MemoryTransport) -> tuple[Shepherd, Iterator[str]]:
    shepherd = Shepherd(transport, "/spool")
    changes = shepherd.watch()
    assert next(changes) == ""
    return shepherd, changes


def _real(tmp_path: Path) -> tuple[Shepherd, Iterator[str], int]:
    """On this machine; also the number of the process that stays, which its pipe is named after."""
    shepherd = Shepherd(LocalTransport(), str(tmp_path / "spool"))
    changes = shepherd.watch()
    assert next(changes) == ""
    (pipe,) = (tmp_path / "spool" / "watch").iterdir()
    return shepherd, changes, int(pipe.name.rpartition(".")[2])


def _line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_it_answers() -> None:
    shepherd, _ = _watched(_node(lambda asked: [_line(id=asked["id"], ok=True, got=asked)]))
    answer = shepherd.ask("observe", {"keys": ["a"]}, timeout_s=7)
    assert answer["got"]["verb"] == "observe"
    assert answer["got"]["request"] == {"keys": ["a"]}
    assert answer["got"]["within_s"] == 7


def test_its_refusal_is_the_calls() -> None:
    shepherd, _ = _watched(_node(lambda asked: [_line(id=asked["id"], ok=False, error="no")]))
    with pytest.raises(CommandFailed, match="observe: no"):
        shepherd.ask("observe", {}, timeout_s=7)


def test_answers_find_those_who_asked() -> None:
    held: list[int] = []

    def in_pairs(asked: dict[str, Any]) -> list[bytes]:
        held.append(asked["id"])
        if len(held) < 2:
            return []
        lines = [_line(id=number, ok=True, number=number) for number in reversed(held)]
        held.clear()
        return lines

    transport = _node(in_pairs)
    shepherd, _ = _watched(transport)
    found: dict[str, int] = {}

    def ask(name: str) -> None:
        found[name] = shepherd.ask(name, {}, timeout_s=30)["number"]

    first = threading.Thread(target=ask, args=("first",), daemon=True)
    first.start()
    while not held:
        time.sleep(0.01)
    ask("second")
    first.join(30)
    assert found == {"first": 1, "second": 2}


def test_when_it_leaves_the_call_is_made_anew() -> None:
    def leave(asked: dict[str, Any]) -> list[bytes]:
        raise CommandFailed("killed")

    shepherd, changes = _watched(_node(leave))
    assert shepherd.ask("observe", {}, timeout_s=30) == {"by": "a call"}
    with pytest.raises(CommandFailed, match="killed"):
        list(changes)


@pytest.mark.parametrize("verb", ["launch", "stop", "collect"])
def test_what_may_have_been_done_is_said_to_be_so(verb: str) -> None:
    """A second try that fails would say nothing of the first."""

    def leave(asked: dict[str, Any]) -> list[bytes]:
        raise CommandFailed("killed")

    shepherd, _ = _watched(_node(leave))
    with pytest.raises(ConnectionLost):
        shepherd.ask(verb, {}, timeout_s=30)


@pytest.mark.parametrize("begun", [False, True])
def test_its_own_refusals_are_no_answers(begun: bool) -> None:
    def refuse(asked: dict[str, Any]) -> list[bytes]:
        return [_line(id=asked["id"], ok=False, begun=begun, error="too many")]

    shepherd, _ = _watched(_node(refuse))
    assert shepherd.ask("observe", {}, timeout_s=30) == {"by": "a call"}
    if begun:
        with pytest.raises(ConnectionLost, match="too many"):
            shepherd.ask("launch", {}, timeout_s=30)
    else:
        assert shepherd.ask("launch", {}, timeout_s=30) == {"by": "a call"}


def test_a_node_that_only_talks_is_not_listened_to_for_ever() -> None:
    def talk(call: Call) -> Iterator[bytes | None]:
        while not call.ended.is_set():
            yield b"hello\n" * 1000

    shepherd = Shepherd(MemoryTransport({}, {"python3": talk}), "/spool")
    with pytest.raises(CommandFailed, match="hello"):
        next(shepherd.watch())


def test_closing_ends_the_one_that_stays(tmp_path: Path) -> None:
    shepherd, changes, pid = _real(tmp_path)
    shepherd.close()
    with contextlib.suppress(CommandFailed):
        assert set(changes) <= {""}
    assert programs.gone(pid)


def test_a_long_request_to_one_that_is_stopped_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "SUSPECT_S", 1.0)
    shepherd, changes, pid = _real(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    keys = ["x" * 90] * 5000
    # More than a pipe holds: it is not written whole, hence not begun, and asked anew.
    assert len(shepherd.ask("collect", {"keys": keys}, timeout_s=30)["collected"]) == 5000
    with pytest.raises(CommandFailed):
        list(changes)


def test_when_it_falls_silent_the_call_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "SUSPECT_S", 0.2)
    shepherd, _ = _watched(_node(lambda asked: []))
    assert shepherd.ask("observe", {}, timeout_s=30) == {"by": "a call"}
    shepherd, _ = _watched(_node(lambda asked: []))
    with pytest.raises(ConnectionLost):
        shepherd.ask("launch", {}, timeout_s=30)


def test_while_it_gives_signs_of_life_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "SUSPECT_S", 0.5)

    def slowly(asked: dict[str, Any]) -> Iterator[bytes]:
        for _ in range(10):
            time.sleep(0.1)
            yield b"{}\n"
        yield _line(id=asked["id"], ok=True, by="it")

    shepherd, _ = _watched(_node(slowly))  # type: ignore[arg-type]
    assert shepherd.ask("observe", {}, timeout_s=30) == {"by": "it"}
    with pytest.raises(DeadlineExceeded):
        shepherd.ask("observe", {}, timeout_s=0.3)


def test_what_is_long_goes_its_own_way() -> None:
    shepherd, _ = _watched(_node(lambda asked: [_line(id=asked["id"], ok=True, by="it")]))
    long = {"script": "x" * warm.MAX_REQUEST_BYTES}
    assert shepherd.ask("launch", long, timeout_s=30) == {"by": "a call"}
    assert shepherd.ask("launch", {}, timeout_s=30) == {"by": "it"}


def test_unwatched_or_no_longer_watched_it_is_a_call() -> None:
    transport = _node(lambda asked: [_line(id=asked["id"], ok=True, by="it")])
    assert Shepherd(transport, "/spool").ask("observe", {}, timeout_s=30) == {"by": "a call"}
    shepherd, changes = _watched(transport)
    changes.close()  # type: ignore[attr-defined]
    assert shepherd.ask("observe", {}, timeout_s=30) == {"by": "a call"}


def test_a_real_one_that_is_killed_is_replaced_by_a_call(tmp_path: Path) -> None:
    shepherd, changes, pid = _real(tmp_path)
    assert shepherd.ask("observe", {"keys": []}, timeout_s=30)["runs"] == []
    os.kill(pid, signal.SIGKILL)
    assert shepherd.ask("observe", {"keys": []}, timeout_s=30)["runs"] == []
    with pytest.raises(CommandFailed):
        list(changes)


def test_a_real_one_that_is_stopped_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "SUSPECT_S", 1.5)
    shepherd, changes, pid = _real(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    assert shepherd.ask("observe", {"keys": []}, timeout_s=30)["runs"] == []
    with pytest.raises(CommandFailed):
        list(changes)
