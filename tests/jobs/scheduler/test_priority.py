"""Priority: what each factor brings, that it is told truly, and that bands come first."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Standing
from jobs.scheduler.priority import (
    Factors,
    Priority,
    PriorityWeights,
    WeightedFactor,
    points,
    priority,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
many = settings(deadline=None)

weights_of_any_kind = st.builds(
    PriorityWeights,
    fair_share=st.floats(0, 1e9),
    age=st.floats(0, 1e9),
    size=st.floats(0, 1e9),
    nice=st.floats(0, 1e9),
    max_age_s=st.floats(1, 1e8),
)


@st.composite
def factors_of_any_kind(draw: st.DrawFn) -> Factors:
    total = draw(st.integers(1, 300))
    ago = st.integers(-1000, 10_000_000).map(lambda s: NOON - timedelta(seconds=s))
    return Factors(
        band=draw(st.sampled_from(Band)),
        standing=Standing(draw(st.integers(1, total)), total, ()),
        gpus=draw(st.sampled_from([0, 0.25, 1, 8, 64, 512])),
        partition_gpus=draw(st.sampled_from([0, 1, 64, 800])),
        eligible_at=draw(st.none() | ago),
        waited_before_s=draw(st.floats(0, 1e7)),
        nice=draw(st.integers(-1000, 1000)),
    )


def job(
    band: Band = Band.BATCH,
    place: tuple[int, int] = (12, 12),
    gpus: float = 0,
    partition_gpus: int = 64,
    waited: timedelta | None = timedelta(0),
    waited_before_s: float = 0.0,
    nice: int = 0,
) -> Factors:
    eligible_at = None if waited is None else NOON - waited
    standing = Standing(place[0], place[1], ())
    return Factors(band, standing, gpus, partition_gpus, eligible_at, waited_before_s, nice)


def told(factors: Factors, weights: PriorityWeights | None = None) -> Priority:
    return priority(factors, weights or PriorityWeights(), NOON)


def part(found: Priority, name: str) -> WeightedFactor:
    return next(one for one in found.parts if one.name == name)


def sentence(factors: Factors, name: str, weights: PriorityWeights | None = None) -> str:
    return part(told(factors, weights), name).sentence


@pytest.mark.parametrize(
    ("waited", "says"),
    [
        (timedelta(0), "Waited 0 min of 7 days: 0 of 100 points."),
        (timedelta(minutes=1), "Waited 1 min of 7 days: 0 of 100 points."),
        (timedelta(minutes=59), "Waited 59 min of 7 days: 0.6 of 100 points."),
        (timedelta(hours=3), "Waited 3 h of 7 days: 2 of 100 points."),
        (timedelta(days=3, hours=12), "Waited 3 days of 7 days: 50 of 100 points."),
        (timedelta(days=14), "Waited 14 days of 7 days: 100 of 100 points."),
        (
            timedelta(days=30),
            "Waited 30 days of 7 days: 100 of 100 points. After 14 days one job of each user at "
            "a time goes before all others of its band.",
        ),
        (-timedelta(hours=1), "Waited 0 min of 7 days: 0 of 100 points."),
    ],
)
def test_age_in_words(waited: timedelta, says: str) -> None:
    assert sentence(job(waited=waited), "age", PriorityWeights(age=100.0)) == says


def test_age_stands_still_while_something_else_keeps_the_job_back() -> None:
    held = job(waited=None, waited_before_s=3 * 86_400)
    assert held.waited_s(NOON) == held.waited_s(NOON + timedelta(days=9)) == 3 * 86_400
    assert sentence(held, "age") == (
        "Waited 3 days of 7 days; while something else keeps it back, no more counts: "
        "214 of 500 points."
    )
    freed = job(waited=timedelta(days=1), waited_before_s=3 * 86_400)
    assert freed.waited_s(NOON) == 4 * 86_400
    assert sentence(freed, "age") == (
        "Waited 4 days of 7 days, 3 days of it earlier: 286 of 500 points."
    )


def test_fair_share_in_words() -> None:
    assert sentence(job(place=(10, 12)), "fair share") == (
        "Place 3 of 12 in fair share: 833,333 of 1,000,000 points."
    )


@pytest.mark.parametrize(
    ("gpus", "partition_gpus", "says"),
    [
        (0, 64, "Asks for no GPU: 0 of 100 points."),
        (8, 64, "Asks for 8 of the partition's 64 GPUs: 12 of 100 points."),
        (0.25, 64, "Asks for 0.25 of the partition's 64 GPUs: 0.4 of 100 points."),
        (1, 1, "Asks for 1 of the partition's 1 GPU: 100 of 100 points."),
        (1_234_567, 0, "Asks for 1,234,567 of the partition's 0 GPUs: 0 of 100 points."),
        (65, 64, "Asks for 65 of the partition's 64 GPUs: 100 of 100 points."),
        (1, 0, "Asks for 1 of the partition's 0 GPUs: 0 of 100 points."),
    ],
)
def test_size_in_words(gpus: float, partition_gpus: int, says: str) -> None:
    assert sentence(job(gpus=gpus, partition_gpus=partition_gpus), "size") == says


@pytest.mark.parametrize(
    ("nice", "says"),
    [
        (0, "Nobody has moved it: 0 points."),
        (100, "Nice 100, as asked, moves it back: -100,000 points."),
        (-1000, "An admin moved it forward with nice -1000: 1,000,000 points."),
    ],
)
def test_nice_in_words(nice: int, says: str) -> None:
    assert sentence(job(nice=nice), "nice") == says


def test_bands_in_words() -> None:
    assert [sentence(job(band), "band") for band in Band] == [
        "Band monitoring: before all jobs of production, batch and best-effort, "
        "whatever their points.",
        "Band production: after all jobs of monitoring and before all jobs of batch and "
        "best-effort, whatever their points.",
        "Band batch: after all jobs of monitoring and production and before all jobs of "
        "best-effort, whatever their points.",
        "Band best-effort: after all jobs of monitoring, production and batch, "
        "whatever their points.",
    ]


@pytest.mark.parametrize("nice", [-1001, 1001])
def test_nice_has_bounds(nice: int) -> None:
    with pytest.raises(ValueError, match="nice"):
        job(nice=nice)


@pytest.mark.parametrize(
    "values",
    [
        {"age": -1.0},
        {"size": math.nan},
        {"nice": math.inf},
        {"max_age_s": 0.0},
        {"max_age_s": math.inf},
        {"max_age_s": math.nan},
    ],
)
def test_weights_that_make_no_sense(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        PriorityWeights(**values)


@many
@given(factors_of_any_kind(), weights_of_any_kind)
def test_the_total_is_the_sum_of_the_parts(factors: Factors, weights: PriorityWeights) -> None:
    found = priority(factors, weights, NOON)
    parts = math.fsum(one.points for one in found.parts)
    assert math.isclose(found.total, parts, rel_tol=1e-9, abs_tol=1e-5)
    fast = points(
        weights,
        factors.waited_s(NOON),
        factors.standing.factor,
        factors.gpus,
        factors.partition_gpus,
        factors.nice,
    )
    assert found.total == fast
    for one in found.parts:
        assert -1 <= one.factor <= 1
        assert one.name == "nice" or one.factor >= 0
        assert one.points == one.weight * one.factor
        assert one.sentence.endswith(".")


@many
@given(factors_of_any_kind(), factors_of_any_kind(), weights_of_any_kind, weights_of_any_kind)
def test_no_weight_lifts_a_job_over_its_band(
    one: Factors, other: Factors, weights: PriorityWeights, others_weights: PriorityWeights
) -> None:
    first, second = priority(one, weights, NOON), priority(other, others_weights, NOON)
    if one.band is not other.band:
        assert (first.key > second.key) == (one.band.rank > other.band.rank)
    else:
        assert (first.key > second.key) == (first.total > second.total)


@many
@given(factors_of_any_kind(), weights_of_any_kind, st.floats(0, 1e6))
def test_waiting_never_costs_points(
    factors: Factors, weights: PriorityWeights, more_s: float
) -> None:
    later = NOON + timedelta(seconds=more_s)
    assert priority(factors, weights, later).total >= priority(factors, weights, NOON).total
