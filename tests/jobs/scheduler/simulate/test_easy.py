"""EASY backfill as somebody else would write it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.easy import SIZE, Easy, Job, even, whole
from jobs.scheduler.simulate.lengths import Requested, TrueLengths
from jobs.scheduler.simulate.policies import NAMED
from tests.jobs.scheduler.simulate.workloads import played, starts, trial, workload

NODES = 3
seconds = st.integers(1, 60)
jobs = st.lists(
    st.builds(Job, st.integers(0, 90), seconds, st.integers(1, NODES * SIZE), seconds),
    min_size=1,
    max_size=25,
).map(lambda found: sorted(found, key=lambda job: job.submit_s))


def _by_carrel(found: list[Job], lengths: TrueLengths) -> list[float]:
    trials = [
        trial(number, job.submit_s, job.run_s, job.procs, request_s=job.told_s)
        for number, job in enumerate(found)
    ]
    at = starts(played(workload(trials, NODES), NAMED["easy"].policy, lengths))
    return [at[number] for number in range(len(found))]


@given(jobs)
def test_by_what_users_ask_for_it_starts_everybody_when_another_one_does(found: list[Job]) -> None:
    assert Easy(found, NODES, even, None).play() == _by_carrel(found, Requested())


@given(jobs)
def test_so_it_does_by_true_run_times(found: list[Job]) -> None:
    told = [Job(job.submit_s, job.run_s, job.procs, job.run_s) for job in found]
    assert Easy(told, NODES, even, None).play() == _by_carrel(told, TrueLengths())


def test_only_the_first_of_those_who_wait_may_pass() -> None:
    # The first job keeps half of the node until 100; the second wants all of it. The third does
    # not fit beside the first. The fourth does, and would be gone by then.
    queue = [Job(0, 100, 4, 100), Job(1, 10, 8, 10), Job(2, 50, 5, 50), Job(3, 50, 4, 50)]
    assert Easy(queue, 1, whole, 2).play() == [0, 100, 110, 3]
    assert Easy(queue, 1, whole, 1).play() == [0, 100, 110, 160]


def test_a_gang_fills_nodes_and_puts_the_rest_on_the_emptiest() -> None:
    # Of 12 processors 8 are on one node and 4 on another, where the last job fits beside them. Or
    # 6 are on each, one of which is that of the first job; the last waits for the third one.
    queue = [Job(0, 100, 1, 100), Job(1, 100, 12, 100), Job(2, 10, 7, 10), Job(3, 10, 4, 10)]
    assert Easy(queue, 3, whole, None).play() == [0, 1, 2, 3]
    assert Easy(queue, 3, even, None).play() == [0, 1, 2, 12]
