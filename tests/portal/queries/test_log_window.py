"""Windows of a log: cut at line ends, wherever the ranges fall, and never more than a range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.contract import LogRange
from portal.queries import log_window
from portal.queries.log_window import LONGEST_OPEN_LINE, Read


def reading(data: bytes, asked: list[tuple[int, int]] | None = None) -> Read:
    """Reads `data`, and notes what it was asked for."""

    def read(offset: int, length: int) -> LogRange:
        if asked is not None:
            asked.append((offset, length))
        start = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        return LogRange(start, data[start : start + length], len(data))

    return read


def test_an_empty_log():
    found = log_window.tail(reading(b""))
    assert (found.start, found.next, found.size, found.lines, found.open_line) == (
        0,
        0,
        0,
        b"",
        b"",
    )
    assert not found.more


def test_the_tail_begins_at_a_line():
    found = log_window.tail(reading(b"first line\nsecond\nthird"), length=15)
    assert (found.lines, found.open_line) == (b"second\n", b"third")
    assert found.start == len(b"first line\n")


def test_a_log_shorter_than_the_window_is_shown_whole():
    found = log_window.tail(reading(b"a\nb\n"))
    assert (found.start, found.lines, found.open_line, found.more) == (0, b"a\nb\n", b"", False)


def test_the_lines_before():
    data = b"one\ntwo\nthree\nfour\n"
    found = log_window.before(reading(data), 14, length=8)
    assert (found.start, found.lines) == (8, b"three\n")
    assert log_window.before(reading(data), 8, length=100).lines == b"one\ntwo\n"
    assert log_window.before(reading(data), 0).lines == b""


def test_around_a_place_shows_it():
    data = b"".join(b"line %d\n" % number for number in range(10_000))
    at = data.index(b"line 5000")
    found = log_window.around(reading(data), at, length=1000)
    assert b"line 5000\n" in found.lines
    assert found.lines.startswith(b"line ")


def test_a_progress_bar_without_end_shows_its_last_writing():
    data = b"begin\n" + b"".join(b"\r%d of 9999" % number for number in range(9999))
    found = log_window.since(reading(data), 0)
    assert found.open_line == b"9998 of 9999"
    assert found.more is False


def test_an_endless_line_is_parted_between_letters():
    data = "ü".encode() * (LONGEST_OPEN_LINE + 1)
    found = log_window.since(reading(data), 0, length=LONGEST_OPEN_LINE + 3)
    assert found.next > 0
    found.lines.decode()


def test_a_crlf_at_the_edge_of_a_range_is_not_parted():
    data = b"x" * (LONGEST_OPEN_LINE + 10) + b"\r\nnext\n"
    first = log_window.since(reading(data), 0, length=LONGEST_OPEN_LINE + 11)
    rest = log_window.since(reading(data), first.next)
    assert first.lines + rest.lines == data


@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"a", "é".encode(), b"\xff", b"word "])).map(b"".join),
    st.integers(1, 40),
)
def test_following_loses_and_doubles_nothing(data: bytes, step: int):
    read, at, seen = reading(data), 0, b""
    while True:
        found = log_window.since(read, at, length=step)
        assert found.start == at
        seen += found.lines
        if not found.more:
            break
        if found.next == at:
            # A line longer than the step: a page asks for more at once.
            step *= 2
        at = found.next
    assert seen + found.open_line == data


@given(st.binary(max_size=300), st.integers(1, 64))
def test_going_back_meets_what_was_shown(data: bytes, length: int):
    read = reading(data)
    last = log_window.tail(read, length)
    start, seen = last.start, last.lines + last.open_line
    while start > 0:
        found = log_window.before(read, start, length)
        assert found.start < start
        start, seen = found.start, found.lines + seen
    assert seen == data


def test_a_huge_log_is_read_in_one_small_range():
    asked: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> LogRange:
        asked.append((offset, length))
        size = 10**9
        start = size + offset if offset < 0 else offset
        return LogRange(start, b"x" * 79 + b"\n", size)

    log_window.tail(read)
    log_window.before(read, 5 * 10**8)
    log_window.since(read, 10**9)
    assert all(length <= log_window.STEP for _, length in asked)
    assert len(asked) == 3
