"""A node's shepherd, as seen from here: one verb a call, JSON in and JSON out.

The program is sent to the node once per version, when it turns out not to be there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.nodes.transport import (
    CommandFailed,
    Completed,
    ConnectionLost,
    NoPython,
    Transport,
    first_lines,
)
from jobs.nodes.warm import NOISE_BYTES, Warm, frame, parse
from jobs.shepherd import FILENAME, PROGRAM

LOOKS = ("observe", "read", "probe", "health")
"""Verbs that change nothing: asked anew when an answer was lost."""
LEAST_S = 1.0
"""Left for a call that is made anew, however long the first took."""
STAYS_AT_LEAST_S = 60.0

_HOME = "printf '\\nCARREL_HOME=%s=\\n' \"$HOME\""


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
        self._warm: Warm | None = None
        self._closed = False

    def ask(self, verb: str, request: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """One verb's answer, `ok` taken out. Raises a `NodeError`: `NoPython`, `CommandFailed`
        with the shepherd's own words or with the beginning of whatever came, or the transport's.
        """
        until = time.monotonic() + timeout_s
        answer, warm = None, self._warm
        if warm is not None:
            try:
                answer = warm.ask(verb, request, timeout_s=timeout_s)
            except ConnectionLost:
                # Whoever asks for a change has to know that it may have been made: an error of a
                # second try would say nothing about the first.
                if verb not in LOOKS:
                    raise
        if answer is None:
            answer = self._ask_anew(verb, request, max(until - time.monotonic(), LEAST_S))
        if answer.pop("ok", None) is not True:
            raise CommandFailed(f"{verb}: {answer.get('error') or 'no reason was given'}")
        return answer

    def watch(self) -> Iterator[str]:
        """A run's key for every change on the node, "" as a sign of life.

        While this is being iterated, a shepherd stays on the node and answers what is asked.
        """
        has_sent = self._closed = False
        while True:
            sent, began = self._sent, time.monotonic()
            warm = Warm(self.transport, self._argv("serve"))
            try:
                for key in warm.changes():
                    if self._closed:
                        return
                    self._warm = warm
                    yield key
                if not warm.spoke:
                    raise CommandFailed("serve: it left without a word")
            except CommandFailed:
                if warm.spoke or has_sent:
                    raise
                self._send(sent)
                has_sent = True
                continue
            finally:
                if self._warm is warm:
                    self._warm = None
                warm.close()
            # It leaves now and then to make room for a new one; not every moment.
            if self._closed or time.monotonic() - began < STAYS_AT_LEAST_S:
                return

    def close(self) -> None:
        """Let go of the one that stays, and of the connection. A later call opens a new one."""
        self._closed = True
        if warm := self._warm:
            warm.close()
        self.transport.close()

    def _ask_anew(self, verb: str, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """By a program that is started for this alone."""
        stdin, sent = frame(request), self._sent
        done = self._run(verb, stdin, timeout_s)
        answer = _parse(done.stdout)
        if answer is None and _may_lack_program(done):
            self._send(sent)
            done = self._run(verb, stdin, timeout_s)
            answer = _parse(done.stdout)
        if answer is None:
            raise _no_answer(verb, done)
        return answer

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


def _parse(stdout: bytes) -> dict[str, Any] | None:
    """The answer is the last line; a shell's start-up files may have said something before."""
    line = stdout.rstrip().rpartition(b"\n")[2]
    answer = parse(line)
    at = -1
    # Such a greeting may lack its newline.
    while answer is None and (at := line.find(b'{"', at + 1, NOISE_BYTES)) >= 0:
        answer = parse(line[at:])
    return answer if answer is not None and "ok" in answer else None


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
