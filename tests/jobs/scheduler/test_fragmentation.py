"""Placement by what is left: worked by hand, then any cluster against the formula read naively."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduler.fragmentation import SLACK, Fragmentation, Vacancy
from jobs.scheduler.typical import Request, Typical, expected_use, typical

MODELS = ("A100", "H100")
SHARDS = {"A100": 6, "H100": 4}
"""Into how many parts the GPUs of generated nodes are divided."""
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


# --- worked by hand -----------------------------------------------------------------------------


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


# --- against the formula, read naively ----------------------------------------------------------


def size(request: Request, shards: int) -> int:
    return shards if request.gpus == 1 else request.shards


def fitting(among: Typical, gap: int, shards: int) -> list[tuple[float, int]]:
    """Of the typical requests for one GPU that go into the gap: weight and shards."""
    return [
        (weight, size(request, shards))
        for request, weight in zip(among.requests, among.weights, strict=True)
        if 0 < size(request, shards) <= gap
    ]


def gap_worth(among: Typical, gap: int, shards: int) -> float:
    """V(h)."""
    there = fitting(among, gap, shards)
    if not there:
        return 0.0
    used = sum(w * (size / shards + gap_worth(among, gap - size, shards)) for w, size in there)
    return used / sum(weight for weight, _ in there)


def afford(left: Vacancy, request: Request) -> float:
    return min(
        left.cpus // request.cpus if request.cpus else inf,
        left.memory // request.memory if request.memory else inf,
    )


def node_worth(among: Typical, left: Vacancy) -> float:
    total = 0.0
    for request, weight in zip(among.requests, among.weights, strict=True):
        gaps = [
            (free, size(request, SHARDS[model]), SHARDS[model])
            for model, free in left.gpus
            if 0 < size(request, SHARDS[model]) <= free
            and (not request.models or model in request.models)
        ]
        copies = sum(gap // wants for gap, wants, _ in gaps)
        for gap, wants, shards in gaps:
            others = sum(other for other, _ in fitting(among, gap, shards))
            use = weight * (wants / shards + gap_worth(among, gap - wants, shards)) / others
            total += use * min(1.0, afford(left, request) / copies)
    return total


def ways(left: Vacancy, request: Request) -> list[tuple[int, ...]]:
    """All GPUs that the request may be given on this node, the first free ones if whole."""
    if left.cpus < request.cpus or left.memory < request.memory:
        return []
    good = [
        (index, free, SHARDS[model])
        for index, (model, free) in enumerate(left.gpus)
        if not request.models or model in request.models
    ]
    if request.shards:
        return [(index,) for index, free, _ in good if free >= request.shards]
    whole = [index for index, free, shards in good if free == shards]
    return [tuple(whole[: request.gpus])] if len(whole) >= request.gpus else []


def taken(left: Vacancy, request: Request, gpus: tuple[int, ...]) -> Vacancy:
    return Vacancy(
        left.name,
        left.cpus - request.cpus,
        left.memory - request.memory,
        tuple(
            (model, free - (request.shards or SHARDS[model]) if index in gpus else free)
            for index, (model, free) in enumerate(left.gpus)
        ),
    )


timeless = settings(deadline=None)

requests = st.builds(
    Request,
    gpus=st.integers(0, 3),
    cpus=st.integers(0, 6),
    memory=st.integers(0, 6),
    models=st.sampled_from([frozenset(), frozenset({"A100"}), frozenset(MODELS)]),
) | st.builds(Request, shards=st.integers(1, 5), cpus=st.integers(0, 6))
demands = st.dictionaries(requests, st.integers(1, 5).map(float), max_size=5)
a_gpu = st.sampled_from(MODELS).flatmap(
    lambda model: st.tuples(st.just(model), st.integers(0, SHARDS[model]))
)
gpus = st.lists(a_gpu, max_size=4).map(tuple)
clusters = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), gpus), min_size=1, max_size=6
).map(lambda rows: [Vacancy(f"n{i}", *row) for i, row in enumerate(rows)])


@timeless
@given(clusters, demands, requests)
def test_scores_are_the_formula(
    nodes: list[Vacancy], counts: dict[Request, float], request: Request
) -> None:
    among = typical(counts, cover=1.0)
    for left, score in zip(nodes, over(nodes, among, SHARDS).scores(request), strict=True):
        before = node_worth(among, left)
        best = {}
        for way in ways(left, request):
            broken = request.shards > 0 and left.gpus[way[0]][1] == SHARDS[left.gpus[way[0]][0]]
            gain = node_worth(among, taken(left, request, way)) - before
            best[gain] = gain - broken * SLACK
        if not best:
            assert score == -inf
            continue
        top = max(best.values())
        assert any(
            score == pytest.approx(gain, abs=1e-5)
            for gain, reduced in best.items()
            if reduced >= top - 1e-5
        )


@timeless
@given(clusters, demands, requests)
def test_the_choice_fits_and_no_other_is_better_by_more_than_the_slack(
    nodes: list[Vacancy], counts: dict[Request, float], request: Request
) -> None:
    after = over(nodes, typical(counts), SHARDS)
    chosen = after.choose(request)
    left = {node.name: node for node in nodes}
    if chosen is None:
        assert not any(ways(node, request) for node in nodes)
        return
    name, gpus = chosen
    assert gpus in ways(left[name], request)
    scores = after.scores(request)
    assert scores[after.names.index(name)] >= scores.max() - SLACK


@timeless
@given(clusters, demands, st.lists(requests, min_size=1, max_size=12), st.integers())
def test_what_was_kept_equals_what_is_computed_anew(
    nodes: list[Vacancy], counts: dict[Request, float], queue: list[Request], seed: int
) -> None:
    among = typical(counts)
    kept = over(nodes, among, SHARDS)
    left = {node.name: node for node in nodes}
    rng = random.Random(seed)
    before: list[Vacancy] = []
    for request in queue:
        chosen = kept.choose(request)
        if chosen is not None:
            before.append(left[chosen[0]])
            left[chosen[0]] = taken(left[chosen[0]], request, chosen[1])
            kept.update(left[chosen[0]])
        if before and rng.random() < 0.3:
            earlier = before.pop(rng.randrange(len(before)))
            left[earlier.name] = earlier
            kept.update(earlier)
        anew = over(left.values(), among, SHARDS)
        for other in queue[:3]:
            assert kept.scores(other).tolist() == anew.scores(other).tolist()
            assert kept.choose(other) == anew.choose(other)


@timeless
@given(clusters, demands, requests, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(
    nodes: list[Vacancy], counts: dict[Request, float], request: Request, rng: random.Random
) -> None:
    mixed_nodes, mixed_counts = list(nodes), list(counts.items())
    rng.shuffle(mixed_nodes)
    rng.shuffle(mixed_counts)
    one = over(nodes, typical(counts), SHARDS)
    other = over(mixed_nodes, typical(dict(mixed_counts)), SHARDS)
    assert one.names == other.names
    assert one.scores(request).tolist() == other.scores(request).tolist()
    assert one.choose(request) == other.choose(request)
