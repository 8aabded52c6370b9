"""Searching a log: every line once, in bounded steps, to be gone on with."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.contract import LogRange
from portal.queries import log_search
from portal.queries.log_search import find
from portal.queries.log_window import Read

PIECES = (b"x", b"needle", b"\n", b"need", b" ")
# Bytes are drawn at once, pieces would be one by one.
logs = st.binary(max_size=200).map(
    lambda drawn: b"".join(PIECES[byte % len(PIECES)] for byte in drawn)
)


def reading(data: bytes, most: int = 10**9) -> Read:
    return lambda offset, length: LogRange(offset, data[offset:][: min(length, most)], len(data))


def test_lines_with_their_offsets():
    data = b"epoch 1 loss 2\nepoch 2 LOSS nan\ndone\n"
    found = find(reading(data), b"loss")
    assert [(match.before, match.found, match.after) for match in found.matches] == [
        (b"epoch 1 ", b"loss", b" 2"),
        (b"epoch 2 ", b"LOSS", b" nan"),
    ]
    assert [(match.offset, match.line) for match in found.matches] == [(8, 1), (23, 2)]
    assert found.finished


def test_a_line_counts_once():
    assert len(find(reading(b"aa aa aa\naa"), b"aa").matches) == 2


def test_nothing_found():
    found = find(reading(b"a\nb\n"), b"c")
    assert (found.matches, found.finished) == ((), True)


@given(logs, st.integers(1, 50))
def test_the_size_of_the_ranges_changes_nothing(data: bytes, most: int):
    expected = [n for n, line in enumerate(data.split(b"\n"), 1) if b"needle" in line]
    assert [match.line for match in find(reading(data, most), b"needle").matches] == expected


def test_it_stops_at_the_most_matches_and_goes_on():
    data = b"hit\n" * (log_search.MAX_MATCHES + 5)
    first = find(reading(data), b"hit")
    assert len(first.matches) == log_search.MAX_MATCHES
    assert not first.finished
    rest = find(reading(data), b"hit", offset=first.reached, line=first.line)
    lines = [match.line for match in first.matches + rest.matches]
    assert lines == list(range(1, log_search.MAX_MATCHES + 6))
    assert rest.finished


def test_it_stops_when_its_time_is_over():
    ticks = count(0, 100)
    data = b"line\n" * 10_000
    found = find(reading(data, most=1000), b"line 9", clock=lambda: next(ticks))
    assert not found.finished
    assert 0 < found.reached < 1001


def test_it_stops_after_its_share_of_bytes():
    size = 10**9
    found = find(
        lambda offset, length: LogRange(offset, bytes(length), size), b"no", clock=lambda: 0
    )
    assert not found.finished
    assert found.reached <= log_search.MAX_BYTES


def test_a_log_that_shrinks_ends_the_search():
    found = find(lambda offset, length: LogRange(offset, b"", 100), b"x")
    assert found.matches == ()
