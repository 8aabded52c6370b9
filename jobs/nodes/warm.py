"""A shepherd that stays: one program on the node that answers call after call.

Starting Python there for each call costs more than most answers. What goes wrong here is no
error of the node: the call is made anew, by a program of its own, and that tells.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.nodes.transport import (
    CommandFailed,
    ConnectionLost,
    DeadlineExceeded,
    Hold,
    NodeError,
    Transport,
    first_lines,
)

SILENCE_S = 16.0
"""It gives a sign of life every 5 s: three missed ones are a silence."""
SUSPECT_S = 3.5
"""While it has something to answer it gives one every second."""
NOISE_BYTES = 64 * 1024
"""What a shell's start-up files may say before an answer."""
MAX_REQUEST_BYTES = 1 << 20
"""What is longer goes its own way, or it would hold up the others."""


@dataclass
class _Asked:
    answered: threading.Event = field(default_factory=threading.Event)
    answer: dict[str, Any] | None = None


class Warm:
    """One run of the shepherd's verb `serve`. Safe to use from several threads."""

    def __init__(self, transport: Transport, argv: Sequence[str]) -> None:
        self._transport = transport
        self._argv = list(argv)
        self._hold = Hold()
        self._changes: queue.Queue[str | None] = queue.Queue()
        self._asked: dict[int, _Asked] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._over = False
        self._error: NodeError | None = None
        self._spoke = False
        self._noise = 0

    @property
    def spoke(self) -> bool:
        """It has given its first sign of life."""
        return self._spoke

    def changes(self) -> Iterator[str]:
        """Start it, and yield the key of each run that changes, "" as a sign of life.

        Ends when it leaves by itself. Raises a `NodeError`.
        """
        threading.Thread(target=self._follow, daemon=True).start()
        while (key := self._changes.get()) is not None:
            yield key
        if self._error is not None:
            raise self._error

    def ask(
        self, verb: str, request: Mapping[str, Any], *, timeout_s: float
    ) -> dict[str, Any] | None:
        """The verb's answer with its `ok`; None if it was not asked, and certainly not carried out.

        Once it was asked it may have been carried out: raises ConnectionLost when the answer was
        lost, DeadlineExceeded when the node is well but has none in time.
        """
        number, asked = next(self._numbers), _Asked()
        text = frame({"id": number, "verb": verb, "request": request, "within_s": timeout_s})
        until = time.monotonic() + timeout_s
        with self._lock:
            if self._over or not self.spoke or len(text) > MAX_REQUEST_BYTES:
                return None
            self._asked[number] = asked
        try:
            if not self._hold.write(text, timeout_s=min(timeout_s, SUSPECT_S)):
                return None
            if not self._wait(asked, until):
                raise DeadlineExceeded(f"{verb}: no answer within {timeout_s:g} s.")
        finally:
            with self._lock:
                self._asked.pop(number, None)
        return _checked(verb, asked.answer)

    def close(self) -> None:
        """End it; whoever waits for an answer is told that there is none."""
        self._hold.let_go()

    def _wait(self, asked: _Asked, deadline: float) -> bool:
        """Whether it was answered, or is over. Raises ConnectionLost at a suspicious silence."""
        asked_at = time.monotonic()
        while (now := time.monotonic()) < deadline:
            patience = max(self._hold.heard_at, asked_at) + SUSPECT_S - now
            if patience <= 0:
                self.close()
                raise ConnectionLost("The shepherd fell silent.")
            if asked.answered.wait(min(patience, deadline - now)):
                return True
        return False

    def _follow(self) -> None:
        try:
            for line in self._transport.follow(
                self._argv, stdin=frame({}), silence_s=SILENCE_S, hold=self._hold
            ):
                self._hear(line)
        except NodeError as error:
            self._error = error
        finally:
            self._end()

    def _hear(self, line: bytes) -> None:
        said = parse(line)
        if said is None:
            # A shell's greeting may come first, but no more than that.
            self._noise += len(line)
            if self.spoke or self._noise > NOISE_BYTES:
                raise CommandFailed(f"serve: {first_lines(line)}")
            return
        self._spoke = True
        if "id" in said:
            self._answer(said)
        elif said.get("ok", True) is not True:
            raise CommandFailed(f"serve: {said.get('error')}")
        else:
            key = said.get("key", "")
            self._changes.put(key if isinstance(key, str) else "")

    def _answer(self, answer: dict[str, Any]) -> None:
        number = answer.pop("id")
        with self._lock:
            asked = self._asked.get(number) if isinstance(number, int) else None
        if asked is not None:
            asked.answer = answer
            asked.answered.set()

    def _end(self) -> None:
        with self._lock:
            self._over = True
            left = list(self._asked.values())
        for asked in left:
            asked.answered.set()
        self._changes.put(None)


def _checked(verb: str, answer: dict[str, Any] | None) -> dict[str, Any] | None:
    """An answer that the verb gave; None when it was not begun. Raises ConnectionLost."""
    if answer is None:
        raise ConnectionLost(f"{verb}: its answer was lost.")
    begun = answer.pop("begun", None)
    if begun is True:
        raise ConnectionLost(f"{verb}: {answer.get('error')}")
    return None if begun is False else answer


def parse(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is; None if it is none."""
    try:
        answer = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def frame(request: Mapping[str, Any]) -> bytes:
    """A request as the shepherd reads it: its length in bytes, a newline, JSON."""
    body = json.dumps(request).encode()
    return b"%d\n" % len(body) + body
