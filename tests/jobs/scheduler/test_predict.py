"""Run times foretold from history: bounded by the walltime, ordered, and the same every time."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.scheduler.predict import History, Prediction, response_ratio
from jobs.scheduler.work import Work
from jobs.spec import Resources

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
TRAIN = Work(user="ada", project="vision", name="train-vit", gpus=4, walltime_s=86_400)
Seen = tuple[Work, float, datetime]

walltimes = st.none() | st.floats(1, 1e6)
works = st.builds(
    Work,
    user=st.sampled_from(["", "ada", "bo"]),
    project=st.sampled_from(["", "vision", "speech"]),
    name=st.sampled_from(["", "train", "eval"]),
    gpus=st.sampled_from([0, 1, 8]),
    walltime_s=walltimes,
)
run_times = st.floats(0, 2e6)
observations = st.lists(
    st.tuples(works, run_times, st.integers(0, 500).map(lambda s: NOW + timedelta(seconds=s))),
    max_size=12,
)


def history(seen: list[Seen], runs_per_key: int = 20, keys: int = 1000) -> History:
    made = History(runs_per_key, keys)
    for work, run_s, at in seen:
        made.observe(work, run_s, at)
    return made


def ran(work: Work, *run_times_s: float) -> list[Seen]:
    return [(work, run_s, NOW + timedelta(hours=i)) for i, run_s in enumerate(run_times_s)]


def assert_ordered(found: Prediction) -> None:
    assert 0 <= found.low_s <= found.expected_s <= found.high_s < float("inf")
    if found.walltime_s is not None:
        assert found.high_s <= found.walltime_s


@given(observations, works)
def test_low_expected_and_high_are_in_order_and_never_above_the_walltime(
    seen: list[Seen], work: Work
) -> None:
    found = history(seen).predict(work)
    assert found.walltime_s == work.walltime_s
    assert_ordered(found)
    assert 0 <= found.typical_s <= found.high_s


@given(observations, works, st.lists(st.floats(0, 1e7), max_size=8))
def test_the_longer_a_job_has_run_the_longer_its_whole_run_is_expected_to_be(
    seen: list[Seen], work: Work, elapsed: list[float]
) -> None:
    found = history(seen).predict(work)
    before = found.expected_s
    for elapsed_s in sorted(elapsed):
        now = found.longer_than(elapsed_s)
        assert_ordered(now)
        assert now.expected_s >= before * (1 - 1e-9)
        if work.walltime_s is None or elapsed_s < work.walltime_s:
            assert now.expected_s >= elapsed_s
        before = now.expected_s


@given(observations, works, st.floats(0, 1e7), st.none() | st.floats(1, 1e7), st.floats(0, 1e7))
def test_the_rest_of_a_job_is_of_the_time_limit_of_its_next_run(
    seen: list[Seen], work: Work, served_s: float, walltime_s: float | None, elapsed_s: float
) -> None:
    whole = history(seen).predict(replace(work, walltime_s=None))
    rest = whole.remaining(served_s, walltime_s)
    assert rest.walltime_s == walltime_s
    assert_ordered(rest)
    assert 0 <= rest.typical_s <= rest.high_s
    assert_ordered(rest.longer_than(elapsed_s))
    if walltime_s is None:
        left_s = whole.longer_than(served_s).expected_s - served_s
        assert rest.expected_s == pytest.approx(left_s, rel=1e-6, abs=1e-3)


def test_of_who_outlived_all_others_half_is_still_to_come() -> None:
    whole = history(ran(TRAIN, 100.0)).predict(replace(TRAIN, walltime_s=None))
    assert whole.remaining(40, 500).expected_s == pytest.approx(60)
    assert whole.remaining(300, 500).expected_s == pytest.approx(300)
    assert whole.remaining(600, 500).expected_s == pytest.approx(500)


@given(observations, works, st.randoms(use_true_random=False))
def test_the_order_in_which_ends_are_learnt_changes_nothing(
    seen: list[Seen], work: Work, shuffler: random.Random
) -> None:
    shuffled = list(seen)
    shuffler.shuffle(shuffled)
    few = 5
    assert history(seen, few).predict(work) == history(shuffled, few).predict(work)


@given(observations, works, works, run_times)
def test_what_was_answered_before_does_not_stay_when_a_job_ends(
    seen: list[Seen], work: Work, ended: Work, run_s: float
) -> None:
    end = (ended, run_s, NOW + timedelta(days=1))
    asked = history(seen)
    asked.predict(work)
    asked.observe(*end)
    assert asked.predict(work) == history([*seen, end]).predict(work)


@given(works)
def test_with_nothing_known_the_walltime_is_expected(work: Work) -> None:
    found = History().predict(work)
    assert found.from_n == 0
    if work.walltime_s is not None:
        assert found.expected_s == work.walltime_s == found.high_s


def test_memory_is_bounded_however_many_jobs_end() -> None:
    made = History(runs_per_key=3, keys=10)
    for i in range(400):
        work = Work(user=f"user{i % 50}", project=f"p{i % 7}", name=f"run-{i}", gpus=i % 9)
        made.observe(work, 60.0 + i, NOW + timedelta(seconds=i))
        made.predict(work)
    assert len(made) <= 3 * 10
    assert made.predict(Work(user="new", walltime_s=1e6)).from_n == 3  # of all: never forgotten


def test_a_history_too_small_for_the_keys_of_one_job_is_refused() -> None:
    with pytest.raises(ValueError, match="keys"):
        History(keys=7)
    with pytest.raises(ValueError, match="1 run time"):
        History(runs_per_key=0)


@pytest.mark.parametrize(
    ("asked", "words", "from_n"),
    [
        (TRAIN, "your last 3 jobs named train-vit in vision on 4 GPUs", 3),
        (replace(TRAIN, gpus=1), "your last job named train-vit in vision on 1 GPU", 1),
        (replace(TRAIN, gpus=8), "your last 4 jobs named train-vit in vision", 4),
        (replace(TRAIN, project="speech"), "your last 3 jobs on 4 GPUs", 3),
        (replace(TRAIN, name="eval"), "your last 3 jobs on 4 GPUs", 3),
        (replace(TRAIN, name="eval", gpus=2), "your last 4 jobs", 4),
        (replace(TRAIN, user="bo"), "the last 3 jobs of vision on 4 GPUs", 3),
        (replace(TRAIN, user="bo", gpus=2), "the last 4 jobs of vision", 4),
        (
            replace(TRAIN, user="bo", project="speech", gpus=0),
            "the last job of anybody without GPUs",
            1,
        ),
        (replace(TRAIN, user="bo", project="speech", gpus=2), "the last 5 jobs of anybody", 5),
    ],
)
def test_the_narrowest_key_with_a_history_is_named(asked: Work, words: str, from_n: int) -> None:
    other = Work(user="cy", project="robots", name="clean", gpus=0)
    known = history([*ran(TRAIN, 100, 200, 300), *ran(replace(TRAIN, gpus=1), 50), *ran(other, 9)])
    found = known.predict(asked)
    assert (found.by, found.from_n) == (words, from_n)


def test_what_a_project_is_called_is_told_and_counts_for_nothing() -> None:
    known = history(ran(replace(TRAIN, user=7, project=3, called="vision"), 100, 200))
    for called in ("vision", "sight"):
        found = known.predict(replace(TRAIN, user=7, project=3, called=called))
        assert found.by == f"your last 2 jobs named train-vit in {called} on 4 GPUs"
    of_all = known.predict(replace(TRAIN, user=8, project=3, called="sight"))
    assert of_all.by == "the last 2 jobs of sight on 4 GPUs"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Resources(shards=1), "on 1 shard"),
        (Resources(nodes=2, shards=3), "on 6 shards"),
        (Resources(exclusive=True), "on 1 whole node"),
        (Resources(nodes=2, gpus_per_node=4, exclusive=True), "on 2 whole nodes"),
        (Resources(cpus_per_task=8), "without GPUs"),
        (Resources(nodes=2, gpus_per_node=4), "on 8 GPUs"),
    ],
)
def test_parts_of_gpus_and_whole_nodes_are_sizes_of_their_own(asked: Resources, words: str) -> None:
    own = Work.of("ada", "vision", "train-vit", asked, 86_400)
    all_others = ran(replace(own, gpus=own.gpus + 1), *[60.0] * 3)
    found = history([*ran(own, 3_600), *all_others]).predict(own)
    assert found.by == f"your last job named train-vit in vision {words}"
    assert found.expected_s > 1_800


def test_a_users_own_jobs_of_this_name_outweigh_all_others() -> None:
    others = ran(replace(TRAIN, user="bo", name="sweep"), *[60.0] * 40)
    known = history([*others, *ran(TRAIN, *[36_000.0] * 12)])
    assert known.predict(TRAIN).expected_s > 30_000
    assert known.predict(replace(TRAIN, user="bo", name="sweep")).expected_s < 5_000


def test_the_newest_run_times_weigh_most() -> None:
    became_longer = history(ran(TRAIN, 100, 100, 100, 9_000, 9_000)).predict(TRAIN)
    became_shorter = history(ran(TRAIN, 9_000, 9_000, 100, 100, 100)).predict(TRAIN)
    assert became_longer.expected_s > 1.5 * became_shorter.expected_s
    assert became_longer.typical_s > 2 * became_shorter.typical_s


def test_one_run_time_leaves_half_to_the_wider_keys() -> None:
    """Worked by hand: this user's job of another name ran 4,000 s, then one of this name 1,000 s.

    The two keys with the name know one run time each: 1/2 and 1/4. Each of the six wider keys (the
    user, the project and all, on 4 GPUs and on any) knows both: of what is left to it, it gives 1
    of 1 + 0.8 + 1 to the newer and 0.8 to the older one, and leaves 1.
    """
    known = history(
        [
            (replace(TRAIN, name="sweep"), 4_000, NOW),
            (TRAIN, 1_000, NOW + timedelta(hours=1)),
        ]
    )
    both = sum(1 / 4 / 2.8**key for key in range(1, 7))
    short, long = 3 / 4 + both, 0.8 * both
    expected = (1_000 * short + 4_000 * long) / (short + long)
    assert known.predict(TRAIN).expected_s == pytest.approx(expected)


def test_the_first_short_job_of_a_lab_says_little_of_the_next_ones() -> None:
    """Worked by hand: one job of somebody else, in another project and of another size, ran for a
    minute. Only the widest key knows it, and leaves half to the walltime."""
    sample = Work("root", "practice", "spirals", 1, walltime_s=600)
    found = history(ran(sample, 60)).predict(replace(TRAIN, walltime_s=28_800))
    assert found.expected_s == pytest.approx((60 + 28_800) / 2)
    assert (found.low_s, found.high_s, found.from_n) == (60, 28_800, 1)


def test_a_job_that_outlives_its_prediction_is_expected_to_run_on() -> None:
    known = history(ran(TRAIN, *[600.0, 700.0, 650.0, 7_200.0] * 5)).predict(TRAIN)
    assert known.expected_s < 4_000
    assert known.longer_than(1_000).expected_s == pytest.approx(7_200)
    assert known.longer_than(10_000).expected_s == pytest.approx(20_000)
    assert known.longer_than(10_000).low_s > 10_000
    assert known.longer_than(80_000).expected_s == pytest.approx(86_400)  # its walltime
    assert known.longer_than(90_000).expected_s == pytest.approx(86_400)


def test_four_of_five_jobs_end_between_low_and_high() -> None:
    dice = random.Random(7)
    known, hits, asked = History(), 0, 1500
    for i in range(asked):
        run_s = dice.lognormvariate(7, 1)
        found = known.predict(TRAIN)
        hits += found.low_s <= min(run_s, 86_400) <= found.high_s
        known.observe(TRAIN, run_s, NOW + timedelta(minutes=i))
    assert 0.70 <= hits / asked <= 0.90


@given(st.floats(0, 1e6), st.floats(0, 1e7), st.floats(0, 1e6), st.floats(0, 1))
def test_nobody_starves_behind_shorter_jobs_that_came_later(
    typical_s: float, waited_s: float, other_s: float, share: float
) -> None:
    bound = (waited_s + 60) * (60 / (typical_s + 60)) ** 0.5 - 60
    later = response_ratio(share * max(0.0, bound), other_s)
    if bound >= 0:
        assert later <= response_ratio(waited_s, typical_s) * (1 + 1e-9)
    assert response_ratio(waited_s, typical_s) <= response_ratio(waited_s, typical_s / 2)
