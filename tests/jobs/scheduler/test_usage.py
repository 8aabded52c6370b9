"""What is charged: weights, exact decay, and charges that come in any order."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduler.usage import (
    WEEK_S,
    Charge,
    Decay,
    EntryPenalty,
    Gpus,
    Held,
    Usage,
    Weights,
    billing,
    usage_of,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
WEEKLY = Decay()
many = settings(deadline=None)

moments = st.integers(-5_000_000, 5_000_000).map(lambda s: NOON + timedelta(seconds=s))
rates = st.floats(0.001, 5000)
decays = st.floats(60, 1e8).map(Decay)


@st.composite
def charges(draw: st.DrawFn) -> Charge:
    start, end = sorted((draw(moments), draw(moments)))
    return Charge(draw(rates), start, end)


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-300)


def test_gpus_cost_their_models_weight_and_the_dearer_of_cpus_and_memory() -> None:
    weights = Weights({"H100": 2.0}, gpu=0.5, cpu=0.01, memory_gib=0.001)
    gpus = (Gpus("H100", 2), Gpus("T4"))
    assert billing([Held(10, 200 * 1024, gpus)], weights) == pytest.approx(4.5 + 0.2)
    assert billing([Held(30, 200 * 1024, gpus)], weights) == pytest.approx(4.5 + 0.3)


def test_the_dearer_one_is_found_on_each_node() -> None:
    weights = Weights(cpu=1.0, memory_gib=1.0)
    assert billing([Held(cpus=4), Held(memory_mib=3 * 1024)], weights) == 7.0


def test_a_shard_costs_its_part_of_a_gpu() -> None:
    weights = Weights({"L40S": 0.5})
    assert billing([Held(gpus=(Gpus("L40S", 1, 1, 4),))], weights) == 0.125
    four = [Held(gpus=(Gpus("L40S", 1, 1, 4),))] * 4
    assert billing(four, weights) == billing([Held(gpus=(Gpus("L40S"),))], weights) == 0.5
    assert Gpus("L40S", 3, 2, 4).amount == 1.5


def test_a_job_without_gpus_is_not_free() -> None:
    assert billing([Held(cpus=1)], Weights()) > 0


@pytest.mark.parametrize(
    "values", [{"gpu": -1.0}, {"cpu": math.nan}, {"gpu_models": {"A100": math.inf}}]
)
def test_weights_that_make_no_sense(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="weight"):
        Weights(**values)


@pytest.mark.parametrize("half_life_s", [0.0, -1.0, math.inf, math.nan])
def test_half_lives_that_make_no_sense(half_life_s: float) -> None:
    with pytest.raises(ValueError, match="half-life"):
        Decay(half_life_s)


def test_charges_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="before it starts"):
        Charge(1.0, NOON, NOON - timedelta(seconds=1))
    with pytest.raises(ValueError, match="rate"):
        Charge(-1.0, NOON, NOON)


def test_half_is_left_after_a_half_life() -> None:
    assert WEEKLY.factor(WEEK_S) == 0.5
    assert Usage(8.0, NOON).seen(NOON + timedelta(days=21), WEEKLY).value == 1.0


def test_a_short_charge_is_nearly_its_gpu_seconds_and_a_long_one_has_a_bound() -> None:
    second = Charge(4.0, NOON, NOON + timedelta(seconds=1))
    assert usage_of(second, WEEKLY).value == pytest.approx(4.0, rel=1e-6)
    years = Charge(4.0, NOON, NOON + timedelta(days=3650))
    assert usage_of(years, WEEKLY).value == pytest.approx(4.0 * WEEK_S / math.log(2))
    assert years.gpu_seconds == 4.0 * 3650 * 86_400


@many
@given(rates, st.integers(1, 5_000_000), decays)
def test_a_charge_is_the_sum_of_its_seconds(rate: float, length_s: int, decay: Decay) -> None:
    steps = 2000
    step_s = length_s / steps
    middles = ((number + 0.5) * step_s for number in range(steps))
    summed = math.fsum(rate * step_s * decay.factor(length_s - middle) for middle in middles)
    charge = Charge(rate, NOON, NOON + timedelta(seconds=length_s))
    # The midpoint rule errs by (step / half-life)^2 x ln(2)^2 / 24 of the value.
    error = (step_s / decay.half_life_s) ** 2 * 0.021 + 1e-9
    assert math.isclose(usage_of(charge, decay).value, summed, rel_tol=error)


@many
@given(st.floats(0, 1e8), st.floats(0, 1e8), decays)
def test_decay_in_two_steps_is_decay_in_one(first_s: float, second_s: float, decay: Decay) -> None:
    assert close(decay.factor(first_s) * decay.factor(second_s), decay.factor(first_s + second_s))


@many
@given(rates, st.tuples(moments, moments, moments).map(sorted), moments, decays)
def test_two_parts_of_a_charge_are_the_whole(
    rate: float, bounds: list[datetime], at: datetime, decay: Decay
) -> None:
    first, middle, last = bounds
    whole = Usage(0.0, at).charged(Charge(rate, first, last), decay)
    parts = (
        Usage(0.0, at)
        .charged(Charge(rate, first, middle), decay)
        .charged(Charge(rate, middle, last), decay)
    )
    assert parts.at == whole.at == max(at, last)
    assert close(parts.value, whole.value)


@many
@given(st.lists(charges(), min_size=1, max_size=8), st.randoms(use_true_random=False), decays)
def test_a_replay_in_any_order_and_grouping_gives_the_same(
    all_charges: list[Charge], random: st.randoms, decay: Decay
) -> None:
    start = Usage(0.0, NOON - timedelta(days=100))
    straight = start
    for charge in all_charges:
        straight = straight.charged(charge, decay)
    heap = [start] + [usage_of(charge, decay) for charge in all_charges]
    while len(heap) > 1:
        random.shuffle(heap)
        heap.append(heap.pop().merged(heap.pop(), decay))
    assert heap[0].at == straight.at == max(charge.end for charge in all_charges)
    assert close(heap[0].value, straight.value)


@many
@given(charges(), moments, decays)
def test_a_charge_that_comes_late_is_worth_what_it_would_have_been(
    charge: Charge, at: datetime, decay: Decay
) -> None:
    early = usage_of(charge, decay).merged(Usage(0.0, at), decay)
    late = Usage(0.0, at).charged(charge, decay)
    assert early == late
    assert late.value == usage_of(charge, decay).seen(late.at, decay).value


@many
@given(rates, st.floats(1, 1e6), st.floats(0, 2e6), st.floats(0, 1))
def test_penalty_and_charge_together_are_the_larger_of_them(
    rate: float, walltime_s: float, elapsed_s: float, share: float
) -> None:
    penalty = EntryPenalty(share).remaining(rate, walltime_s, elapsed_s)
    charged = rate * elapsed_s
    expected = max(charged, rate * share * walltime_s)
    assert math.isclose(penalty + charged, expected, rel_tol=1e-9, abs_tol=1e-9)


def test_nothing_of_the_penalty_is_left_once_so_much_has_run() -> None:
    penalty = EntryPenalty(0.25)
    assert penalty.remaining(2.0, 400.0) == 200.0
    assert penalty.remaining(2.0, 400.0, -5.0) == 200.0
    assert penalty.remaining(2.0, 400.0, 60.0) == 80.0
    assert penalty.remaining(2.0, 400.0, 100.0) == penalty.remaining(2.0, 400.0, 300.0) == 0.0


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_penalties_that_make_no_sense(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        EntryPenalty(share)
