"""Who comes after others, and tasks of arrays with a limit."""

from __future__ import annotations

import pickle

from jobs.scheduler.simulate.gates import Gates
from jobs.scheduler.simulate.measure import figures
from jobs.scheduler.simulate.policies import NAMED
from tests.jobs.scheduler.simulate.workloads import ends, played, starts, trial, workload

FIFO, SKIP = NAMED["fifo"].policy, NAMED["skip"].policy


def test_who_comes_after_others_starts_when_all_of_them_have_ended() -> None:
    work = workload(
        (trial(1, 0, 100, 2), trial(2, 0, 50, 2), trial(3, 10, 5, 1, after=(1, 2)),
         trial(4, 20, 5, 1, after=(3,))),
        1,
    )  # fmt: skip
    simulation = played(work, FIFO)
    assert starts(simulation) == {1: 0, 2: 0, 3: 100, 4: 105}
    # None of them ever waited for room.
    assert [run.wait_s for run in simulation.runs.values()] == [0, 0, 0, 0]
    assert figures(simulation).mean_wait_s == 0


def test_who_comes_after_an_array_starts_when_its_last_task_has_ended() -> None:
    tasks = [trial(n, 0, 10 * n, 1, array_id=1) for n in (1, 2, 3)]
    both = trial(6, 0, 5, 1, after=(4,), after_arrays=(1, 9))
    work = workload((*tasks, trial(4, 0, 50, 1), trial(5, 0, 5, 1, after_arrays=(1,)), both), 1)
    assert starts(played(work, FIFO)) == {1: 0, 2: 0, 3: 0, 4: 0, 5: 30, 6: 50}


def test_an_array_after_an_array_takes_no_more_room_than_both() -> None:
    """And not as much as one times the other."""
    first = [trial(n, 0, 1, 1, array_id=1) for n in range(1, 301)]
    second = [trial(n, 0, 1, 1, array_id=301, after_arrays=(1,)) for n in range(301, 601)]
    gates = Gates((*first, *second))
    assert not [one for each in second for one in gates.arrive(each, 0)]
    assert len(pickle.dumps(gates)) < 200 * (len(first) + len(second))
    assert [one for each in first for one in gates.end(each, 1)] == second


def test_who_was_left_out_of_the_workload_has_ended_long_ago() -> None:
    assert starts(played(workload((trial(3, 10, 5, 1, after=(1, 3)),), 1), FIFO)) == {3: 10}


def test_no_more_tasks_of_an_array_run_than_its_limit_and_the_rest_wait_for_their_turn() -> None:
    tasks = [trial(n, 0, 10 * n, 1, array_id=1, array_limit=2) for n in (1, 2, 3, 4)]
    simulation = played(workload((*tasks, trial(9, 0, 5, 8)), 1), SKIP)
    assert starts(simulation) == {1: 0, 2: 0, 3: 10, 4: 20, 9: 60}
    assert ends(simulation)[4] == 60
    assert {n: run.wait_s for n, run in sorted(simulation.runs.items())}[4] == 20


def test_a_task_that_comes_after_others_waits_for_its_array_from_then_on() -> None:
    tasks = [trial(n, 0, 10, 1, array_id=2, array_limit=1, after=(1,)) for n in (2, 3)]
    simulation = played(workload((trial(1, 0, 100, 1), *tasks), 1), FIFO)
    assert starts(simulation) == {1: 0, 2: 100, 3: 110}
    assert [simulation.runs[n].wait_s for n in (1, 2, 3)] == [0, 0, 10]


def test_gates_let_everybody_through_once() -> None:
    trials = [trial(n, 0, 1, 1, after=(n - 1,), array_id=1, array_limit=3) for n in range(1, 20)]
    gates, seen = Gates(trials), []
    found = [one for each in trials for one in gates.arrive(each, 0)]
    while found:
        seen += found
        found = [one for each in found for one in gates.end(each, 1)]
    assert [one.id for one in seen] == list(range(1, 20))
