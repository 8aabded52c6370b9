"""The verb `serve`: a shepherd that stays, so that Python need not be started for each call.

It prints `{}` at once, then `{"key": KEY}` for each change of a run and `{}` as a sign of life,
and takes requests until nobody listens any more. Each is framed as the input of a call (see
`main.py`): an object with `id`, `verb`, `request` and `within_s`. Its answer is one line: the
call's, with that `id`.

A process of its own answers each request: a disk that hangs holds up nobody else.
"""

import gc
import os
import select
import time

# Loaded here, once, for the processes that will answer.
from . import (
    collect,
    health,
    launch,
    main,
    observe,
    probe,
    processes,
    prune,
    read,
    signals,
    stop,
    wire,
)  # fmt: skip
from .spool import Spool, write_all
from .watch import Pipe, notify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERBS = {
    module.__name__.rpartition(".")[2]: module.verb
    for module in (collect, health, launch, observe, probe, prune, read, stop)
}
SIGN_OF_LIFE_S = 5.0
BUSY_SIGN_S = 1.0
"""While somebody waits for an answer, he must not take us for dead."""
MAX_AT_ONCE = 16
ALSO_HERE = ("stop",)
"""Answered by ourselves when no process can be started: of the job that made too many, say."""
STAYS_S = 3600.0
"""Then a new one takes over, with the account's groups and limits as they are by then."""


class Answering:
    """A process that answers a request, and what it has written so far."""

    def __init__(self, asked: "dict[str, Any]", fd: int) -> None:
        self.id = int(asked["id"])
        self.fd = fd
        self.text = b""

    def read(self) -> "bytes | None":
        """Its answer as a line, with the request's id; None while there is more to come."""
        data = os.read(self.fd, 1 << 18)
        self.text += data
        if data and data[-1:] != b"\n":
            return None
        if self.text[-1:] != b"\n":
            words = "the process that was to answer was killed, or took too long"
            return refusal(self.id, words, begun=True)
        return line(self.id, self.text)


def line(number: int, answer: bytes) -> bytes:
    """An answer, with the id of its request."""
    return b'{"id": %d, ' % number + answer[1:]


def refusal(number: int, words: str, begun: bool = False) -> bytes:
    """The line that tells why there is no answer, and whether something may have been done."""
    return wire.dumps({"id": number, "ok": False, "begun": begun, "error": words}) + b"\n"


class Server:
    """Reads requests, has them answered, and tells of changes."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.pipe = Pipe(spool)
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self.requests = main.Input()
        self.answering: "dict[int, Answering]" = {}
        self.poll = select.poll()
        self.poll.register(self.pipe.fd, select.POLLIN)
        self.poll.register(0, select.POLLIN)
        self.poll.register(1, 0)  # Errors and hang-ups are always told: our reader has gone.
        self.leaves_at = time.monotonic() + STAYS_S

    def serve(self) -> None:
        """Until nobody reads what we say, or it is time for another. Raises OSError."""
        parent = os.getppid()
        lines = [b"{}\n"]
        while os.getppid() == parent:
            if lines:
                write_all(1, b"".join(lines))
            if time.monotonic() > self.leaves_at and not self.answering:
                return
            wait = BUSY_SIGN_S if self.answering else SIGN_OF_LIFE_S
            ready = {fd for fd, _ in self.poll.poll(wait * 1000)}
            if 1 in ready or (0 in ready and not self.requests.read()):
                return
            lines = [] if ready else [b"{}\n"]
            if self.pipe.fd in ready:
                lines += [wire.dumps({"key": key}) + b"\n" for key in self.pipe.changed()]
            lines += self._hear(ready)
            lines += filter(None, map(self._begin, self.requests.whole()))

    def _hear(self, ready: "set[int]") -> "list[bytes]":
        lines = []
        for fd in ready & self.answering.keys():
            line = self.answering[fd].read()
            if line is not None:
                lines.append(line)
                self.poll.unregister(fd)
                os.close(fd)
                del self.answering[fd]
        while self._reap():
            pass
        return lines

    def _reap(self) -> bool:
        try:
            return os.waitpid(-1, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return False

    def _begin(self, asked: "dict[str, Any]") -> "bytes | None":
        """Have a request answered; a line if that cannot be."""
        if len(self.answering) >= MAX_AT_ONCE:
            return refusal(asked["id"], "%d requests have no answer yet" % MAX_AT_ONCE)
        hear, tell = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(hear)
            os.close(tell)
            if asked["verb"] in ALSO_HERE:
                return line(asked["id"], wire.dumps(self._found(asked)) + b"\n")
            return refusal(asked["id"], "cannot start a process: %s" % error.strerror)
        if pid == 0:
            try:
                self._answer(asked, tell)
            finally:
                os._exit(1)
        os.close(tell)
        self.answering[hear] = Answering(asked, hear)
        self.poll.register(hear, select.POLLIN)
        return None

    def _answer(self, asked: "dict[str, Any]", tell: int) -> None:
        """In a process of our own: as a call that was started for this alone. Never returns."""
        os.setsid()  # Whoever ends us leaves it alone: half a launch is worse than a late one.
        signals.end_me_after(asked["within_s"])
        os.dup2(self.null, 0)
        os.dup2(tell, 1)
        processes.let_go_of_strangers()
        main.give(self._found(asked))

    def _found(self, asked: "dict[str, Any]") -> "dict[str, Any]":
        verb = VERBS.get(asked["verb"], main.no_such_verb)
        return main.answer(verb, self.spool, asked["request"])


def verb(spool: Spool, request: "dict[str, Any]") -> "dict[str, Any]":
    """Stay and serve."""
    spool.prepare()
    notify(spool, "")  # Removes the pipes of those that were killed.
    server = Server(spool)
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()  # Memory that is never written to stays shared with all that answer.
    try:
        server.serve()
    except OSError:
        pass  # Nobody reads any more.
    finally:
        server.pipe.remove()
    return {}
