"""What becomes of findings from one look to the next."""

from __future__ import annotations

import pytest

from jobs.nodes.kinds import AGES_S, GONE_LOOKS, KINDS
from jobs.nodes.signs import Sign
from jobs.nodes.weigh import Open, weigh

FULL, DRIVER, DEAD = Sign("disk-full", "x"), Sign("driver", "x"), Sign("xid-79", "x", "GPU-a")
NOW = 1_000_000.0


def test_what_is_certain_is_a_finding_at_once() -> None:
    found = weigh([FULL, DEAD], {}, {}, now=NOW)
    assert found.opened == {FULL: NOW, DEAD: NOW}
    assert not found.suspects


def test_what_may_pass_has_to_last() -> None:
    first = weigh([DRIVER], {}, {}, now=NOW)
    assert (first.opened, first.suspects) == ({}, {("", "driver"): NOW})
    later = NOW + KINDS["driver"].after_s
    assert weigh([DRIVER], {}, first.suspects, now=later).opened == {DRIVER: NOW}
    assert not weigh([], {}, first.suspects, now=later).suspects, "it begins anew"


def test_what_is_seen_again_is_no_second_finding() -> None:
    found = weigh([FULL], {("", "disk-full"): Open(NOW - 60, 2)}, {}, now=NOW)
    assert (found.opened, found.again, found.absent, found.over) == ({}, (FULL,), {}, ())


def test_what_is_gone_is_over_after_several_looks() -> None:
    key = ("", "disk-full")
    for looks in range(GONE_LOOKS - 1):
        found = weigh([], {key: Open(NOW, looks)}, {}, now=NOW)
        assert (found.absent, found.over) == ({key: looks + 1}, ())
    assert weigh([], {key: Open(NOW, GONE_LOOKS - 1)}, {}, now=NOW).over == (key,)


def test_what_needs_hands_stays() -> None:
    key = ("GPU-a", "xid-79")
    assert weigh([], {key: Open(0.0, 1_000_000)}, {}, now=NOW).over == ()


@pytest.mark.parametrize(("age_s", "over"), [(AGES_S - 1, False), (AGES_S, True)])
def test_what_only_happened_is_over_a_day_later(age_s: float, over: bool) -> None:
    key = ("GPU-a", "xid-13")
    found = weigh([], {key: Open(NOW - age_s, 1000)}, {}, now=NOW)
    assert found.over == ((key,) if over else ())


def test_what_cannot_be_seen_is_not_gone() -> None:
    key = ("GPU-a", "hot")
    found = weigh([DRIVER], {key: Open(NOW, 2)}, {("GPU-b", "hot"): 7.0}, now=NOW, blind={"hot"})
    assert (found.absent, found.over) == ({}, ())
    assert found.suspects == {("GPU-b", "hot"): 7.0, ("", "driver"): NOW}
