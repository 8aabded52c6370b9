"""`make run`'s supervisor, for real: all parts start, come back when killed, and end together."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from portal.supervisor import parts
from portal.supervisor.parts import PlaceError

pytestmark = pytest.mark.portal
ROOT = Path(__file__).resolve().parents[2]
STARTS_WITHIN_S = 120


def until(condition: Callable[[], object], within_s: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


class Carrel:
    """One supervisor, its log so far, and the processes that belong to its data directory."""

    def __init__(self, data: Path, port: int, **environment: str) -> None:
        self.data, self.port = data, port
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CARREL_", "DJANGO_", "PYTEST", "REDIS", "DATABASE"))
        }
        settings = {"CARREL_DATA": str(data), "PORT": str(port), **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "portal.supervisor"],
            cwd=ROOT,
            env=kept | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += self.process.stdout

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def health(self) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except OSError:
            return 0, {}
        finally:
            connection.close()

    def wait_until_well(self) -> None:
        until(lambda: self.health()[0] == 200, STARTS_WITHIN_S, lambda: self.log)

    def wait_for_line(self, text: str) -> None:
        until(lambda: text in self.log, STARTS_WITHIN_S, lambda: self.log)

    def pids(self) -> dict[int, str]:
        """Every living process that was started on this data directory, with its command."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                environment = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            # Redis writes its title over its environment.
            if os.fsencode(self.data) in environment or str(self.data) in command:
                found[int(entry.name)] = command
        return found

    def pid_of(self, words: str) -> int:
        (pid,) = [pid for pid, command in self.pids().items() if words in command]
        return pid

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self._reader.join(timeout=60)
        return code

    def clean_up(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        until(lambda: not self.pids(), 60, lambda: f"left over: {self.pids()}")
        self._reader.join(timeout=60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Carrel]:
    carrel = Carrel(tmp_path_factory.mktemp("data"), free_port())
    carrel.wait_for_line("Sign in once")
    yield carrel
    carrel.clean_up()


def test_it_says_where_it_answers_and_how_to_sign_in(running: Carrel) -> None:
    assert f"Carrel answers at http://127.0.0.1:{running.port}\n" in running.log
    link = re.search(rf"http://127\.0\.0\.1:{running.port}(/\S+/)\n", running.log)
    assert link is not None
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("GET", link.group(1))
    assert connection.getresponse().status == 200
    connection.close()


def test_every_part_is_well(running: Carrel) -> None:
    status, told = running.health()
    assert (status, told["status"]) == (200, "ok")
    assert told["parts"] == dict.fromkeys(["web", "database", "redis", "worker", "beat"], "ok")


def test_nobody_else_may_read_its_state(running: Carrel) -> None:
    state = (
        "redis/s",
        "redis/log",
        "secret_key",
        "ssh/id_ed25519",
        "carrel.sqlite3",
        "beat",
    )
    for name in state:
        assert (running.data / name).stat().st_mode & 0o077 == 0, name


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("web", "uvicorn"),
        ("worker", " worker "),
        ("beat", " beat "),
        ("redis", "unixsocket"),
        ("practice", "jobs.practice"),
    ],
)
def test_a_killed_part_starts_again(running: Carrel, part: str, words: str) -> None:
    killed = running.pid_of(words)
    os.kill(killed, signal.SIGKILL)
    running.wait_for_line(f"{part} was killed by SIGKILL")

    def is_back() -> bool:
        return any(words in text and pid != killed for pid, text in running.pids().items())

    until(is_back, STARTS_WITHIN_S, lambda: running.log)
    running.wait_until_well()


def test_a_second_start_on_the_same_data_is_refused(running: Carrel) -> None:
    second = Carrel(running.data, free_port())
    assert second.process.wait(timeout=60) == 1
    until(lambda: second.lines, 10, lambda: "it said nothing")
    assert "running already" in second.log
    assert f"http://127.0.0.1:{running.port}" in second.log
    running.wait_until_well()


def test_a_taken_port_is_named_with_another(running: Carrel, tmp_path: Path) -> None:
    second = Carrel(tmp_path, running.port)
    assert second.process.wait(timeout=60) == 1
    until(lambda: second.lines, 10, lambda: "it said nothing")
    assert f"port {running.port} is in use" in second.log
    assert f"make run PORT={running.port + 1}" in second.log


# From here on it does not run any more.


def test_an_interrupt_ends_all_parts(running: Carrel) -> None:
    boot_id = (running.data / "practice/practice-1/spool/boot_id").read_text()
    assert running.stop() == 0
    assert running.pids() == {}
    assert "does not end" not in running.log
    assert (running.data / "practice/practice-1/spool/boot_id").read_text() != boot_id


def test_killing_the_supervisor_leaves_nothing(running: Carrel) -> None:
    again = Carrel(running.data, running.port)
    again.wait_for_line("Sign in once")
    assert len(again.pids()) >= 6
    again.process.kill()
    again.clean_up()


def test_without_the_practice_lab_when_told_so(running: Carrel) -> None:
    again = Carrel(running.data, running.port, CARREL_PRACTICE="0")
    again.wait_for_line("Sign in once")
    assert not [text for text in again.pids().values() if "jobs.practice" in text]
    assert again.stop(signal.SIGTERM) == 0
    again.clean_up()


def test_a_stop_while_it_starts(running: Carrel) -> None:
    again = Carrel(running.data, running.port)
    again.wait_for_line("simulated GPUs")
    assert again.stop() == 0
    assert again.pids() == {}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"PORT": "http"}, "PORT is 'http'; it should be a number from 1 to 65535"),
        ({"PORT": "70000"}, "PORT is '70000'"),
        ({"CARREL_PRACTICE": "maybe"}, "CARREL_PRACTICE is 'maybe'"),
        ({"CARREL_DATA": "/tmp/" + "x" * 100}, "too long for a socket"),
    ],
)
def test_a_wrong_setting_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(PlaceError, match=re.escape(named)):
        parts.place(environment)


@pytest.mark.parametrize(
    ("environment", "practice"),
    [
        ({}, True),
        ({"REDIS_URL": "redis://elsewhere"}, False),
        ({"DATABASE_URL": "postgresql://elsewhere/carrel"}, False),
        ({"DATABASE_URL": "postgresql://elsewhere/carrel", "CARREL_PRACTICE": "1"}, True),
        ({"CARREL_PRACTICE": "0"}, False),
    ],
)
def test_the_practice_lab_belongs_to_the_embedded_settings(
    environment: dict[str, str], practice: bool, tmp_path: Path
) -> None:
    assert parts.place({**environment, "CARREL_DATA": str(tmp_path)}).practice is practice
