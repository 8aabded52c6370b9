"""`Transport` to a node that exists in memory only: its programs are Python functions.

It keeps the whole contract, so what is built on a transport can be tried in microseconds,
with any error at any moment.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jobs.nodes.transport import (
    MAX_OUTPUT_BYTES,
    CommandFailed,
    Completed,
    DeadlineExceeded,
    Hold,
    Lines,
    NodeError,
    check_path,
    first_lines,
)

PLACE = "memory"


@dataclass(frozen=True)
class Call:
    """What a program is started with."""

    argv: tuple[str, ...]
    stdin: bytes
    ended: threading.Event
    """Set when nobody waits for it any more: its SIGTERM."""
    more: queue.Queue[bytes] = field(default_factory=queue.Queue)
    """What is written to it while it is followed."""


Program = Callable[[Call], Completed]
"""One that runs to its end. It may raise any `NodeError`, as a failing network would."""
Source = Callable[[Call], Iterator[bytes | None]]
"""One that is followed: pieces of its output as they come, None for a silence too long."""


class MemoryTransport:
    """A node of `programs`, named by their first word; followed ones are in `sources`.

    `files` holds what was put: path to (data, mode).
    """

    def __init__(
        self,
        programs: Mapping[str, Program] | None = None,
        sources: Mapping[str, Source] | None = None,
    ) -> None:
        self.programs = dict(programs or {})
        self.sources = dict(sources or {})
        self.files: dict[str, tuple[bytes, int]] = {}
        self.calls: list[Call] = []
        self._failure: NodeError | None = None
        self._lock = threading.Lock()

    def fail_with(self, error: NodeError | None) -> None:
        """From now on every call raises this, as a node that is cut off; None heals it."""
        self._failure = error

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30) -> Completed:
        """As in `Transport`. The program runs on a thread of its own, to have a deadline."""
        call = self._call(argv, stdin)
        program = self.programs.get(argv[0])
        if program is None:
            return Completed(127, b"", f"{argv[0]}: not found\n".encode())
        outcome: list[Completed | BaseException] = []
        thread = threading.Thread(target=_perform, args=(program, call, outcome), daemon=True)
        thread.start()
        thread.join(timeout_s)
        call.ended.set()
        if not outcome:
            raise DeadlineExceeded(f"{PLACE} did not finish within {timeout_s:g} s: {argv[0]}")
        done = outcome[0]
        if isinstance(done, BaseException):
            raise done
        if len(done.stdout) + len(done.stderr) > MAX_OUTPUT_BYTES:
            raise CommandFailed(f"{PLACE} sent over {MAX_OUTPUT_BYTES} bytes of output")
        return done

    def follow(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        silence_s: float = 30,
        hold: Hold | None = None,
    ) -> Iterator[bytes]:
        """As in `Transport`; a program of `programs` is followed from its whole output."""
        call, hold = self._call(argv, stdin), hold or Hold()
        hold.take(lambda data, _: call.more.put(data), call.ended.set)
        try:
            source = self.sources.get(argv[0], self._output)
            yield from _lines(source(call), silence_s, argv[0], hold)
        finally:
            hold.lose()
            call.ended.set()

    def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """As in `Transport`."""
        check_path(path)
        self._check_failure()
        with self._lock:
            if any(other.startswith(path + "/") for other in self.files):
                raise CommandFailed(f"{PLACE}: {path} could not be written: is a directory")
            self.files[path] = (bytes(data), mode)

    def retry_now(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held between calls."""

    def _call(self, argv: Sequence[str], stdin: bytes) -> Call:
        if not argv:
            raise ValueError("argv: names no program")
        if any("\0" in word for word in argv):
            raise ValueError("argv: a NUL byte cannot be passed to a program")
        self._check_failure()
        call = Call(tuple(argv), bytes(stdin), threading.Event())
        with self._lock:
            self.calls.append(call)
        return call

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(self._failure.message)

    def _output(self, call: Call) -> Iterator[bytes]:
        done = self.run(call.argv, stdin=call.stdin)
        yield done.stdout
        if done.exit_code:
            said = first_lines(done.stderr)
            raise CommandFailed(f"{PLACE}: {call.argv[0]} ended with {done.exit_code}: {said}")


def _perform(program: Program, call: Call, outcome: list[Completed | BaseException]) -> None:
    try:
        outcome.append(program(call))
    except BaseException as error:
        outcome.append(error)


def _lines(
    pieces: Iterator[bytes | None], silence_s: float, name: str, hold: Hold
) -> Iterator[bytes]:
    lines = Lines(PLACE)
    for piece in pieces:
        if piece is None:
            raise DeadlineExceeded(f"{PLACE} said nothing for {silence_s:g} s: {name}")
        hold.heard()
        yield from lines.add(piece)
    yield from lines.rest()
