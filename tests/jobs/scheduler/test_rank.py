"""The order in which waiting jobs are taken, and who can come to be before whom."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.fairshare import Member, Project
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.priority import PriorityWeights
from jobs.scheduler.rank import is_long, ranked
from jobs.scheduler.snapshot import Pending, Snapshot
from tests.jobs.scheduler.clusters import NOW, node, pending

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def order(*jobs: Pending, **policy: object) -> list[int]:
    """Of project 1, which has used more than its share, or 2, which has used less."""
    projects = (Project(1, "over", None), Project(2, "under", None))
    members = (Member(1, 1), Member(2, 1))
    asked = Snapshot(
        (node(1), node(2)), jobs, projects=projects, members=members, usage=(((1, 1), 9e4),),
        policy=Policy(**policy),  # type: ignore[arg-type]
    )  # fmt: skip
    return [job.id for job in ranked(asked, NOW)]


def job(job_id: int, gpus: int = 1, project_id: int = 1, **more: object) -> Pending:
    told: dict[str, object] = {"user_id": 1, "submitted_at": NOW - timedelta(seconds=99 - job_id)}
    return pending(job_id, gpus, project_id=project_id, **(told | more))


def test_bands_first_and_before_them_who_others_make_room_for() -> None:
    assert order(
        job(1, project_id=2, band=Band.BEST_EFFORT, claimed_at=NOW),
        job(2, project_id=2, band=Band.BEST_EFFORT, nice=-1000),
        job(3, nice=1000),
        job(4, band=Band.PRODUCTION),
        job(5, band=Band.MONITORING),
    ) == [1, 5, 4, 3, 2]


def test_those_for_whom_others_make_room_in_the_order_in_which_they_asked() -> None:
    """Whatever they would come to by themselves; a higher band goes first all the same."""
    assert order(
        job(1, 4, claimed_at=NOW),
        job(2, claimed_at=NOW - timedelta(seconds=20)),
        job(3, project_id=2, claimed_at=NOW - timedelta(seconds=10)),
        job(4, band=Band.PRODUCTION, claimed_at=NOW),
    ) == [4, 2, 3, 1]


def test_fair_share_then_age_then_size() -> None:
    assert order(
        job(1),
        job(2, 4),
        job(3, submitted_at=NOW - 3 * DAY),
        job(4, project_id=2),
        job(5, submitted_at=NOW - 7 * DAY, eligible_at=NOW),
        job(6, nice=-500),
        job(7, project_id=3, submitted_at=NOW - 2 * DAY),
    ) == [4, 6, 3, 2, 1, 5, 7]


def test_of_equal_points_by_submission() -> None:
    submitted = NOW - HOUR
    equal = [job(number, submitted_at=submitted, eligible_at=NOW) for number in (3, 1, 2)]
    later = job(0, submitted_at=NOW, eligible_at=NOW)
    assert order(later, *equal) == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (Order.SUBMISSION, [1, 3, 2, 4]),
        (Order.SHORTEST, [4, 2, 3, 1]),
        (Order.LEAST_SERVICE, [2, 4, 3, 1]),
        (Order.RESPONSE_RATIO, [3, 1, 2, 4]),
        (Order.FAIR_RATIO, [3, 1, 2, 4]),
    ],
)
def test_the_other_orders(way: Order, expected: list[int]) -> None:
    assert (
        order(
            job(4, 3, walltime_s=300, submitted_at=NOW),
            job(2, 1, walltime_s=600, submitted_at=NOW - HOUR / 60),
            job(3, 2, walltime_s=9999, expected_s=3600.0, submitted_at=NOW - 4 * HOUR),
            job(1, 4, walltime_s=7200, submitted_at=NOW - 5 * HOUR),
            order=way,
        )
        == expected
    )


WEIGHTS = PriorityWeights()
AHEAD_S = WEIGHTS.max_age_s * WEIGHTS.size / WEIGHTS.age
"""`docs/scheduling.md`: so much age is outweighed by size at most."""
hours = st.floats(0, 21 * 24).map(lambda much: much * 3600)


def test_what_size_outweighs_is_as_documented() -> None:
    assert timedelta(seconds=AHEAD_S) == 1.4 * DAY
    assert timedelta(seconds=WEIGHTS.max_age_s - AHEAD_S) == 5.6 * DAY


@given(hours, hours, st.integers(0, 8), st.integers(0, 8))
def test_of_one_user_who_came_much_later_does_not_pass(
    waited_s: float, other_s: float, gpus: int, other_gpus: int
) -> None:
    first = job(1, gpus, submitted_at=NOW - timedelta(seconds=waited_s))
    other = job(2, other_gpus, submitted_at=NOW - timedelta(seconds=other_s))
    passes = order(first, other) == [2, 1]
    if passes and other_s < waited_s:
        late = waited_s - other_s <= AHEAD_S + 1
        assert late or other_s >= WEIGHTS.max_age_s - AHEAD_S - 1


RATIOS = (Order.RESPONSE_RATIO, Order.FAIR_RATIO)
BY_LENGTH = (Order.SHORTEST, Order.LEAST_SERVICE, *RATIOS)


def test_by_fair_ratio_who_used_less_goes_first_until_the_wait_outweighs_it() -> None:
    # Of the two users the one of project 1 has used more: a factor of 1/2.
    over = {"project_id": 1, "walltime_s": 3600}
    under = job(2, project_id=2, walltime_s=3600, submitted_at=NOW - HOUR)
    as_long = job(1, **over, submitted_at=NOW - HOUR)
    twice = job(3, **over, submitted_at=NOW - timedelta(seconds=2 * 3660 - 60 + 1))
    assert order(as_long, under, order=Order.RESPONSE_RATIO) == [1, 2]
    assert order(as_long, under, order=Order.FAIR_RATIO) == [2, 1]
    assert order(twice, under, order=Order.FAIR_RATIO) == [3, 2]


@pytest.mark.parametrize("way", RATIOS)
def test_who_is_in_no_project_of_the_tree_counts_like_the_last(way: Order) -> None:
    alone = job(1, project_id=9, submitted_at=NOW - HOUR)
    assert order(alone, job(2, submitted_at=NOW), order=way) == [1, 2]


@given(hours, hours, st.integers(1, 7 * 24), st.integers(1, 9999), st.sampled_from(BY_LENGTH))
def test_who_waited_too_long_is_not_passed_by_who_came_later(
    waited_s: float, later_s: float, walltime_h: int, expected_s: int, way: Order
) -> None:
    first = job(1, walltime_s=walltime_h * 3600, submitted_at=NOW - timedelta(seconds=waited_s))
    other = job(
        2, project_id=2, walltime_s=expected_s, expected_s=1.0,
        submitted_at=NOW - timedelta(seconds=min(waited_s, later_s)),
    )  # fmt: skip
    if is_long(waited_s):
        assert order(first, other, order=way) == [1, 2]


def test_published_simulations_know_no_bound() -> None:
    long = job(1, walltime_s=7200, submitted_at=NOW - 30 * DAY)
    short = job(2, submitted_at=NOW - HOUR)
    assert order(long, short, order=Order.SHORTEST) == [1, 2]
    assert order(long, short, order=Order.SHORTEST, bounded=False) == [2, 1]


@given(hours, st.sampled_from(BY_LENGTH))
def test_the_time_that_a_job_was_held_lifts_it_not(waited_s: float, way: Order) -> None:
    held = job(1, 2, submitted_at=NOW - 30 * DAY, eligible_at=NOW)
    other = job(2, walltime_s=3599, submitted_at=NOW - timedelta(seconds=waited_s + 1))
    assert order(held, other, order=way) == [2, 1]
