"""A node's shepherd, as seen from here: one verb a call, JSON in and JSON out.

The program is sent to the node once per version, when it turns out not to be there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.nodes.transport import (
    CommandFailed,
    Completed,
    NoPython,
    Transport,
    first_lines,
)
from jobs.shepherd import FILENAME, PROGRAM

# The shepherd gives a sign of life every 5 s: three missed ones are a silence.
WATCH_SILENCE_S = 16.0

_HOME = "printf '\\nCARREL_HOME=%s=\\n' \"$HOME\""
_NOISE_BYTES = 64 * 1024


class Shepherd:
    """Calls the shepherd in the directory `spool` of a node; safe to use from several threads.

    `spool` is absolute or starts with `~/`, the home of the account there.
    """

    def __init__(self, transport: Transport, spool: str) -> None:
        """Raises ValueError for a path of another form."""
        if not spool.startswith(("/", "~/")) or len(spool.rstrip("/")) < 2 or "\0" in spool:
            raise ValueError(f"spool: {spool!r} is neither an absolute path nor ~/ and a name")
        self.transport = transport
        self._spool = spool.rstrip("/")
        self._directory: str | None = None if spool.startswith("~/") else self._spool
        self._sending = threading.Lock()
        self._sent = 0

    def ask(self, verb: str, request: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """One verb's answer, `ok` taken out. Raises a `NodeError`: `NoPython`, `CommandFailed`
        with the shepherd's own words or with the beginning of whatever came, or the transport's.
        """
        stdin, sent = _request(request), self._sent
        done = self._run(verb, stdin, timeout_s)
        answer = _parse(done.stdout)
        if answer is None and _may_lack_program(done):
            self._send(sent)
            done = self._run(verb, stdin, timeout_s)
            answer = _parse(done.stdout)
        if answer is None:
            raise _no_answer(verb, done)
        if answer.pop("ok") is not True:
            raise CommandFailed(f"{verb}: {answer.get('error') or 'no reason was given'}")
        return answer

    def watch(self) -> Iterator[str]:
        """A run's key for every change on the node, "" as a sign of life."""
        sent, spoke = self._sent, False
        argv = self._argv("watch")
        for last in (False, True):
            try:
                for line in self.transport.follow(
                    argv, stdin=_request({}), silence_s=WATCH_SILENCE_S
                ):
                    change = _parse_line(line)
                    if change is None and spoke:
                        raise CommandFailed(f"watch: {first_lines(line)}")
                    if change is not None:  # what comes before is a shell's greeting
                        spoke = True
                        yield _key_of(change)
                return
            except CommandFailed:
                if spoke or last:
                    raise
                self._send(sent)

    def directory(self) -> str:
        """The spool directory, absolute."""
        if self._directory is None:
            done = self.transport.run(["sh", "-c", _HOME])
            _, found, rest = done.stdout.rpartition(b"\nCARREL_HOME=")
            home = rest.rpartition(b"=")[0].decode("utf-8", "surrogateescape")
            if not found or not home.startswith("/"):
                raise CommandFailed(f"The account has no home directory on the node: {_said(done)}")
            self._directory = home.rstrip("/") + self._spool[1:]
        return self._directory

    def _argv(self, verb: str) -> list[str]:
        directory = self.directory()
        return ["python3", "-I", "-S", f"{directory}/{FILENAME}", verb, directory]

    def _run(self, verb: str, stdin: bytes, timeout_s: float) -> Completed:
        done = self.transport.run(self._argv(verb), stdin=stdin, timeout_s=timeout_s)
        if done.exit_code in (126, 127):
            raise NoPython(f"python3 cannot be started on the node: {_said(done)}")
        return done

    def _send(self, sent_before: int) -> None:
        """Put the program there, once for all the threads that missed it."""
        with self._sending:
            if self._sent == sent_before:
                self.transport.put(f"{self.directory()}/{FILENAME}", PROGRAM, mode=0o600)
                self._sent += 1


def _request(request: Mapping[str, Any]) -> bytes:
    body = json.dumps(request).encode()
    return b"%d\n" % len(body) + body


def _parse(stdout: bytes) -> dict[str, Any] | None:
    """The answer is the last line; a shell's start-up files may have said something before."""
    line = stdout.rstrip().rpartition(b"\n")[2]
    answer = _parse_line(line)
    at = -1
    # Such a greeting may lack its newline.
    while answer is None and (at := line.find(b'{"', at + 1, _NOISE_BYTES)) >= 0:
        answer = _parse_line(line[at:])
    return answer if answer is not None and "ok" in answer else None


def _parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _key_of(change: dict[str, Any]) -> str:
    if change.get("ok", True) is not True:
        raise CommandFailed(f"watch: {change.get('error')}")
    key = change.get("key", "")
    return key if isinstance(key, str) else ""


def _may_lack_program(done: Completed) -> bool:
    """It is not there (python's exit code 2), or a crash of the node left it empty or torn."""
    return (
        (done.exit_code == 2 and b"can't open file" in done.stderr)
        or b"SyntaxError" in done.stderr
        or (done.exit_code == 0 and not done.stdout.strip())
    )


def _no_answer(verb: str, done: Completed) -> NoPython | CommandFailed:
    if b"SyntaxError" in done.stderr:
        return NoPython(f"python3 on the node is too old: {first_lines(done.stderr[-300:])}")
    return CommandFailed(
        f"{verb}: no answer but this, with exit code {done.exit_code}: {_said(done)}"
    )


def _said(done: Completed) -> str:
    return first_lines(done.stdout.strip() + b"\n" + done.stderr) or "nothing at all"
