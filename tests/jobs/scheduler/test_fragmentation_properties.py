"""Placement by what is left: any cluster against the formula, read naively."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduler.fragmentation import SLACK, Fragmentation, Vacancy
from jobs.scheduler.typical import Request, Typical, typical

MODELS = ("A100", "H100")
SHARDS = {"A100": 6, "H100": 4}
"""Into how many parts the GPUs are divided."""


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
    for left, score in zip(nodes, Fragmentation(nodes, among, SHARDS).scores(request), strict=True):
        before = node_worth(among, left)
        found = []
        """What each way gains, and that less what breaking a whole GPU costs."""
        for way in ways(left, request):
            broken = request.shards > 0 and left.gpus[way[0]][1] == SHARDS[left.gpus[way[0]][0]]
            gain = node_worth(among, taken(left, request, way)) - before
            found.append((gain, gain - broken * SLACK))
        if not found:
            assert score == -inf
            continue
        top = max(reduced for _, reduced in found)
        assert any(
            score == pytest.approx(gain, abs=1e-5)
            for gain, reduced in found
            if reduced >= top - 1e-5
        )


@timeless
@given(clusters, demands, requests)
def test_the_choice_fits_and_no_other_is_better_by_more_than_the_slack(
    nodes: list[Vacancy], counts: dict[Request, float], request: Request
) -> None:
    after = Fragmentation(nodes, typical(counts), SHARDS)
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
    kept = Fragmentation(nodes, among, SHARDS)
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
        anew = Fragmentation(left.values(), among, SHARDS)
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
    one = Fragmentation(nodes, typical(counts), SHARDS)
    other = Fragmentation(mixed_nodes, typical(dict(mixed_counts)), SHARDS)
    assert one.names == other.names
    assert one.scores(request).tolist() == other.scores(request).tolist()
    assert one.choose(request) == other.choose(request)
