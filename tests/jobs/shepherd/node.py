"""A node as the tests see it: the real file, called as over SSH."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from jobs.shepherd import FILENAME, PROGRAM

Found = TypeVar("Found")


def eventually(
    look: Callable[[], Found], what: str, *, within_s: float = 60, every_s: float = 0.05
) -> Found:
    """What `look` gives as soon as that is true."""
    deadline = time.monotonic() + within_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"never came about: {what}"
        time.sleep(every_s)


@contextmanager
def gate(path: Path) -> Iterator[Callable[[], object]]:
    """A named pipe for scripts to `read` from; what it gives lets one of them go on.

    It stays open both ways: opened for each turn, the pipe could still be open from the last turn
    when its reader comes for the next, who then sees it end, and nobody reads what comes after.
    """
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)
    try:
        yield lambda: os.write(both, b"\n")
    finally:
        os.close(both)


def processes_with(word: str) -> list[int]:
    """Living processes that have this word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(") ")[2][0]
            if state not in "ZX" and word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def read_all(pipe: IO[bytes], *, within_s: float = 120) -> bytes:
    """What comes until nobody holds the other end any more."""
    deadline = time.monotonic() + within_s
    text = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"somebody still holds the pipe; so far it gave {text[-1000:]!r}"
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            return text
        text += data


class Node:
    """Calls verbs and knows where things are."""

    def __init__(self, spool: Path, python: str = sys.executable) -> None:
        self.spool = spool
        self.python = python
        self.program = spool / FILENAME
        self.environment = dict(os.environ)
        spool.mkdir(mode=0o700)
        self.program.write_bytes(PROGRAM)

    def argv(self, verb: str) -> list[str]:
        return [self.python, "-I", "-S", str(self.program), verb, str(self.spool)]

    def start(self, verb: str, request: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Begin a call; its stdin stays open, as over SSH."""
        process = subprocess.Popen(
            self.argv(verb),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            bufsize=0,
        )
        data = json.dumps(request).encode()
        assert process.stdin is not None
        process.stdin.write(b"%d\n" % len(data) + data)
        return process

    def ask(self, verb: str, **request: Any) -> dict[str, Any]:
        """A call's answer, good or bad."""
        process = self.start(verb, request)
        assert process.stdout is not None
        text = read_all(process.stdout)
        assert process.wait(timeout=60) == 0
        assert process.stdin is not None
        process.stdin.close()
        process.stdout.close()
        answer: dict[str, Any] = json.loads(text)
        return answer

    def call(self, verb: str, **request: Any) -> dict[str, Any]:
        """A call's good answer."""
        answer = self.ask(verb, **request)
        assert answer["ok"], answer
        return answer

    def launch(self, script: str, key: str = "j1.a1.n0", **fields: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("launch", launches=[spec(script, key, **fields)])
        return answer["launched"][0]

    def observe(self, key: str = "j1.a1.n0") -> dict[str, Any]:
        run: dict[str, Any] = self.call("observe", keys=[key])["runs"][0]
        return run

    def ended(self, key: str = "j1.a1.n0") -> dict[str, Any]:
        """The run as seen when it has ended."""

        def look() -> dict[str, Any] | None:
            run = self.observe(key)
            return run if run["phase"] == "exited" else None

        return eventually(look, f"{key} ends")

    def stop(
        self, key: str = "j1.a1.n0", *, number: int = 15, grace_s: float = 30, why: str = ""
    ) -> None:
        stop = {"key": key, "signal": number, "grace_s": grace_s, "why": why}
        self.call("stop", stops=[stop])

    def run_dir(self, key: str = "j1.a1.n0") -> Path:
        return self.spool / "runs" / key

    def log(self, key: str = "j1.a1.n0") -> bytes:
        """What is in the log by now."""
        try:
            return (self.run_dir(key) / "log").read_bytes()
        except FileNotFoundError:
            return b""

    def says(self, word: bytes, key: str = "j1.a1.n0") -> None:
        eventually(lambda: word in self.log(key), f"{word!r} in the log")

    def guards(self, key: str = "j1.a1.n0") -> tuple[int, int]:
        """Process numbers of minder and keeper."""
        words = (self.run_dir(key) / "begun").readlink().name.split(".")
        return int(words[0]), int(words[2])

    def checkpoints(self, key: str = "j1.a1.n0") -> dict[str, dict[str, Any]]:
        """Those listed, by name."""
        answer = self.call("observe", keys=[key], checkpoints=True)
        assert not answer["problems"]
        return {one["name"]: one for one in answer["checkpoints"]}

    def keys(self) -> Iterator[str]:
        runs = self.spool / "runs"
        return (path.name for path in runs.iterdir()) if runs.is_dir() else iter(())

    def end_everything(self) -> None:
        keys = list(self.keys())
        stops = [{"key": key, "signal": int(signal.SIGKILL), "grace_s": 0} for key in keys]
        self.call("stop", stops=stops)
        for key in keys:
            self.ended(key)


def tail(run: dict[str, Any]) -> bytes:
    """The log that came with an ended run."""
    assert run["log_tail"] is not None
    return base64.b64decode(run["log_tail"])


def spec(script: str, key: str, **fields: Any) -> dict[str, Any]:
    """A launch with ordinary fields, as the portal sends it."""
    return {
        "key": key,
        "script": script,
        "environment": {},
        "tasks": [{}],
        "workdir": "/tmp",
        "walltime_s": 600,
        "checkpoint_dir": "",
        "stdout": None,
        "stderr": None,
        "warning_signal": 15,
        "warning_before_s": 0,
        "grace_s": 30,
        "memory_mib": None,
        "log_cap_bytes": 64 * 1024 * 1024,
        **fields,
    }
