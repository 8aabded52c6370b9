"""Placement by what is left, worked by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from jobs.scheduler.fragmentation import SLACK, Fragmentation, Vacancy
from jobs.scheduler.typical import Request, Typical, expected_use, typical

MODELS = ("A100", "H100")
HALF = Request(shards=2, cpus=4)
WHOLE = Request(gpus=1, cpus=8)
PAIR = Request(gpus=2, cpus=16)
HALVES_AND_WHOLES = Typical((HALF, WHOLE), (0.5, 0.5))


def over(
    nodes: Iterable[Vacancy], among: Typical, shards: int | Mapping[str, int] = 4
) -> Fragmentation:
    """All models divided into as many, or each into its own number."""
    sizes = dict.fromkeys(MODELS, shards) if isinstance(shards, int) else shards
    return Fragmentation(nodes, among, sizes)


def node(name: str, *free: int, cpus: int = 64, memory: int = 0, model: str = "A100") -> Vacancy:
    return Vacancy(name, cpus, memory, tuple((model, shards) for shards in free))


def test_what_a_gap_will_be_used_for() -> None:
    # Half a GPU takes a half. A whole one takes a whole, or a half and then another.
    half, whole = expected_use(HALVES_AND_WHOLES, 4)
    assert half.tolist() == [0, 0, 0.5, 0.5, 0.5 * (0.5 + 0.5)]
    assert whole.tolist() == [0, 0, 0, 0, 0.5 * 1]


def test_a_gpu_whose_cpus_are_gone_is_given_away_first() -> None:
    nodes = [node("n1", 4, cpus=16), node("n2", 2, cpus=16), node("n3", 4, cpus=4)]
    after = over(nodes, HALVES_AND_WHOLES)
    # n1: a half by halves and a half by wholes are worth 1; then a half is left, worth 1/2.
    # n2: the half is worth 1/2, then nothing.
    # n3: of the two halves its GPU could take its CPUs are enough for one: 1/2 x 1/2; then nothing.
    assert after.scores(HALF).tolist() == [-0.5, -0.5, -0.25]
    assert after.choose(HALF) == ("n3", (0,))
    # A whole one: n1 loses all of its 1; n2 has no GPU for it, n3 no CPUs.
    assert after.scores(WHOLE).tolist() == [-1, -inf, -inf]
    assert after.choose(WHOLE) == ("n1", (0,))


def test_shards_do_not_break_a_whole_gpu_where_a_broken_one_is_as_good() -> None:
    one_each = over([node("n1", 4), node("n2", 2)], HALVES_AND_WHOLES)
    assert one_each.scores(HALF).tolist() == [-0.5, -0.5]
    assert one_each.choose(HALF) == ("n2", (0,))
    both = over([node("n1", 4, 2, 4)], HALVES_AND_WHOLES)
    assert both.choose(HALF) == ("n1", (1,))


def test_a_whole_gpu_is_broken_only_for_more_than_the_slack() -> None:
    half, more = Request(shards=50), Request(shards=60)
    # V(50) = 50 and V(100) = w (50 + 50) + (1 - w) 60: a half of a whole GPU costs 46 or 30.
    for weight, costs in ((0.9, 46), (0.5, 30)):
        among = Typical((half, more), (weight, 1 - weight))
        apart = over([node("n1", 100), node("n2", 50)], among, 100)
        assert apart.scores(half).tolist() == pytest.approx([-costs / 100, -0.5])
        assert apart.choose(half) == (("n1", (0,)) if costs < 50 - 100 * SLACK else ("n2", (0,)))
        beside = over([node("n1", 100, 50)], among, 100)
        assert beside.choose(half) == ("n1", (0 if costs < 50 - 100 * SLACK else 1,))


def test_gangs_keep_their_places() -> None:
    nodes = [node("n1", 4, 4, 4), node("n2", 4, 4)]
    # Both lose a whole one; n2 has fewer, but then no place for a pair any more.
    assert over(nodes, HALVES_AND_WHOLES).choose(WHOLE) == ("n2", (0,))
    with_pairs = Typical((WHOLE, PAIR), (0.5, 0.5))
    assert over(nodes, with_pairs).choose(WHOLE) == ("n1", (0,))
    assert over(nodes, with_pairs).choose(PAIR) == ("n2", (0, 1))
    # Where there are no CPUs for a pair, there is no place for one to lose.
    short = [node("n1", 4, 4), node("n2", 4, 4, cpus=12)]
    assert over(short, Typical((PAIR,), (1.0,))).choose(WHOLE) == ("n2", (0,))


def test_a_model_that_some_must_have_is_left_to_them() -> None:
    picky = replace(WHOLE, models=frozenset({"H100"}))
    nodes = [node("n1", 4, model="H100"), node("n2", 4, model="A100")]
    after = over(nodes, Typical((WHOLE, picky), (0.5, 0.5)))
    assert after.choose(WHOLE) == ("n2", (0,))
    assert after.choose(picky) == ("n1", (0,))
    assert after.choose(replace(WHOLE, models=frozenset({"H200"}))) is None


def test_a_node_with_two_models_gives_the_one_that_was_asked_for() -> None:
    mixed = Vacancy("n1", 64, 0, (("A100", 4), ("H100", 4), ("H100", 3)))
    after = over([mixed], HALVES_AND_WHOLES)
    assert after.choose(replace(WHOLE, models=frozenset({"H100"}))) == ("n1", (1,))
    assert after.choose(replace(HALF, models=frozenset({"H100"}))) == ("n1", (2,))
    assert after.choose(Request(gpus=2, models=frozenset({"H100"}))) is None
    alike = over([Vacancy("n1", 64, 0, (("A100", 3), ("H100", 3)))], HALVES_AND_WHOLES)
    assert alike.choose(replace(HALF, models=frozenset({"H100"}))) == ("n1", (1,))


def test_without_gpus_it_goes_where_no_gpu_needs_its_cpus() -> None:
    nodes = [node("n1", 4, cpus=8), node("n2", 4, cpus=32), node("n3", cpus=8)]
    after = over(nodes, HALVES_AND_WHOLES)
    assert after.scores(Request(cpus=8)).tolist() == [-1, 0, 0]
    assert after.choose(Request(cpus=8)) == ("n3", ())
    assert after.choose(Request(cpus=33)) is None


def test_memory_counts_as_cpus_do() -> None:
    greedy = Request(gpus=1, memory=8)
    nodes = [node("n1", 4, 4, memory=16), node("n2", 4, 4, memory=8), node("n3", 4, memory=4)]
    after = over(nodes, Typical((greedy,), (1.0,)))
    assert after.scores(greedy).tolist() == [-1, -1, -inf]
    assert after.scores(Request(gpus=1)).tolist() == [-1, 0, 0]


def test_equal_nodes_are_taken_in_the_order_people_give_them() -> None:
    after = over([node("n10", 4), node("n9", 4), node("n100", 4)], HALVES_AND_WHOLES)
    assert after.names == ("n9", "n10", "n100")
    assert after.choose(WHOLE) == ("n9", (0,))
    assert after.choose(WHOLE, allowed=np.array([False, True, True])) == ("n10", (0,))
    assert after.choose(WHOLE, allowed=np.array([False, False, False])) is None


def test_nothing_typical_and_nothing_there() -> None:
    assert over([node("n1", 4, 4)], Typical()).choose(PAIR) == ("n1", (0, 1))
    assert over([], HALVES_AND_WHOLES).choose(WHOLE) is None
    assert over([node("n1")], HALVES_AND_WHOLES).choose(WHOLE) is None


def test_the_typical_are_the_most_frequent_until_enough_are_covered() -> None:
    counts = {HALF: 60.0, WHOLE: 34.0, PAIR: 5.0, Request(cpus=1): 1.0}
    assert typical(counts, cover=0.6) == Typical((HALF,), (1.0,))
    chosen = typical(counts)
    assert chosen.requests == (HALF, WHOLE, PAIR)
    assert chosen.weights == pytest.approx((60 / 99, 34 / 99, 5 / 99))
    assert typical({}) == Typical()
