"""A shepherd that stays answers like one that is called, many at a time, and holds nothing up."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.shepherd.node import Node, eventually, read_all, spec


class Server:
    """A `serve` call, and what it says."""

    def __init__(self, node: Node) -> None:
        self.process = node.start("serve", {})
        self._text = b""
        self.heard: list[dict[str, Any]] = []
        assert self.line() == {}

    def line(self, within_s: float = 60) -> dict[str, Any]:
        """The next thing it says."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + within_s
        while b"\n" not in self._text:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self.process.stdout], [], [], left)[0], "it says nothing"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, "it has left"
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def send(self, number: int, verb: str, within_s: float = 30, **request: Any) -> None:
        asked = {"id": number, "verb": verb, "request": request, "within_s": within_s}
        data = json.dumps(asked).encode()
        self.write(b"%d\n" % len(data) + data)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) or 0 :]

    def answer(self, number: int, within_s: float = 60) -> dict[str, Any]:
        """The answer to this request; answers come in any order, so others may have come first."""
        deadline = time.monotonic() + within_s
        while not (found := [line for line in self.heard if line.get("id") == number]):
            assert time.monotonic() < deadline, f"no answer to {number}, but {self.heard}"
            self.heard.append(self.line())
        return found[0]


@pytest.fixture
def hanging(node: Node, tmp_path: Path) -> None:
    """The node's `nvidia-smi` never answers. Asked for before the server, which inherits it."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    node.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"


@pytest.fixture
def server(node: Node) -> Iterator[Server]:
    one = Server(node)
    yield one
    one.process.kill()
    one.process.wait()


def test_it_answers_as_a_call_does(node: Node, server: Server) -> None:
    server.send(1, "launch", launches=[spec("echo hello; exit 3", "j1.a1.n0")])
    assert server.answer(1)["launched"][0]["accepted"]
    node.ended()
    server.send(2, "observe", keys=["j1.a1.n0"])
    server.send(3, "read", ranges=[{"key": "j1.a1.n0", "offset": 0, "length": 100}])
    answers = {line["id"]: line for line in (server.answer(2), server.answer(3))}
    called = node.call("observe", keys=["j1.a1.n0"])
    assert answers[2]["runs"] == called["runs"]
    assert answers[3]["ranges"] == node.call(
        "read", ranges=[{"key": "j1.a1.n0", "offset": 0, "length": 100}]
    )["ranges"]  # fmt: skip
    assert {"key": "j1.a1.n0"} in server.heard


def test_an_answer_that_takes_long_holds_up_no_other(hanging: None, server: Server) -> None:
    """It also ends when nobody waits for it any more."""
    server.send(1, "observe", within_s=2, keys=[], gpus=True)
    server.send(2, "observe", keys=[])
    assert server.answer(2)["ok"]
    assert 1 not in [line.get("id") for line in server.heard]
    last = server.answer(1)
    assert (last["ok"], "took too long" in last["error"]) == (False, True)
    # Signs of life meanwhile: nobody takes it for dead.
    assert {} in server.heard


def test_what_makes_no_sense_is_answered(server: Server) -> None:
    server.send(1, "dance")
    assert "VERB" in server.answer(1)["error"]
    server.send(2, "observe")
    assert server.answer(2)["ok"] is False
    server.send(3, "observe", keys=[])
    assert server.answer(3)["ok"] is True


def test_what_is_no_request_ends_it_with_a_word(server: Server) -> None:
    server.write(b"hello\n")
    assert "length in bytes" in server.line()["error"]
    assert server.process.wait(60) == 0


def test_a_request_of_a_megabyte(node: Node, server: Server) -> None:
    script = ": " + "x" * 1_000_000 + "\necho done"
    server.send(1, "launch", launches=[spec(script, "j1.a1.n0")])
    assert server.answer(1)["launched"][0]["accepted"]
    assert node.ended()["exit_code"] == 0


def test_runs_outlive_it_and_hold_nothing_of_it(node: Node, server: Server) -> None:
    server.send(1, "launch", launches=[spec("sleep 600", "j1.a1.n0")])
    assert server.answer(1)["ok"]
    server.process.kill()
    server.process.wait()
    assert server.process.stdout is not None
    # Its output ends although the run goes on: a connection can be closed.
    read_all(server.process.stdout)
    assert node.observe()["phase"] == "running"


def test_it_takes_no_more_than_it_can_bear(hanging: None, server: Server) -> None:
    for number in range(20):
        server.send(number, "observe", within_s=3, keys=[], gpus=True)
    ends = {}
    while len(ends) < 20:
        line = server.line()
        if "id" in line:
            ends[line["id"]] = line["error"]
    assert ["no answer yet" in ends[number] for number in range(20)] == [False] * 16 + [True] * 4
    server.send(20, "observe", keys=[])
    assert server.answer(20)["ok"]


def test_no_process_is_left_when_its_caller_hangs_up(server: Server) -> None:
    server.send(1, "observe", keys=[])
    server.answer(1)
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children")
    eventually(lambda: not children.read_text().split(), "who answered is gone")
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(60) == 0


def test_a_stopped_one_goes_on_where_it_was(node: Node, server: Server) -> None:
    server.process.send_signal(signal.SIGSTOP)
    server.send(1, "observe", keys=[])
    server.process.send_signal(signal.SIGCONT)
    assert server.answer(1)["ok"]


def test_each_pipe_goes_with_its_server(node: Node) -> None:
    one = Server(node)
    subprocess.run(["kill", "-TERM", str(one.process.pid)], check=True)
    one.process.wait(60)
    node.launch("true")
    node.ended()
    eventually(lambda: not list((node.spool / "watch").iterdir()), "its pipe is removed")


def test_who_ends_it_ends_no_launch_half_way(node: Node) -> None:
    """Its process group is signalled, as sshd does it; the launch is answered in one of its own."""
    process = subprocess.Popen(
        node.argv("serve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        env=node.environment, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"2\n{}")
    assert process.stdout.readline() == b"{}\n"
    keys = [f"j{number}.a1.n0" for number in range(60)]
    request = {"launches": [spec("exit 0", key) for key in keys]}
    data = json.dumps({"id": 1, "verb": "launch", "request": request, "within_s": 60}).encode()
    process.stdin.write(b"%d\n" % len(data) + data)
    eventually(lambda: node.run_dir(keys[0]).exists(), "it has begun", every_s=0.0005)
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)
    for key in keys:
        eventually(lambda key=key: node.run_dir(key).exists(), f"{key} is launched")
    ends = {node.ended(key)["cause"] for key in keys}
    assert ends == {"exited"}


def test_one_that_cannot_be_stopped_keeps_no_other_from_it(node: Node) -> None:
    node.launch("sleep 600", key="a")
    node.launch("sleep 600", key="b")
    begun = node.run_dir("a") / "begun"
    word = begun.readlink()
    begun.unlink()
    begun.mkdir()
    stops = [{"key": key, "signal": 15, "grace_s": 0} for key in ("a", "b")]
    phases = {one["key"]: one["phase"] for one in node.call("stop", stops=stops)["stopped"]}
    assert phases["a"] == "unknown"
    assert node.ended("b")["cause"] == "stopped"
    begun.rmdir()
    begun.symlink_to(word)
