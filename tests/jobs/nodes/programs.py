"""Small programs with known behaviour, for real nodes and for the one in memory.

`ARGV` and the others are Python source for `python3 -c`; `in_memory` plays the same there.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
from pathlib import Path

from jobs.nodes.memory import Call, MemoryTransport
from jobs.nodes.transport import CommandFailed, Completed

ARGV = "import sys; print(ascii(sys.argv[1:]))"
BOTH = "import sys; sys.stdout.write('out'); sys.stderr.write('err'); sys.exit(3)"
ECHO = """
import sys
size = int(sys.stdin.buffer.readline())
sys.stdout.buffer.write(sys.stdin.buffer.read(size))
"""
ECHO_AS_IT_COMES = """
import os, sys
left = int(sys.stdin.buffer.raw.readline())
while left:
    data = os.read(0, min(left, 65536))
    left -= len(data)
    while data:
        data = data[os.write(1, data):]
"""
MUCH = """
import sys
for n in range(20):
    sys.stdout.buffer.write(bytes([n]) * 1000000)
    sys.stderr.buffer.write(bytes([n]) * 100000)
"""
TOO_MUCH = """
import os
while True:
    os.write(1, bytes(1000000))
"""
KILLED = "import os; os.kill(os.getpid(), 9)"
SLEEP = """
import os, sys, time
if len(sys.argv) > 1:
    with open(sys.argv[1], 'w') as file:
        file.write(str(os.getpid()))
time.sleep(600)
"""
COUNT = "for n in range(5): print('line', n)"
FAILING = "import sys; print('one'); print('no such thing', file=sys.stderr); sys.exit(4)"
TICK = """
import os, sys, time
if len(sys.argv) > 1:
    with open(sys.argv[1], 'w') as file:
        file.write(str(os.getpid()))
while True:
    print('tick', flush=True)
    time.sleep(0.05)
"""
ANSWERING = """
import sys
print('ready', flush=True)
for line in sys.stdin:
    print('got', line, end='', flush=True)
"""
ENDLESS_LINE = "import os\nwhile True: os.write(1, b'x' * 65536)"


def python(source: str, *args: str) -> list[str]:
    """The command for a node."""
    return ["python3", "-c", source, *args]


def in_memory() -> MemoryTransport:
    """A node in memory that knows these programs."""
    return MemoryTransport({"python3": _run}, {"python3": _follow})


def _run(call: Call) -> Completed:
    source, args = call.argv[2], call.argv[3:]
    size, _, body = call.stdin.partition(b"\n")
    if source == SLEEP:
        call.ended.wait(600)
    known = {
        ARGV: lambda: Completed(0, ascii(list(args)).encode() + b"\n", b""),
        BOTH: lambda: Completed(3, b"out", b"err"),
        ECHO: lambda: Completed(0, body[: int(size or 0)], b""),
        ECHO_AS_IT_COMES: lambda: Completed(0, body[: int(size or 0)], b""),
        MUCH: lambda: Completed(
            0,
            b"".join(bytes([n]) * 1000000 for n in range(20)),
            b"".join(bytes([n]) * 100000 for n in range(20)),
        ),
        TOO_MUCH: lambda: Completed(0, bytes(70_000_000), b""),
        KILLED: lambda: Completed(-9, b"", b""),
        COUNT: lambda: Completed(0, b"".join(b"line %d\n" % n for n in range(5)), b""),
        FAILING: lambda: Completed(4, b"one\n", b"no such thing\n"),
        SLEEP: lambda: Completed(-15, b"", b""),
    }
    return known[source]()


def _follow(call: Call) -> Iterator[bytes | None]:
    source = call.argv[2]
    while source == TICK:
        yield b"tick\n"
    if source == ANSWERING:
        yield from _answering(call)
        return
    while source == ENDLESS_LINE:
        yield b"x" * 65536
    if source == SLEEP:
        yield None
        return
    done = _run(call)
    yield done.stdout
    if done.exit_code:
        raise CommandFailed(f"ended with {done.exit_code}: {done.stderr.decode()}")


def _answering(call: Call) -> Iterator[bytes]:
    yield b"ready\n"
    while not call.ended.is_set():
        with contextlib.suppress(queue.Empty):
            yield b"got " + call.more.get(timeout=0.05)


def gone(pid: int) -> bool:
    """Whether the process ended, waiting up to 10 s for it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def wait_for_pid(file: Path) -> int:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if file.exists() and file.read_text():
            return int(file.read_text())
        time.sleep(0.02)
    raise AssertionError(f"{file} was not written")
