"""How often to save: against the figures of the papers, and the limits that any answer keeps to."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.checkpoints import (
    Reliability,
    Saved,
    daly_s,
    interval_s,
    superfluous,
    usual,
    young_s,
)

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("mttf_s", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)]
)
def test_dalys_own_examples(mttf_s: float, minutes: float) -> None:
    """Figures 3 to 5 of his paper: writing takes 5 min."""
    assert daly_s(5 * MINUTE, mttf_s) / MINUTE == pytest.approx(minutes, abs=0.5)


def test_youngs_formula() -> None:
    assert young_s(5 * MINUTE, 24 * HOUR) / MINUTE == pytest.approx(120)


@given(write_s=st.floats(0.001, 1e5), mttf_s=st.floats(1, 1e9))
def test_an_interval_is_a_time(write_s: float, mttf_s: float) -> None:
    assert 0 < daly_s(write_s, mttf_s) < math.inf
    # Writing that takes no time worth mentioning: both are the same.
    if write_s < mttf_s / 1e6:
        assert daly_s(write_s, mttf_s) == pytest.approx(young_s(write_s, mttf_s), rel=0.01)


@given(failures=st.integers(0, 1000), node_days=st.floats(0, 1e6), nodes=st.integers(1, 1000))
def test_more_nodes_and_more_failures_mean_less_time(
    failures: int, node_days: float, nodes: int
) -> None:
    seen = Reliability(failures, node_days)
    assert seen.mttf_s(nodes) == pytest.approx(seen.mttf_s(1) / nodes)
    assert Reliability(failures + 1, node_days).mttf_s(nodes) < seen.mttf_s(nodes)
    assert Reliability(failures, node_days + 1).mttf_s(nodes) > seen.mttf_s(nodes)


def test_who_has_seen_little_has_what_is_usual_and_who_has_seen_much_his_own() -> None:
    assert Reliability().mttf_s(1) / DAY == pytest.approx(1000 / 6.5)
    assert Reliability(1000, 2e6).mttf_s(1) / DAY == pytest.approx(2000, rel=0.01)


def test_the_usual_time_between_two() -> None:
    assert interval_s([100.0, 0.0, 310.0, 200.0]) == 100.0
    assert (interval_s([5.0]), usual([])) == (None, None)


SAVED = st.lists(
    st.builds(
        Saved,
        path=st.uuids().map(str),
        step=st.none() | st.integers(0, 12),
        written_at=st.floats(0, 100),
        complete=st.sampled_from([True, True, True, False]),
        pinned=st.sampled_from([False, False, False, True]),
        in_use=st.sampled_from([False, False, False, True]),
    ),
    max_size=25,
)


@given(saved=SAVED, last=st.integers(0, 5), every=st.none() | st.integers(1, 5))
def test_nothing_goes_that_is_needed(saved: list[Saved], last: int, every: int | None) -> None:
    gone = superfluous(saved, last=last, every=every)
    complete = [one for one in saved if one.complete]
    if complete:
        newest = max(one.written_at for one in complete)
        assert all(one.written_at < newest for one in gone) or {
            one for one in complete if one.written_at == newest
        } - set(gone)
    for one in gone:
        assert one.complete and not one.pinned and not one.in_use and one.step is not None
        assert not (every and one.step % every == 0)
    steps = {one.step for one in gone}
    assert [one for one in saved if one.step in steps and one not in gone] == [], "steps are whole"
    assert gone == superfluous(reversed(saved), last=last, every=every) or len(gone) > 1
    left = [one for one in saved if one not in gone]
    assert superfluous(left, last=last, every=every) == [], "once is enough"


def test_which_are_kept() -> None:
    saved = [Saved(f"{step}.pt", step, float(step), True) for step in range(100, 1100, 100)]
    saved.append(Saved("best.pt", None, 0.0, True))
    saved.append(Saved("opt-800.pt", 800, 801.0, False))
    gone = [one.step for one in superfluous(saved, last=2, every=300)]
    # 1000 and 900 are the last two, 800 is not complete.
    assert gone == [100, 200, 400, 500, 700]
    assert superfluous(saved[:1], last=1, every=None) == []
