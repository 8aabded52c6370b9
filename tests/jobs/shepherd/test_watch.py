"""Watchers hear at once, and leave when nobody listens."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.jobs.shepherd.node import Node, eventually, gate


class Watcher:
    """A `serve` call whose lines are collected by a thread."""

    def __init__(self, node: Node) -> None:
        self.process = node.start("serve", {})
        self.lines: queue.Queue[dict[str, str]] = queue.Queue()
        threading.Thread(target=self._collect, daemon=True).start()
        assert self.next() == {}

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self) -> dict[str, str]:
        return self.lines.get(timeout=60)

    def next_key(self) -> str:
        deadline = time.monotonic() + 60
        while not (line := self.next()):
            assert time.monotonic() < deadline, "only signs of life come"
        return line["key"]


@pytest.fixture
def watcher(node: Node) -> Iterator[Watcher]:
    one = Watcher(node)
    yield one
    one.process.kill()
    one.process.wait()


def test_start_growth_checkpoints_and_end_are_told(
    node: Node, watcher: Watcher, tmp_path: Path
) -> None:
    # Each run does one thing: what is told of it later can be of nothing else.
    deeds: dict[str, tuple[str, Callable[[str], bool]]] = {
        "grows": ("echo word; read", lambda key: node.log(key) == b"word\n"),
        "saves": (
            "touch $CARREL_CHECKPOINT_DIR/step_1; read",
            lambda key: "step_1" in node.checkpoints(key),
        ),
        "ends": ("true", lambda key: node.observe(key)["phase"] == "exited"),
    }
    with ExitStack() as gates:
        let_go_on = {}
        for key, (deed, _) in deeds.items():
            go = tmp_path / f"go-{key}"
            let_go_on[key] = gates.enter_context(gate(go))
            saved = str(tmp_path / f"saved-{key}")
            node.launch(f"exec <{go}; read; {deed}", key=key, checkpoint_dir=saved)
        assert _told_until_quiet(watcher) == set(deeds)
        told = set()
        for key, (_, is_done) in deeds.items():
            let_go_on[key]()
            while (heard := watcher.next_key()) != key:
                assert heard in told
            told.add(key)
            eventually(lambda key=key, is_done=is_done: is_done(key), "what was told is so")


def _told_until_quiet(watcher: Watcher) -> set[str]:
    """The runs that were told of until nothing but a sign of life came for a while."""
    told = set()
    while line := watcher.next():
        told.add(line["key"])
    return told


def test_every_watcher_hears_of_every_run(node: Node, watcher: Watcher) -> None:
    other = Watcher(node)
    node.launch("true", key="j1.a1.n0")
    node.launch("true", key="j2.a1.n0")
    for one in (watcher, other):
        heard = {one.next_key()}
        while heard != {"j1.a1.n0", "j2.a1.n0"}:
            heard.add(one.next_key())
    other.process.kill()
    other.process.wait()


def test_it_leaves_when_its_reader_goes(node: Node) -> None:
    process = node.start("serve", {})
    assert process.stdout is not None
    assert process.stdout.readline() == b"{}\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert list((node.spool / "watch").iterdir()) == []


def test_it_leaves_when_the_one_that_called_it_is_killed(node: Node) -> None:
    reading, writing = os.pipe()
    theirs, ours = os.pipe()
    shell = subprocess.Popen(
        # A shell gives its background children no input of its own.
        ["bash", "-c", f'"$@" <&{theirs} & echo $!; wait', "-", *node.argv("serve")],
        pass_fds=[theirs],
        stdout=writing,
        bufsize=0,
    )
    os.close(writing)
    os.write(ours, b"2\n{}")
    text = b""
    while not text.endswith(b"{}\n"):
        text += os.read(reading, 100)
    shell.kill()
    shell.wait()
    pid = int(text.split()[0])
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the watcher leaves")
    for fd in (reading, theirs, ours):
        os.close(fd)


def test_the_pipe_of_a_killed_watcher_is_removed(node: Node) -> None:
    one = Watcher(node)
    one.process.kill()
    one.process.wait()
    assert len(list((node.spool / "watch").iterdir())) == 1
    node.launch("true")
    node.ended()
    eventually(lambda: not list((node.spool / "watch").iterdir()), "its pipe is removed")
