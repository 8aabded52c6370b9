"""A run's output: one log of everything, with a cap, and the files that the user asked for."""

import os

from .spool import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TAIL_BYTES = 256 * 1024
_TAIL_ROOM = 4 * TAIL_BYTES
_CHUNK = 65536
_CHUNKS_AT_ONCE = 32


def in_words(size: int) -> str:
    """A size for people: `64 MiB`."""
    for unit, bytes_each in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_each:
            return ("%.1f" % (size / float(bytes_each))).replace(".0", "") + " " + unit
    return "%d bytes" % size


class Log:
    """Bytes up to a cap; beyond it only the end is kept, and put after a line that says so."""

    def __init__(self, path: str, cap: int) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.cap = cap
        self.size = 0
        self.problem = ""
        self._at_line_start = True
        self._left_out = 0
        self._tail = bytearray()

    def write(self, data: bytes) -> None:
        """Append output; what is over the cap waits in the tail."""
        if not self._left_out:
            room = max(0, self.cap - self.size)
            self._append(data[:room])
            data = data[room:]
            if data:
                self.say(
                    "log cap of %s reached: from here on output is left out; "
                    "its end will follow when the run ends" % in_words(self.cap)
                )
        if data:
            self._keep(data)

    def say(self, text: str) -> None:
        """A line of our own."""
        start = "" if self._at_line_start else "\n"
        self._append(("%s[carrel] %s\n" % (start, text)).encode("utf-8"))

    def finish(self) -> None:
        """Put the kept end after the cap; nothing may be written afterwards."""
        if self._left_out:
            kept = bytes(self._tail[-TAIL_BYTES:])
            self.say(
                "log cap of %s reached: %s left out here; the last %s follow"
                % (in_words(self.cap), in_words(self._left_out - len(kept)), in_words(len(kept)))
            )
            self._append(kept)
        os.close(self.fd)

    def _append(self, data: bytes) -> None:
        if not data:
            return
        try:
            write_all(self.fd, data)
        except OSError as error:
            # Losing output is better than stopping the job; the end will tell of it.
            self.problem = "part of the log could not be written: %s" % error.strerror
        self.size += len(data)
        self._at_line_start = data[-1:] == b"\n"

    def _keep(self, data: bytes) -> None:
        self._left_out += len(data)
        self._tail += data
        if len(self._tail) > _TAIL_ROOM:
            del self._tail[:-TAIL_BYTES]


class Copy:
    """A file the user asked for. It is theirs: appended to, without a cap."""

    def __init__(self, path: bytes) -> None:
        # A pipe that nobody reads must not keep us from ending the job when it is time.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
        self.fd = os.open(path, flags, 0o666)
        self.name = path.decode("utf-8", "replace")
        self.problem = ""

    def write(self, data: bytes) -> None:
        """Append; a full disk is told of once and does not stop the job."""
        try:
            write_all(self.fd, data)
        except OSError as error:
            self.problem = "part of %s could not be written: %s" % (self.name, error.strerror)


class Stream:
    """The reading end of a pipe, and where what comes out of it goes."""

    def __init__(self, fd: int, sinks: "Iterable[Log | Copy]") -> None:
        self.fd = fd
        self.sinks = list(sinks)
        self.is_open = True
        os.set_blocking(fd, False)

    def drain(self, limit: int = _CHUNKS_AT_ONCE) -> bool:
        """Take what is there, within bounds; whether anything was."""
        for count in range(limit):
            try:
                data = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return count > 0
            if not data:
                self.is_open = False
                return count > 0
            for sink in self.sinks:
                sink.write(data)
        return True
