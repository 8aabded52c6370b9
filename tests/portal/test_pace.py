"""At once after a rest, gathered in a rush."""

from __future__ import annotations

from portal.pace import Pace


def test_a_burst_goes_at_once_and_the_next_one_is_told_how_long() -> None:
    pace = Pace(per_s=0.001, burst=3)
    assert [pace.delay() for _ in range(3)] == [0, 0, 0]
    left = pace.delay()
    assert 0 < left <= 1000


def test_asking_in_vain_takes_nothing() -> None:
    pace = Pace(per_s=0.001, burst=1)
    assert pace.delay() == 0
    first, second = pace.delay(), pace.delay()
    assert second <= first


def test_waiting_ends() -> None:
    pace = Pace(per_s=1000, burst=1)
    for _ in range(5):
        pace.wait()
    assert pace.delay() <= 1 / 1000


def test_what_was_costly_puts_off_the_next_one() -> None:
    pace = Pace(per_s=1, burst=3)
    pace.later(100)
    assert not pace.ready
    assert 97 < pace.delay() <= 98


def test_to_look_whether_one_may_takes_none() -> None:
    pace = Pace(per_s=0.001, burst=1)
    assert pace.ready
    assert pace.ready
    assert pace.delay() == 0
    assert not pace.ready
