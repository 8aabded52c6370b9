"""A whole Carrel of our own, started and stopped as `make run` does, and a person signed in to it.

with Portal(directory, practice=True) as portal:
    person = portal.sign_in()
    job_id, asked_at = person.submit(script)
    portal.wait_for_end([job_id], timeout_s=30)
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

ROOT = Path(__file__).resolve().parent.parent
STARTS_WITHIN_S = 120
STOPS_WITHIN_S = 60
POLL_S = 0.02
_LINK = re.compile(r"Sign in once.*?: (http://\S+)")
_LIVING = "('PENDING', 'CONFIGURING', 'RUNNING', 'COMPLETING')"


class PortalFailed(Exception):
    """It did not do what was asked; the text says what it did."""


class Portal:
    """The supervisor and all it starts, with every file under `data`, on a free port."""

    def __init__(self, data: Path, *, practice: bool) -> None:
        self.data = data
        self.port = _free_port()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not _configures(name)},
            "CARREL_DATA": str(data),
            "CARREL_PRACTICE": "1" if practice else "0",
            "PORT": str(self.port),
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        self.log = data.with_name(f"{data.name}.log")
        self._link = ""
        self._answers = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C reaches only us, and we end it in order.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "portal.supervisor"], cwd=ROOT, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        try:
            threading.Thread(target=self._keep_log, args=(self._process,), daemon=True).start()
            if not self._answers.wait(STARTS_WITHIN_S) or not self._link:
                raise PortalFailed(f"Carrel did not start:\n{self.log.read_text()[-2000:]}")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def sign_in(self) -> Person:
        """Use the one-time link that the start printed."""
        person = Person(self.port)
        token = urlsplit(self._link).path.rstrip("/").rpartition("/")[2]
        person.get(urlsplit(self._link).path)
        person.post("/enter/", {"token": token})
        return person

    def inside(self, verb: str, text: str = "") -> str:
        """Run `bench.inside` as a process of this Carrel; its standard output."""
        done = subprocess.run(
            [sys.executable, "-m", "bench.inside", verb], cwd=ROOT, env=self.environment,
            input=text, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        if done.returncode:
            raise PortalFailed(f"{verb}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read its database, past all its code."""
        uri = f"file:{self.data / 'carrel.sqlite3'}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=20)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def wait_for_end(self, ids: Collection[int] | None, *, timeout_s: float) -> None:
        """Until all these jobs, or all there are, have ended. Raises `PortalFailed`."""
        only = "" if ids is None else f"AND id IN ({','.join(str(int(pk)) for pk in ids)})"
        query = f"SELECT state, count(*) FROM portal_job WHERE state IN {_LIVING} {only} GROUP BY 1"
        deadline = time.monotonic() + timeout_s
        while left := self.rows(query):
            if time.monotonic() > deadline:
                told = ", ".join(f"{count} {state}" for state, count in left)
                raise PortalFailed(f"after {timeout_s:.0f} s there are still {told} jobs")
            time.sleep(POLL_S)

    def _keep_log(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with self.log.open("w") as log:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if found := _LINK.search(line):
                    self._link = found[1]
                    self._answers.set()
        self._answers.set()

    def _end(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Person:
    """Somebody's browser, as far as forms go: one kept connection, cookies, CSRF."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._origin = f"http://127.0.0.1:{port}"
        self._cookies: dict[str, str] = {}

    def twin(self) -> Person:
        """The same session on another connection."""
        other = Person(self._port)
        other._cookies = dict(self._cookies)
        return other

    def get(self, path: str) -> str:
        """A page. Raises `PortalFailed` unless it answers 200."""
        self._connection.close()  # an idle one may have been given up on the other side
        return self._ask("GET", path, None, 200)[0]

    def post(self, path: str, fields: Mapping[str, str]) -> str:
        """Send a form; where it leads. Raises `PortalFailed` unless it was taken."""
        token = {"csrfmiddlewaretoken": self._cookies["csrftoken"]}
        return self._ask("POST", path, urlencode({**fields, **token}), 302)[1]

    def submit(self, script: str, **fields: str) -> tuple[int, float]:
        """Fill in and send the submit form: the job's id, and when it was sent (wall clock)."""
        page = self.get("/jobs/new/")
        nonce = re.search(r'name="nonce"[^>]*value="([^"]+)"', page)
        if nonce is None:
            raise PortalFailed("the submit form has no nonce")
        form = {"script": script, "nonce": nonce[1], **fields}
        asked_at = time.time()
        where = self.post("/jobs/new/", form)
        return int(where.rstrip("/").rpartition("/")[2]), asked_at

    def _ask(self, method: str, path: str, body: str | None, expected: int) -> tuple[str, str]:
        headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in self._cookies.items())}
        if body is not None:
            headers |= {
                "Content-Type": "application/x-www-form-urlencoded",
                "Origin": self._origin,
            }
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        for header in answer.headers.get_all("Set-Cookie") or ():
            self._cookies |= {name: morsel.value for name, morsel in SimpleCookie(header).items()}
        if answer.status != expected:
            raise PortalFailed(f"{method} {path} answered {answer.status}: {_words(text)}")
        return text, answer.headers.get("Location") or ""


def _words(page: str) -> str:
    """What a page says, without its markup and its frame."""
    main = page.partition("<main")[2] or page
    shown = re.sub(r"<(script|style|textarea|select).*?</\1>|<[^>]*>", " ", main, flags=re.S)
    return " ".join(shown.split())[:1000]


def _configures(name: str) -> bool:
    """Whether a variable would make our Carrel another one than `make run` starts."""
    return name.startswith("CARREL_") or name in ("DATABASE_URL", "REDIS_URL", "MAKELEVEL")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
