"""`Transport` to this very machine: the workstation with GPUs of its own."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from jobs.nodes.transport import (
    MAX_OUTPUT_BYTES,
    CommandFailed,
    Completed,
    DeadlineExceeded,
    Hold,
    Lines,
    check_path,
    first_lines,
)

PLACE = "this machine"
_CHUNK = 1 << 16


def login_environment() -> dict[str, str]:
    """What a login of this account would have: none of the portal's variables, some of which
    are secret, and not its virtual environment on the PATH.
    """
    account = pwd.getpwuid(os.geteuid())
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else None
    path = [entry for entry in os.environ.get("PATH", os.defpath).split(":") if entry != own]
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell or "/bin/sh",
        "PATH": ":".join(path),
    }


class LocalTransport:
    """Programs on this machine, as the portal's own account, in its home directory."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is added to a login's own; a `HOME` in it is also where programs start."""
        self._environment = {**login_environment(), **(environment or {})}

    def __repr__(self) -> str:
        return "LocalTransport()"

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30) -> Completed:
        """As in `Transport`."""
        _check(argv)
        try:
            process = self._start(argv)
        except OSError as error:
            return _not_started(argv, error)
        try:
            stdout, stderr = _exchange(process, stdin, time.monotonic() + timeout_s)
            return Completed(process.returncode, stdout, stderr)
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{PLACE} did not finish within {timeout_s:g} s: {argv[0]}"
            ) from error
        finally:
            _end(process)

    def follow(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        silence_s: float = 30,
        hold: Hold | None = None,
    ) -> Iterator[bytes]:
        """As in `Transport`."""
        _check(argv)
        hold = hold or Hold()
        with tempfile.TemporaryFile() as stderr:
            try:
                process = self._start(argv, stderr=stderr.fileno())
            except OSError as error:
                raise CommandFailed(_not_started(argv, error).stderr.decode()) from error
            try:
                threading.Thread(target=_feed_all, args=(process, stdin), daemon=True).start()
                hold.take(partial(_write_more, process), partial(_terminate, process))
                yield from _lines(process, silence_s, argv[0], hold)
                if process.wait(silence_s):
                    stderr.seek(0)
                    said = first_lines(stderr.read(2000))
                    raise CommandFailed(
                        f"{PLACE}: {argv[0]} ended with {process.returncode}: {said}"
                    )
            finally:
                # Ended first: somebody may be waiting for it to take what he writes.
                _end(process)
                hold.lose()

    def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """As in `Transport`."""
        check_path(path)
        target = Path(path)
        try:
            _make_parents(target.parent)
            _write(target, data, mode)
        except OSError as error:
            raise CommandFailed(f"{PLACE}: {path} could not be written: {error}") from error

    def retry_now(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is held between calls."""

    def _start(self, argv: Sequence[str], stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        home = self._environment["HOME"]
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self._environment,
            bufsize=0,
            # As a login's, whatever the portal's own: jobs inherit it.
            umask=0o022,
            cwd=home if Path(home).is_dir() else "/",
            start_new_session=True,
        )


def _check(argv: Sequence[str]) -> None:
    if not argv:
        raise ValueError("argv: names no program")
    if any("\0" in word for word in argv):
        raise ValueError("argv: a NUL byte cannot be passed to a program")


def _not_started(argv: Sequence[str], error: OSError) -> Completed:
    """As a shell tells it: 127 for no such program, 126 for one that may not be run."""
    code = 127 if isinstance(error, FileNotFoundError) else 126
    return Completed(code, b"", f"{argv[0]}: {error.strerror}\n".encode())


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, until: float) -> tuple[bytes, bytes]:
    """Feed and read at once, so that neither side waits for the other; the input stays open."""
    assert process.stdin and process.stdout and process.stderr
    os.set_blocking(process.stdin.fileno(), False)
    collected = {process.stdout: bytearray(), process.stderr: bytearray()}
    view, sent, read = memoryview(stdin), 0, 0
    with selectors.DefaultSelector() as selector:
        for stream in collected:
            selector.register(stream, selectors.EVENT_READ)
        if stdin:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while any(stream in selector.get_map() for stream in collected):
            for ready, _ in _select(selector, until):
                if ready.fileobj is process.stdin:
                    sent += _feed(process, view[sent : sent + _CHUNK])
                    if sent >= len(view) or process.stdin.closed:
                        selector.unregister(ready.fileobj)
                    continue
                data = os.read(ready.fd, _CHUNK)
                read += len(data)
                collected[ready.fileobj].extend(data)  # type: ignore[index]
                if not data:
                    selector.unregister(ready.fileobj)
                if read > MAX_OUTPUT_BYTES:
                    raise CommandFailed(f"{PLACE} sent over {MAX_OUTPUT_BYTES} bytes of output")
    _wait(process, until)
    return bytes(collected[process.stdout]), bytes(collected[process.stderr])


def _select(
    selector: selectors.BaseSelector, until: float
) -> list[tuple[selectors.SelectorKey, int]]:
    ready = selector.select(max(0.0, until - time.monotonic()))
    if not ready:
        raise TimeoutError
    return ready


def _feed(process: subprocess.Popen[bytes], data: memoryview) -> int:
    assert process.stdin
    try:
        return os.write(process.stdin.fileno(), data)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return 1 << 62  # it did not want it all


def _feed_all(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin
    # It may end, or be ended, before it wants it all; its output tells.
    with contextlib.suppress(OSError, ValueError):
        _write_all(process, data)


def _write_all(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin
    view = memoryview(data)
    while view:
        view = view[os.write(process.stdin.fileno(), view) :]


def _write_more(process: subprocess.Popen[bytes], data: bytes, timeout_s: float) -> None:
    assert process.stdin
    until, view = time.monotonic() + timeout_s, memoryview(data)
    try:
        while view:
            if not select.select([], [process.stdin], [], max(0.0, until - time.monotonic()))[1]:
                raise TimeoutError("it takes no more input")
            # What is ready takes this much without waiting.
            view = view[os.write(process.stdin.fileno(), view[: select.PIPE_BUF]) :]
    except ValueError as error:
        raise BrokenPipeError("its input is closed") from error


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, also if it is stopped; its output then ends, too."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            os.killpg(process.pid, signal.SIGCONT)


def _wait(process: subprocess.Popen[bytes], until: float) -> None:
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error


def _lines(
    process: subprocess.Popen[bytes], silence_s: float, name: str, hold: Hold
) -> Iterator[bytes]:
    assert process.stdout
    lines = Lines(PLACE)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(silence_s):
                raise DeadlineExceeded(f"{PLACE} said nothing for {silence_s:g} s: {name}")
            data = os.read(process.stdout.fileno(), _CHUNK)
            hold.heard()
            yield from lines.add(data)
            if not data:
                break
    yield from lines.rest()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it if it still runs, close our ends, and leave no zombie."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    if process.poll() is None:
        _terminate(process)
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _make_parents(directory: Path) -> None:
    for missing in reversed([p for p in (directory, *directory.parents) if not p.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _write(target: Path, data: bytes, mode: int) -> None:
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
    descriptor, part = tempfile.mkstemp(prefix=target.name + ".", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        Path(part).replace(target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
