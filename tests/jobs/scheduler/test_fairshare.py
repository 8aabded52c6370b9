"""Fair Tree: its rules for order and ties, and what must hold for every tree."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jobs.scheduler.fairshare import (
    MAX_USAGE,
    Association,
    Member,
    Project,
    Standing,
    standings,
)

many = settings(deadline=None)

Lab = tuple[list[Project], list[Member], dict[Association, float]]


@st.composite
def labs(draw: st.DrawFn, amounts: st.SearchStrategy[float] | None = None) -> Lab:
    """A small tree; numbers are few and small, so that ties are frequent."""
    count = draw(st.integers(1, 5))
    projects = []
    for number in range(count):
        parent = draw(st.sampled_from([None, *range(number)]))
        projects.append(Project(number, f"p{number}", parent, draw(st.integers(0, 3))))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, 5)),
            min_size=1,
            max_size=8,
            unique=True,
        )
    )
    members = [Member(project, user, draw(st.integers(0, 2))) for project, user in pairs]
    if amounts is None:
        amounts = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 6.0])
    usage = {pair: draw(amounts) for pair in pairs}
    return projects, members, usage


def factors(found: Mapping[Association, Standing]) -> dict[Association, float]:
    return {association: standing.factor for association, standing in found.items()}


def test_whoever_used_less_of_their_share_goes_first() -> None:
    projects = [Project(1, "vision", None, 3), Project(2, "language", None, 1)]
    members = [Member(1, 10), Member(1, 11), Member(2, 12)]
    found = standings(projects, members, {(1, 10): 200, (1, 11): 100, (2, 12): 100})
    # vision: 3/4 of the shares, 3/4 of the usage; language: 1/4 and 1/4. Tied, so merged.
    assert factors(found) == {(1, 11): 1.0, (2, 12): 2 / 3, (1, 10): 1 / 3}
    assert [found[association].position for association in found] == [1, 2, 3]


def test_all_of_the_project_that_is_better_off_stand_behind_all_of_the_other() -> None:
    projects = [Project(1, "vision", None, 1), Project(2, "language", None, 1)]
    members = [Member(1, 10), Member(1, 11), Member(2, 12), Member(2, 13)]
    found = standings(projects, members, {(1, 10): 4.0, (2, 12): 5.0})
    assert factors(found) == {(1, 11): 1.0, (1, 10): 0.75, (2, 13): 0.5, (2, 12): 0.25}


def test_the_levels_tell_why() -> None:
    projects = [Project(1, "vision", None, 3), Project(2, "robots", 1, 2), Project(3, "x", None, 1)]
    members = [Member(2, 10, name="ada"), Member(1, 11, name="ben"), Member(3, 12, name="cyd")]
    found = standings(projects, members, {(2, 10): 30, (3, 12): 10})
    top, middle, bottom = found[(2, 10)].levels
    assert (top.name, top.shares, top.usage, top.fairness) == ("vision", 0.75, 0.75, 1.0)
    assert (middle.name, middle.shares, middle.usage) == ("robots", 2 / 3, 1.0)
    assert middle.fairness == 2 / 3
    assert (bottom.name, bottom.shares, bottom.usage, bottom.fairness) == ("ada", 1.0, 1.0, 1.0)
    assert found[(1, 11)].levels[-1].fairness == math.inf


def test_tied_projects_merge_their_children() -> None:
    projects = [Project(1, "a", None), Project(2, "b", None)]
    members = [Member(1, 10), Member(1, 11), Member(2, 12), Member(2, 13)]
    found = standings(projects, members, {(1, 10): 1, (1, 11): 3, (2, 12): 2, (2, 13): 2})
    assert factors(found) == {(1, 10): 1.0, (2, 12): 0.75, (2, 13): 0.75, (1, 11): 0.25}


def test_a_user_tied_with_a_project_has_the_rank_of_its_first_user() -> None:
    projects = [Project(1, "lab", None), Project(2, "a", 1), Project(3, "deeper", 2)]
    members = [Member(1, 10), Member(3, 11), Member(3, 12)]
    found = standings(projects, members, {(1, 10): 4, (3, 11): 1, (3, 12): 3})
    assert {key: one.rank for key, one in found.items()} == {(1, 10): 3, (3, 11): 3, (3, 12): 1}


def test_without_shares_one_stands_last_even_without_usage() -> None:
    projects = [Project(1, "a", None)]
    members = [Member(1, 10, shares=0), Member(1, 11), Member(1, 12)]
    found = standings(projects, members, {(1, 11): 9.0})
    assert list(found) == [(1, 12), (1, 11), (1, 10)]
    assert found[(1, 10)].levels[-1].fairness == 0.0


def test_a_former_member_still_counts_for_the_project() -> None:
    projects = [Project(1, "a", None), Project(2, "b", None)]
    members = [Member(1, 10), Member(2, 11)]
    found = standings(projects, members, {(1, 99): 5.0, (2, 11): 1.0, (7, 10): 100.0})
    assert factors(found) == {(2, 11): 1.0, (1, 10): 0.5}
    assert found[(1, 10)].levels[0].usage == 5 / 6


def test_the_last_bits_of_a_float_break_no_tie() -> None:
    projects = [Project(1, "a", None), Project(2, "b", None)]
    members = [Member(1, 10), Member(2, 11)]
    assert (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)
    found = standings(projects, members, {(1, 10): (0.1 + 0.2) + 0.3, (2, 11): 0.1 + (0.2 + 0.3)})
    assert factors(found) == {(1, 10): 1.0, (2, 11): 1.0}


def test_what_floats_cannot_tell_apart_is_no_tie() -> None:
    grains = 2**53 - 13
    members = [Member(1, 10), Member(1, 11), Member(1, 12, shares=0)]
    usage = {(1, 10): grains / 1000, (1, 11): (grains + 1) / 1000, (1, 12): 7.0}
    found = standings([Project(1, "a", None)], members, usage)
    less, more = found[(1, 10)], found[(1, 11)]
    assert less.levels[-1].fairness == more.levels[-1].fairness
    assert (less.rank, more.rank) == (3, 2)


@pytest.mark.parametrize("most", [MAX_USAGE, 10 * MAX_USAGE, math.inf])
def test_more_usage_than_can_be_counts_as_the_most(most: float) -> None:
    found = standings([Project(1, "a", None)], [Member(1, 5), Member(1, 6)], {(1, 5): most})
    least = standings([Project(1, "a", None)], [Member(1, 5), Member(1, 6)], {(1, 5): MAX_USAGE})
    assert found == least
    assert found[1, 6].rank > found[1, 5].rank


@pytest.mark.parametrize(
    ("projects", "members", "usage", "says"),
    [
        ([Project(1, "a", 1)], [], {}, "not below the top"),
        ([Project(1, "a", 2), Project(2, "b", 1)], [], {}, "not below the top"),
        ([Project(1, "a", 9)], [], {}, "not below the top"),
        ([Project(1, "a", None), Project(1, "b", None)], [], {}, "twice"),
        ([Project(1, "a", None)], [Member(1, 5), Member(1, 5)], {}, "twice"),
        ([Project(1, "a", None)], [Member(2, 5)], {}, "no project 2"),
        ([Project(1, "a", None, -1)], [], {}, "shares"),
        ([Project(1, "a", None)], [Member(1, 5, -1)], {}, "shares"),
        ([Project(1, "a", None)], [Member(1, 5)], {(1, 5): -1.0}, "usage"),
        ([Project(1, "a", None)], [Member(1, 5)], {(1, 5): math.nan}, "usage"),
    ],
)
def test_what_is_no_tree_is_refused(
    projects: list[Project], members: list[Member], usage: dict[Association, float], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        standings(projects, members, usage)


def test_nobody_to_rank() -> None:
    assert standings([], [], {}) == {}
    assert standings([Project(1, "a", None)], [], {}) == {}


@many
@given(labs(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_nothing(lab: Lab, random: st.randoms) -> None:
    projects, members, usage = lab
    expected = standings(projects, members, usage)
    pairs = list(usage.items())
    for part in (projects, members, pairs):
        random.shuffle(part)
    found = standings(projects, members, dict(pairs))
    assert found == expected
    assert list(found) == list(expected)


@many
@given(labs(st.floats(0, 1e9)))
def test_factors_are_ranks_of_all(lab: Lab) -> None:
    found = standings(*lab)
    ranks = sorted((one.rank for one in found.values()), reverse=True)
    assert all(0 < one.factor <= 1 for one in found.values())
    assert ranks[0] == len(found) == len(lab[1])
    for rank in set(ranks):
        # Whoever shares a rank takes up as many places as there are of them.
        assert len(ranks) - rank == sum(1 for other in ranks if other > rank)


@many
@given(labs())
def test_where_ways_part_the_fairer_way_goes_first(lab: Lab) -> None:
    projects, members, usage = lab
    found = standings(projects, members, usage)
    parents = {project.id: project.parent_id for project in projects}
    for one, first in found.items():
        for other, second in found.items():
            here, there = _parting(parents, one, other, first, second)
            if here > there:
                assert first.rank > second.rank


def _parting(
    parents: dict[int, int | None],
    one: Association,
    other: Association,
    first: Standing,
    second: Standing,
) -> tuple[float, float]:
    """Their level fairness below the last project that both are in."""
    ways = (_way(parents, one), _way(parents, other))
    depth = next((i for i, (a, b) in enumerate(zip(*ways, strict=False)) if a != b), 0)
    return first.levels[depth].fairness, second.levels[depth].fairness


def _way(parents: dict[int, int | None], association: Association) -> list[object]:
    way: list[object] = [("user", association)]
    project: int | None = association[0]
    while project is not None:
        way.insert(0, project)
        project = parents[project]
    return way


@many
@given(labs(), st.data(), st.sampled_from([0.001, 0.5, 1.0, 3.0, 1e6]))
def test_more_usage_never_raises_ones_own_rank(lab: Lab, data: st.DataObject, more: float) -> None:
    projects, members, usage = lab
    one = data.draw(st.sampled_from(sorted(usage)))
    before = standings(projects, members, usage)[one]
    # Who has no shares has no fairness to lose: more usage may part those it is tied with.
    assume(all(level.shares for level in before.levels))
    after = standings(projects, members, {**usage, one: usage[one] + more})[one]
    assert after.rank <= before.rank


@many
@given(labs(), st.sampled_from([2, 3, 7, 1000, 86_400]))
def test_scaling_all_usage_changes_nothing(lab: Lab, scale: int) -> None:
    projects, members, usage = lab
    scaled = {key: value * scale for key, value in usage.items()}
    assert standings(projects, members, scaled) == standings(projects, members, usage)
