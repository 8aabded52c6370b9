"""`python -m portal.supervisor`: run Carrel until Ctrl-C. State under CARREL_DATA, on PORT."""

from __future__ import annotations

import errno
import fcntl
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portal.supervisor import parts
from portal.supervisor.child import end_with_parent
from portal.supervisor.house import Failed, House
from portal.supervisor.log import Log
from portal.supervisor.parts import Place, PlaceError

_ASK_EVERY_S = 0.2
_TELL_EVERY_S = 15


def main() -> int:
    if os.environ.get("MAKELEVEL"):
        # Under make, a kill of make is meant for us.
        end_with_parent(signal.SIGTERM, os.getppid())
    log = Log(["web", "worker", "beat", "practice", "redis", "setup"])
    try:
        where = parts.place(os.environ)
        with _alone(where):
            _port_is_free(where)
            return _run(where, log)
    except PlaceError as error:
        print(f"Carrel does not start: {error}", file=sys.stderr)
        return 1


def _run(where: Place, log: Log) -> int:
    house = House(where, log)
    try:
        _start(house, where, log)
        house.run()
        log.say("stopping (once more: at once)")
    except Failed as error:
        log.say(f"Carrel does not start: {error}")
        return 1
    finally:
        house.stop()
    log.say("stopped")
    return 0


def _start(house: House, where: Place, log: Log) -> None:
    """In the order of need: adding the practice machines as nodes already asks them."""
    if where.practice:
        house.start(parts.practice(where))
    if where.own_redis:
        house.start(parts.redis(where))
        house.wait_for(lambda: _pings(where.redis_socket))
    if house.told_to_stop:
        return
    found = house.prepare()
    if house.told_to_stop:
        return
    for part in (parts.web(where), parts.worker(), parts.beat(where)):
        house.start(part)
    if house.wait_for(_Health(where, log).is_well):
        log.say()
        log.say(f"Carrel answers at {found['base_url']}")
        log.say(f"Sign in once, within the hour: {found['link']}")
        log.say("Ctrl-C stops it.")
        log.say()


class _Health:
    """Asks `/healthz`, and says now and then what is still amiss."""

    def __init__(self, where: Place, log: Log) -> None:
        self._port = where.port
        self._log = log
        self._ask_at = 0.0
        self._tell_at = time.monotonic() + _TELL_EVERY_S

    def is_well(self) -> bool:
        now = time.monotonic()
        if now < self._ask_at:
            return False
        self._ask_at = now + _ASK_EVERY_S
        amiss = self._amiss()
        if amiss and now > self._tell_at:
            self._log.say(f"not ready yet: {amiss}")
            self._tell_at = now + _TELL_EVERY_S
        return not amiss

    def _amiss(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/healthz", headers={"X-Forwarded-Proto": "https"})
            answer = connection.getresponse()
            told = answer.read()
        except (OSError, http.client.HTTPException):
            return "web does not answer yet"
        finally:
            connection.close()
        if answer.status == 200:
            return ""
        try:
            amiss = json.loads(told)["parts"].items()
        except (ValueError, KeyError):
            return f"web answers {answer.status}"
        return ", ".join(f"{part}: {word}" for part, word in amiss if word != "ok")


@contextmanager
def _alone(where: Place) -> Iterator[None]:
    """Hold the data directory's lock. Raises `PlaceError` when another Carrel has it."""
    where.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (where.data / "run.lock").open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise PlaceError(
                f"one is running already on {where.data}: {handle.read().strip()}"
            ) from None
        handle.truncate(0)
        handle.write(f"{where.address} (process {os.getpid()})\n")
        handle.flush()
        yield


def _port_is_free(where: Place) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", where.port))
        except OSError as error:
            why = "in use by another program" if error.errno == errno.EADDRINUSE else error.strerror
            raise PlaceError(
                f"port {where.port} is {why}; choose another one: make run PORT={where.port + 1}"
            ) from None


def _pings(path: Path) -> bool:
    """Whether the Redis behind this socket is ready for commands."""
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(1)
        try:
            trial.connect(str(path))
            trial.sendall(b"PING\r\n")
            return trial.recv(64).startswith(b"+PONG")
        except OSError:
            return False


if __name__ == "__main__":
    sys.exit(main())
