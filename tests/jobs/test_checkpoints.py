"""How often to save: against the figures of the papers, and the limits that any answer keeps to."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.checkpoints import Reliability, daly_s, interval_s, usual, young_s

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
