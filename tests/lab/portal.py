"""A whole Carrel for tests that kill it: its parts by name, its restart, its own commands."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.portal import ROOT, Portal

PARTS = {"web": "uvicorn", "worker": " worker ", "beat": " beat ", "redis": "unixsocket"}
"""What each part's command line says."""
PATIENCE_S = 120.0
"""For whatever should take seconds, on a machine that others use too."""


def until(
    condition: Callable[[], object], what: Callable[[], object], within_s: float = PATIENCE_S
) -> None:
    """Wait for it; fails with what `what` then says."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, str(what())
        time.sleep(0.1)


@contextmanager
def short_directory() -> Iterator[Path]:
    """For a Carrel's data: a socket's whole name has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="carrel-j-", ignore_cleanup_errors=True) as path:
        yield Path(path)


class Carrel(Portal):
    """As `make run` starts it; `port` is for one that comes back where it was."""

    def __init__(self, data: Path, *, practice: bool = False, port: int | None = None) -> None:
        super().__init__(data, practice=practice)
        if port:
            self.port = port
            self.environment["PORT"] = str(port)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sign_in_link(self) -> str:
        """What the start printed."""
        return self._link

    @property
    def told(self) -> str:
        """The log so far."""
        return self.log.read_text()

    def manage(self, *words: str) -> str:
        """Run `manage.py` as an administrator would; its standard output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words], cwd=ROOT, env=self.environment,
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pid(self, part: str) -> int | None:
        """Of a part's process, None while it does not run."""
        return next((pid for pid in self._children() if PARTS[part] in _command(pid)), None)

    def kill(self, *parts: str) -> None:
        """kill -9; returns when each is being run again, by another process."""
        killed = {part: self.pid(part) for part in parts}
        assert all(killed.values()), f"{killed}: not all run\n{self.told[-2000:]}"
        for pid in killed.values():
            os.kill(pid or 0, signal.SIGKILL)
        for part, old in killed.items():
            until(lambda part=part, old=old: self.pid(part) not in (None, old), lambda: self.told)

    def crash(self) -> None:
        """kill -9 of the supervisor; returns when nothing it started is left."""
        assert self._process is not None
        family = self._children()
        self._process.kill()
        self._process.wait()
        until(lambda: not any(map(_command, family)), lambda: list(map(_command, family)))

    def health(self) -> tuple[int, dict[str, Any]]:
        """What `/healthz` answers; status 0 while nobody does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            connection.close()

    def wait_until_well(self) -> None:
        until(lambda: self.health()[0] == 200, lambda: f"{self.health()}\n{self.told[-4000:]}")

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        with suppress(OSError):
            return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []


def _command(pid: int) -> str:
    """Empty for one that has ended, be it waited for or not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
