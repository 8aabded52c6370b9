"""What every transport does, over SSH, SSH through a bastion, on this machine and in memory."""

from __future__ import annotations

import ast
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.nodes.local import LocalTransport
from jobs.nodes.transport import (
    CommandFailed,
    DeadlineExceeded,
    Transport,
)
from tests.jobs.nodes import programs
from tests.jobs.nodes.programs import gone, python, wait_for_pid


def test_exit_code_and_both_outputs(transport: Transport) -> None:
    done = transport.run(python(programs.BOTH))
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out", b"err")


def test_a_program_that_a_signal_ended(transport: Transport) -> None:
    assert transport.run(python(programs.KILLED)).exit_code == -9


def test_no_such_program(transport: Transport) -> None:
    done = transport.run(["no-such-program-anywhere"])
    assert done.exit_code == 127
    assert b"no-such-program-anywhere" in done.stderr


@pytest.mark.parametrize(
    "word",
    [
        "$(touch /tmp/carrel-was-here)",
        "`id`; rm -rf $HOME && echo 'x' \"y\" | cat > /dev/null",
        "two\nlines\r\n\ttab",
        "Ünïcödé 数据 🚀",
        "'",
        '"\\"\\\\',
        "-n",
        "",
        "~/*?[a]{b,c}!!",
        "a" * 50_000,
        "\udcff not UTF-8",
    ],
)
def test_arguments_arrive_as_they_are(transport: Transport, word: str) -> None:
    done = transport.run(python(programs.ARGV, word, "end"))
    assert ast.literal_eval(done.stdout.decode()) == [word, "end"]


def test_a_nul_byte_is_refused(transport: Transport) -> None:
    with pytest.raises(ValueError, match="NUL"):
        transport.run(python(programs.ARGV, "a\0b"))
    with pytest.raises(ValueError, match="no program"):
        transport.run([])


@pytest.mark.parametrize("source", [programs.ECHO, programs.ECHO_AS_IT_COMES])
def test_five_megabytes_in_and_out(transport: Transport, source: str) -> None:
    data = os.urandom(5_000_000)
    done = transport.run(python(source), stdin=b"%d\n" % len(data) + data, timeout_s=60)
    assert done.exit_code == 0
    assert done.stdout == data


def test_input_that_nobody_reads(transport: Transport) -> None:
    done = transport.run(python(programs.BOTH), stdin=b"x" * 8_000_000)
    assert done.exit_code == 3


def test_twenty_megabytes_out(transport: Transport) -> None:
    done = transport.run(python(programs.MUCH), timeout_s=60)
    assert done.stdout == b"".join(bytes([n]) * 1_000_000 for n in range(20))
    assert done.stderr == b"".join(bytes([n]) * 100_000 for n in range(20))


def test_output_without_end_is_cut_off(transport: Transport) -> None:
    with pytest.raises(CommandFailed, match="output"):
        transport.run(python(programs.TOO_MUCH), timeout_s=120)


def test_deadline(transport: Transport) -> None:
    with pytest.raises(DeadlineExceeded):
        transport.run(python(programs.SLEEP), timeout_s=0.5)
    assert transport.run(python(programs.BOTH)).exit_code == 3


def test_a_program_past_its_deadline_is_ended(real: Transport, scratch: Path) -> None:
    with pytest.raises(DeadlineExceeded):
        real.run(python(programs.SLEEP, str(scratch / "pid")), timeout_s=2)
    assert gone(wait_for_pid(scratch / "pid"))


def test_many_threads(transport: Transport) -> None:
    def ask(number: int) -> list[str]:
        done = transport.run(python(programs.ARGV, str(number)), timeout_s=60)
        return list(ast.literal_eval(done.stdout.decode()))

    with ThreadPoolExecutor(50) as threads:
        assert list(threads.map(ask, range(100))) == [[str(n)] for n in range(100)]


def test_put(real: Transport, scratch: Path) -> None:
    path = scratch / "a dir" / "$(x) 'quoted'" / "naïve\nname"
    data = os.urandom(300_000)
    real.put(str(path), data, mode=0o640)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_put_replaces_at_once(real: Transport, scratch: Path) -> None:
    """A reader sees the old file or the new one, never a part."""
    path = scratch / "file"
    real.put(str(path), b"0" * 100_000)
    seen, stop = set(), threading.Event()

    def read() -> None:
        while not stop.is_set():
            data = path.read_bytes()
            seen.add((len(data), len(set(data))))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        for n in range(1, 10):
            real.put(str(path), b"%d" % n * 100_000)
    finally:
        stop.set()
    reader.join(20)
    assert not reader.is_alive()
    assert seen == {(100_000, 1)}


def test_put_an_empty_file_and_a_large_one(real: Transport, scratch: Path) -> None:
    real.put(str(scratch / "empty"), b"")
    real.put(str(scratch / "large"), bytes(5_000_000))
    assert (scratch / "empty").read_bytes() == b""
    assert (scratch / "large").read_bytes() == bytes(5_000_000)


def test_put_where_it_cannot_be(real: Transport, scratch: Path) -> None:
    (scratch / "directory").mkdir()
    with pytest.raises(CommandFailed, match="directory"):
        real.put(str(scratch / "directory"), b"x")
    with pytest.raises(CommandFailed, match="could not be written"):
        real.put("/proc/nowhere/file", b"x")


def test_put_takes_absolute_paths_only(transport: Transport) -> None:
    for path in ("relative", "~/file", "/directory/", "/nul\0byte"):
        with pytest.raises(ValueError, match="absolute"):
            transport.put(path, b"x")


def test_put_in_memory() -> None:
    node = programs.in_memory()
    node.put("/a/b", b"data", mode=0o600)
    assert node.files == {"/a/b": (b"data", 0o600)}
    with pytest.raises(CommandFailed, match="directory"):
        node.put("/a", b"data")


def test_use_after_close(transport: Transport) -> None:
    transport.close()
    assert transport.run(python(programs.BOTH)).exit_code == 3


def test_files_that_programs_make_are_as_after_a_login() -> None:
    before = os.umask(0o077)
    try:
        done = LocalTransport().run(["sh", "-c", "umask"])
    finally:
        os.umask(before)
    assert done.stdout.strip() == b"0022"
