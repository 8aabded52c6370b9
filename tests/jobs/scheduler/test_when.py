"""Expected starts as people say them."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.scheduler.when import about, spread

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 13, 2, 30, tzinfo=BERLIN)  # a Saturday


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("2026-11-20T13:00", "any moment now"),
        ("2026-11-21T13:04", "any moment now"),
        ("2026-11-21T13:09:30", "in about 7 min"),
        ("2026-11-21T13:26", "in about 25 min"),
        ("2026-11-21T14:01", "about 14:00"),
        ("2026-11-21T14:06", "about 14:05"),
        ("2026-11-22T00:08", "about 00:10 tomorrow"),
        ("2026-11-22T09:20", "about 09:30 tomorrow"),
        ("2026-11-26T14:10", "about 14:00 on Thursday"),
        ("2026-11-27T14:10", "about 14:00 on Friday"),
        ("2026-11-28T14:10", "about 28 Nov"),
        ("2027-02-12T14:10", "about 12 Feb 2027"),
    ],
)
def test_about(moment: str, words: str) -> None:
    assert about(at(moment), NOW) == words
    utc = at(moment).astimezone(ZoneInfo("UTC"))
    assert about(utc, NOW) == words, "it is told in the reader's time zone"


@pytest.mark.parametrize(
    ("early", "late", "words"),
    [
        ("2026-11-21T13:42", "2026-11-21T15:17", "between 13:40 and 15:20"),
        ("2026-11-21T12:00", "2026-11-21T15:17", "between now and 15:20"),
        ("2026-11-21T13:42", "2026-11-22T01:50", "between 13:40 and 02:00 tomorrow"),
        ("2026-11-22T08:50", "2026-11-22T11:40", "between 08:30 and 12:00 tomorrow"),
        ("2026-11-22T08:50", "2026-11-24T11:40", "between 08:30 tomorrow and 12:00 on Tuesday"),
        ("2026-11-24T08:50", "2026-12-03T11:40", "between 08:30 on Tuesday and 3 Dec"),
        ("2026-11-29T08:50", "2026-11-30T11:40", "between 29 Nov and 30 Nov"),
        ("2026-11-29T08:50", "2026-11-29T11:40", ""),
        ("2026-11-21T14:00", "2026-11-21T14:00", ""),
        ("2026-11-21T12:00", "2026-11-21T13:00", ""),
    ],
)
def test_spread(early: str, late: str, words: str) -> None:
    assert spread(at(late), at(early), at(late), NOW) == words


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ("2026-11-21T13:03", ""),
        ("2026-11-21T13:09", "or as late as 13:10"),
        ("2026-11-21T22:07", "or as late as 22:10"),
        ("2026-11-22T01:50", "or as late as 02:00 tomorrow"),
        ("2026-12-03T11:40", "or as late as 3 Dec"),
    ],
)
def test_spread_of_what_may_be_any_moment_now(late: str, words: str) -> None:
    for expected in (NOW - timedelta(hours=1), NOW, NOW + timedelta(minutes=1)):
        assert about(expected, NOW) == "any moment now"
        assert spread(expected, NOW - timedelta(hours=1), at(late), NOW) == words


@given(st.integers(0, 11 * 3600), st.integers(120, 3600))
def test_the_spread_is_never_told_narrower_than_it_is(start: int, lasts: int) -> None:
    now = datetime(2026, 11, 21, 0, 0, tzinfo=BERLIN)
    early = now + timedelta(seconds=start)
    late = early + timedelta(seconds=lasts)
    words = spread(late, early, late, now)
    if not words:
        assert late - now < timedelta(minutes=2)
        return
    first, last = words.removeprefix("between ").split(" and ")
    if first != "now":
        assert datetime.strptime(first, "%H:%M").time() <= early.time()
    assert datetime.strptime(last, "%H:%M").time() >= late.time().replace(second=0, microsecond=0)
