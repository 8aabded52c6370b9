"""What siblings lend to each other, and who takes it back from whom."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.counters import Counters
from jobs.scheduler.fairshare import Project
from jobs.scheduler.lending import borrowed
from jobs.scheduler.limits import Borrower, Limited, Limits, Quota, Usage
from jobs.scheduler.preempt import Victim
from jobs.scheduler.tally import BORROWS, FITS
from tests.jobs.scheduler.quotas import NOW

TOP, VISION, ROBOTS, AUDIO, NESTED = range(1, 6)
PROJECTS = [
    Project(TOP, "lab", None),
    Project(VISION, "vision", TOP),
    Project(ROBOTS, "robots", TOP),
    Project(AUDIO, "audio", TOP),
    Project(NESTED, "segmentation", VISION),
]
QUOTAS = [
    Quota(TOP, Limits(gpus=30)),
    Quota(VISION, Limits(gpus=16)),
    Quota(ROBOTS, Limits(gpus=8)),
    Quota(AUDIO, Limits(gpus=8)),
]
LENDS: frozenset[int | None] = frozenset({TOP})


def counters(
    used: dict[int, float], quotas: list[Quota] = QUOTAS, lends: frozenset[int | None] = LENDS
) -> Counters:
    count = Counters(PROJECTS, quotas, Usage(NOW), lends)
    for project_id, gpus in used.items():
        count.add(count.group(project_id, 1, Band.BATCH), gpus, 0)
    return count


def check(count: Counters, project_id: int, gpus: float) -> int:
    return count.check(count.group(project_id, 1, Band.BATCH), gpus, 0)


def in_the_way(count: Counters, project_id: int, gpus: float) -> list[tuple[Limited, str, bool]]:
    found = count.why(count.group(project_id, 1, Band.BATCH), gpus, 0)
    return [(why.rule.limited, why.rule.project, why.owed) for why in found]


def test_a_project_goes_beyond_its_guarantee_on_what_siblings_leave() -> None:
    count = counters({VISION: 12, ROBOTS: 2})
    assert check(count, NESTED, 4) == FITS
    assert check(count, NESTED, 5) == BORROWS
    assert check(count, ROBOTS, 16) == BORROWS
    assert count.over_guarantee(VISION) == 0


def test_the_parents_own_quota_stays_hard() -> None:
    count = counters({VISION: 20, ROBOTS: 8})
    assert check(count, ROBOTS, 2) == BORROWS
    assert in_the_way(count, ROBOTS, 3) == [(Limited.GPUS, "lab", False)]


def test_without_the_switch_nothing_is_lent() -> None:
    count = counters({VISION: 12}, lends=frozenset())
    assert in_the_way(count, NESTED, 5) == [(Limited.GPUS, "vision", False)]
    assert count.over_guarantee(VISION) == 0
    assert count.borrowers(count.group(VISION, 1, Band.BATCH), 1) == ()


def test_who_is_within_the_guarantee_may_take_back_from_the_most_over() -> None:
    count = counters({VISION: 20, ROBOTS: 11, AUDIO: 1}, QUOTAS[1:])
    group = count.group(AUDIO, 1, Band.BATCH)
    [why] = count.why(group, 4, 0)
    assert why.sentence == (
        "The projects below lab lend to each other and have 32 GPUs in all: 32 are in use, "
        "this asks for 4, 4 too many. "
        "Its project is within its own guarantee and may take back what others borrowed."
    )
    # 3 of 8 is more than 4 of 16.
    assert count.borrowers(group, 4) == (Borrower(ROBOTS, 8, 3), Borrower(VISION, 16, 4))


def test_who_would_borrow_takes_nothing_back() -> None:
    count = counters({VISION: 20, ROBOTS: 11, AUDIO: 1}, QUOTAS[1:])
    assert in_the_way(count, AUDIO, 8) == [(Limited.LENDING, "lab", False)]
    assert count.borrowers(count.group(AUDIO, 1, Band.BATCH), 8) == ()


def test_who_was_guaranteed_nothing_gives_back_first() -> None:
    quotas = [*QUOTAS[1:3], Quota(AUDIO, Limits(gpus=0))]
    count = counters({ROBOTS: 14, AUDIO: 1}, quotas)
    found = count.borrowers(count.group(VISION, 1, Band.BATCH), 12)
    assert [borrower.project_id for borrower in found] == [AUDIO, ROBOTS]


def test_at_the_top_lends_who_has_no_parent() -> None:
    projects = [Project(1, "a", None), Project(2, "b", None)]
    quotas = [Quota(1, Limits(gpus=4)), Quota(2, Limits(gpus=4))]
    count = Counters(projects, quotas, Usage(NOW), frozenset({None}))
    group = count.group(1, 1, Band.BATCH)
    assert count.check(group, 8, 0) == BORROWS
    [why] = count.why(group, 9, 0)
    assert why.sentence.startswith("The projects at the top lend to each other and have 8 GPUs")


def test_limits_of_a_band_or_of_each_user_are_no_guarantee() -> None:
    quotas = [*QUOTAS, Quota(VISION, Limits(gpus=4), band=Band.BATCH)]
    assert in_the_way(counters({}, quotas), VISION, 5) == [(Limited.GPUS, "vision", False)]


def runs(job_id: int, gpus: float, band: Band, minutes: int, group: int = 0) -> Victim:
    begun = -60.0 * minutes
    return Victim(job_id, band, group, gpus, started_at=begun, saved_at=begun)


def test_what_is_borrowed_is_the_lowest_band_then_the_youngest() -> None:
    running = [
        runs(1, 4, Band.PRODUCTION, 1),
        runs(2, 2, Band.BATCH, 90),
        runs(3, 2, Band.BATCH, 30),
        runs(4, 2, Band.BATCH, 30),
        runs(5, 8, Band.BEST_EFFORT, 1),
        runs(6, 0, Band.BATCH, 1),
    ]

    def ids(over: float) -> list[int]:
        return [found.job_id for found in borrowed(running, over)]

    assert ids(0) == []
    assert ids(0.5) == [4]
    assert ids(4) == [4, 3]
    assert ids(7) == [4, 3, 2, 1]


PARTS = (Fraction(1, 3), Fraction(1, 2), *map(Fraction, range(1, 9)))
loads = st.lists(
    st.tuples(st.sampled_from((VISION, ROBOTS, AUDIO, NESTED)), st.sampled_from(PARTS)),
    min_size=4,
    max_size=25,
)


@settings(deadline=None)
@given(loads)
def test_taking_back_what_is_borrowed_lets_in_who_is_owed(
    load: list[tuple[int, Fraction]],
) -> None:
    count = counters({}, QUOTAS[1:])
    running = []
    for job_id, (project_id, gpus) in enumerate(load):
        if check(count, project_id, float(gpus)) < 0:
            group = count.group(project_id, 1, Band.BATCH)
            count.add(group, float(gpus), 0)
            running.append(runs(job_id, float(gpus), Band.BATCH, 0, group))
    for project_id in (VISION, ROBOTS, AUDIO):
        group = count.group(project_id, 1, Band.BATCH)
        owed = [why for why in count.why(group, 2, 0) if why.owed]
        found = count.borrowers(group, 2)
        assert not owed or found
        for borrower in found:
            theirs = [h for h in running if count.is_below(h.group, borrower.project_id)]
            back = borrowed(theirs, borrower.over)
            left = sum(h.gpus for h in theirs) - sum(h.gpus for h in back)
            assert left <= borrower.guarantee + 1e-9
            for one in back:
                count.remove(one.group, one.gpus, 0)
            running = [h for h in running if h not in back]
        if owed:
            assert check(count, project_id, 2) == FITS
