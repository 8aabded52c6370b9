"""What every transport does when a program is followed."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from jobs.nodes.transport import (
    CommandFailed,
    DeadlineExceeded,
    Hold,
    Transport,
)
from tests.jobs.nodes import programs
from tests.jobs.nodes.programs import gone, python, wait_for_pid


def test_follow_to_the_end(transport: Transport) -> None:
    lines = list(transport.follow(python(programs.COUNT)))
    assert lines == [b"line %d" % n for n in range(5)]


def test_follow_with_input(transport: Transport) -> None:
    data = b"".join(b"%d\n" % n for n in range(200_000))
    lines = transport.follow(python(programs.ECHO), stdin=b"%d\n" % len(data) + data)
    assert list(lines) == data.splitlines()


def test_follow_a_program_that_fails(transport: Transport) -> None:
    lines = transport.follow(python(programs.FAILING))
    assert next(lines) == b"one"
    with pytest.raises(CommandFailed, match="no such thing"):
        next(lines)


def test_follow_something_silent(transport: Transport) -> None:
    with pytest.raises(DeadlineExceeded):
        next(iter(transport.follow(python(programs.SLEEP), silence_s=0.5)))


def test_a_line_without_end(transport: Transport) -> None:
    with pytest.raises(CommandFailed, match="line"):
        next(iter(transport.follow(python(programs.ENDLESS_LINE))))


def test_closing_ends_what_was_followed(real: Transport, scratch: Path) -> None:
    lines = real.follow(python(programs.TICK, str(scratch / "pid")))
    assert next(lines) == b"tick"
    lines.close()  # type: ignore[attr-defined]
    assert gone(wait_for_pid(scratch / "pid"))


def test_closing_while_its_input_is_still_being_sent(real: Transport, scratch: Path) -> None:
    lines = real.follow(python(programs.TICK, str(scratch / "pid")), stdin=b"x" * 8_000_000)
    assert next(lines) == b"tick"
    lines.close()  # type: ignore[attr-defined]
    assert gone(wait_for_pid(scratch / "pid"))


def test_writing_to_what_is_followed(transport: Transport) -> None:
    hold = Hold()
    assert not hold.write(b"too early\n", timeout_s=1)
    lines = transport.follow(python(programs.ANSWERING), hold=hold)
    assert next(lines) == b"ready"
    for number in range(3):
        assert hold.write(b"%d\n" % number, timeout_s=10)
        assert next(lines) == b"got %d" % number
    lines.close()  # type: ignore[attr-defined]
    assert not hold.write(b"too late\n", timeout_s=1)


def test_letting_go_of_what_is_followed(real: Transport, scratch: Path) -> None:
    hold = Hold()
    lines = real.follow(python(programs.TICK, str(scratch / "pid")), hold=hold)
    assert next(lines) == b"tick"
    letting_go = threading.Timer(0.2, hold.let_go)
    letting_go.start()
    # However its end shows: what matters is that the following ends, and the program.
    with contextlib.suppress(CommandFailed):
        assert set(lines) <= {b"tick"}
    letting_go.join()
    assert gone(wait_for_pid(scratch / "pid"))


def test_letting_go_before_it_begins(transport: Transport) -> None:
    hold = Hold()
    hold.let_go()
    with contextlib.suppress(CommandFailed):
        assert list(transport.follow(python(programs.ANSWERING), hold=hold)) in ([], [b"ready"])


def test_a_line_of_megabytes(transport: Transport) -> None:
    data = b"x" * 5_000_000 + b"\ny"
    lines = transport.follow(python(programs.ECHO), stdin=b"%d\n" % len(data) + data)
    assert list(lines) == [b"x" * 5_000_000, b"y"]


def test_asking_while_following(transport: Transport) -> None:
    lines = transport.follow(python(programs.TICK))
    assert next(lines) == b"tick"
    assert transport.run(python(programs.BOTH)).exit_code == 3
    assert next(lines) == b"tick"
    lines.close()  # type: ignore[attr-defined]
