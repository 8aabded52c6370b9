"""Workloads of a few jobs, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.bands import Band
from jobs.scheduler.fairshare import Project
from jobs.scheduler.policy import Backfill, Order, Policy
from jobs.scheduler.pool import KEPT
from jobs.scheduler.preempt import LONG_RUN_S
from jobs.scheduler.rank import waited_s
from jobs.scheduler.simulate.job import Run, asked, pending
from jobs.scheduler.simulate.lengths import Predicted, Requested, TrueLengths
from jobs.scheduler.simulate.policies import NAMED
from jobs.scheduler.simulate.run import Simulation, Stuck
from jobs.spec import Resources
from tests.jobs.scheduler.simulate.workloads import (
    PUSHED,
    ends,
    lending,
    nodes,
    played,
    starts,
    trial,
    workload,
)

FIFO, SJF, QSSF, SKIP, EASY = (NAMED[n].policy for n in ("fifo", "sjf", "qssf", "skip", "easy"))

QUEUE = (
    trial(1, 0, 100, 6),
    trial(2, 1, 50, 8),  # has to wait for the whole node: until 100
    trial(3, 2, 90, 2),  # fits beside job 1, and is gone by 92
    trial(4, 3, 200, 2),
    trial(5, 4, 10, 2),
)


def test_first_come_first_served_lets_nobody_pass() -> None:
    found = starts(played(workload(QUEUE, 1), FIFO))
    assert found == {1: 0, 2: 100, 3: 150, 4: 150, 5: 150}


def test_easy_lets_pass_who_does_not_delay_the_first() -> None:
    # 3 is gone by 92. Then 4 would stay until 292, and even 5 until 102, in the place of 2.
    assert starts(played(workload(QUEUE, 1), EASY)) == {1: 0, 2: 100, 3: 2, 4: 150, 5: 150}


def test_skipping_delays_the_first_for_whoever_fits() -> None:
    # 4 takes the place of 3 at 92 and keeps it until 292; 5 that of 1.
    found = starts(played(workload(QUEUE, 1), SKIP))
    assert found == {1: 0, 2: 292, 3: 2, 4: 92, 5: 100}


def test_the_shortest_first_and_the_least_service_first() -> None:
    # When job 1 ends four wait: run times 30, 20, 10, and GPUs x time 30, 160, 60.
    work = workload(
        (trial(1, 0, 100, 8), trial(2, 1, 30, 1), trial(3, 1, 20, 8), trial(4, 1, 10, 6)), 1
    )
    assert starts(played(work, SJF)) == {1: 0, 4: 100, 3: 110, 2: 130}
    assert starts(played(work, QSSF)) == {1: 0, 2: 100, 4: 100, 3: 130}


def test_who_is_submitted_at_the_same_time_is_served_in_the_order_of_the_file() -> None:
    work = workload((trial(7, 0, 10, 8), trial(3, 0, 10, 8), trial(5, 0, 10, 8)), 1)
    assert starts(played(work, FIFO)) == {3: 0, 5: 10, 7: 20}


def test_partitions_do_not_know_each_other() -> None:
    work = workload(
        (trial(1, 0, 10, 8), trial(2, 0, 10, 8), trial(3, 0, 10, 8, partition="q")),
        (*nodes(1), *nodes(1, "q", 2)),
    )
    assert starts(played(work, FIFO)) == {1: 0, 2: 10, 3: 0}


def test_who_ends_makes_room_before_who_comes_at_the_same_moment_is_looked_at() -> None:
    work = workload((trial(1, 0, 10, 8), trial(2, 10, 10, 8)), 1)
    assert starts(played(work, FIFO)) == {1: 0, 2: 10}


def test_more_gpus_than_a_node_has_go_on_whole_nodes_together() -> None:
    assert (asked(8).nodes, asked(8).gpus_per_node) == (1, 8)
    assert (asked(9).nodes, asked(9).gpus_per_node) == (2, 5)
    assert asked(17) == asked(18)
    work = workload((trial(1, 0, 10, 4), trial(2, 0, 20, 16), trial(3, 0, 5, 4)), 2)
    assert starts(played(work, EASY)) == {1: 0, 2: 10, 3: 0}


def test_equal_requests_of_different_sizes_are_one_class() -> None:
    # 17 and 18 GPUs both go on three nodes with six each.
    work = workload((trial(1, 0, 10, 24), trial(2, 0, 10, 17), trial(3, 0, 10, 18)), 3)
    assert starts(played(work, FIFO)) == {1: 0, 2: 10, 3: 20}


def test_a_job_of_no_seconds_takes_one() -> None:
    assert ends(played(workload((trial(1, 0, 0, 8), trial(2, 0, 5, 8)), 1), FIFO)) == {1: 1, 2: 6}


def test_who_never_fits_is_told() -> None:
    with pytest.raises(Stuck, match="job 1 on 16 GPUs never starts in partition p"):
        played(workload((trial(1, 0, 5, 16),), 1), FIFO)


def test_who_borrowed_gives_way_to_whose_it_is_and_goes_on_later_where_it_was() -> None:
    # Each lab has one node. Lab 1 runs on both; at 50 lab 2 wants its own back.
    work = lending(
        (
            trial(1, 0, 100, 8, project_id=1),
            trial(2, 1, 100, 8, project_id=1),
            trial(3, 50, 10, 8, project_id=2),
        ),
        1, 1,
    )  # fmt: skip
    simulation = played(work, PUSHED)
    # Job 2, the younger, has run 49 s. At 60 it is started again: 40 s of restart, 51 s of work.
    assert starts(simulation) == {1: 0, 2: 1, 3: 50}
    assert ends(simulation) == {1: 100, 2: 60 + 40 + 51, 3: 60}
    run = simulation.runs[2]
    assert (run.preemptions, run.lost_gpu_s, run.wait_s) == (1, 8 * 40, 10)


def test_who_stays_within_their_guarantee_is_left_alone() -> None:
    work = lending(
        (trial(1, 0, 100, 8, project_id=1), trial(2, 1, 100, 8, project_id=2),
         trial(3, 2, 10, 8, project_id=2)),
        1, 1,
    )  # fmt: skip
    simulation = played(work, PUSHED)
    assert starts(simulation) == {1: 0, 2: 1, 3: 100}
    assert sum(run.preemptions for run in simulation.runs.values()) == 0


def test_best_effort_work_gives_way_and_a_restart_on_several_nodes_takes_a_minute() -> None:
    work = workload((trial(1, 0, 100, 16, band=Band.BEST_EFFORT), trial(2, 30, 10, 8)), 2)
    simulation = played(work, PUSHED)
    assert starts(simulation) == {1: 0, 2: 30}
    assert ends(simulation) == {1: 40 + 60 + 70, 2: 40}


def test_a_restart_takes_as_long_as_it_has_nodes_not_gpus() -> None:
    two = Resources(nodes=2, gpus_per_node=1)
    first = replace(trial(1, 0, 100, 2, band=Band.BEST_EFFORT), resources=two)
    simulation = played(workload((first, trial(2, 30, 10, 8)), 2), PUSHED)
    assert ends(simulation) == {1: 40 + 60 + 70, 2: 40}


def test_nobody_makes_room_before_the_shortest_run_and_somebody_looks_right_then() -> None:
    work = workload((trial(1, 0, 36_000, 8, band=Band.BEST_EFFORT), trial(2, 60, 10, 8)), 1)
    assert starts(played(work, replace(PUSHED, min_run_s=600))) == {1: 0, 2: 600}


@pytest.mark.parametrize("min_run_s", [600.1, 599.5])
def test_a_shortest_run_of_parts_of_seconds_is_looked_at_once_it_is_over(min_run_s: float) -> None:
    jobs = (trial(1, 424, 36_000, 8, band=Band.BEST_EFFORT), trial(2, 429, 10, 8))
    simulation = played(workload(jobs, 1), replace(PUSHED, min_run_s=min_run_s))
    assert min_run_s <= simulation.runs[2].first_start_s - 424 <= min_run_s + 1


def test_who_made_room_too_often_may_be_asked_again_after_a_day() -> None:
    day = int(LONG_RUN_S)
    jobs = (
        trial(1, 0, 3 * day, 8, band=Band.BEST_EFFORT),
        trial(2, 10, 10, 8), trial(3, 30, 10, 8),
    )  # fmt: skip
    simulation = played(workload(jobs, 1), replace(PUSHED, max_preemptions=1))
    # It goes on at 20.
    assert starts(simulation) == {1: 0, 2: 10, 3: 20 + day}


def test_classes_of_requests_are_forgotten_with_the_last_who_asked() -> None:
    each = (Resources(gpus_per_node=8, memory_mib=at) for at in range(1, 3 * KEPT))
    jobs = tuple(replace(trial(n, n, 10, 8), resources=asked) for n, asked in enumerate(each, 1))
    (node,) = nodes(1)
    roomy = replace(node, memory_mib=4 * KEPT, memory_free_mib=4 * KEPT)
    simulation = played(workload(jobs, (roomy,)), replace(PUSHED, backfill=Backfill.NONE))
    in_a_row = {n: 1 + 10 * (n - 1) for n in range(1, 3 * KEPT)}
    assert starts(simulation) == in_a_row
    assert len(simulation.pools["p"].shapes) <= KEPT + 10


def test_of_who_goes_on_only_the_rest_is_expected() -> None:
    # When job 3 ends, job 4 is expected to run for about 200 s, as job 3 of the same user did, and
    # job 2 for 1,000 s as job 1 did, but 900 of them are done.
    work = workload(
        (
            trial(1, 0, 1000, 8, user_id=1),
            trial(2, 1, 1000, 8, user_id=1, band=Band.BEST_EFFORT),
            trial(4, 1500, 200, 8, user_id=2, band=Band.BEST_EFFORT),
            trial(3, 1900, 200, 8, user_id=2),
        ),
        1,
    )
    simulation = played(work, replace(PUSHED, order=Order.SHORTEST), Predicted())
    assert ends(simulation) == {1: 1000, 3: 2100, 2: 2100 + 100 + 40, 4: 2240 + 200}


def test_without_checkpoints_who_gives_way_begins_anew() -> None:
    jobs = (trial(1, 0, 100, 8, band=Band.BEST_EFFORT), trial(2, 30, 10, 8))
    simulation = played(workload(jobs, 1, checkpoints=False), PUSHED)
    assert ends(simulation) == {1: 40 + 100, 2: 40}
    assert (simulation.runs[1].lost_gpu_s, simulation.runs[1].wait_s) == (8 * 30, 10)


class Foretold(Requested):
    """What was asked for is a guess."""

    def more(self, ran_s: float) -> float:
        return Predicted().more(ran_s)


def test_who_outlives_what_was_foretold_is_taken_to_need_as_long_again() -> None:
    # Job 1 is thought to run 100 s and runs 350: it is expected at 100, then at 200 (as long
    # again), then at 400. So at 150 job 3 seems to be gone in time for job 2, and starts.
    work = workload(
        (
            trial(1, 0, 350, 7, request_s=100),
            trial(2, 110, 10, 8, request_s=10),
            trial(3, 150, 50, 1, request_s=50),
            trial(4, 201, 190, 1, request_s=190),
            trial(5, 201, 210, 1, request_s=210),
        ),
        1,
    )
    found = starts(played(work, EASY, Foretold()))
    assert found == {1: 0, 2: 391, 3: 150, 4: 201, 5: 401}
    # Nobody is allowed to run for longer than they asked: it may be gone at any moment, and job 2
    # is promised the next one.
    found = starts(played(work, EASY, Requested()))
    assert found == {1: 0, 2: 350, 3: 360, 4: 360, 5: 360}
    assert (Predicted().more(5), Predicted().more(70)) == (60, 70)


def test_what_has_ended_foretells_what_waits() -> None:
    # The same user's job ran 10 s, another's 1,000 s: when the node is free at 1,010 the former's
    # next is expected to be shorter, and goes first though it came later.
    work = workload(
        (
            trial(1, 0, 10, 8, user_id=1, name="short"),
            trial(2, 0, 1000, 8, user_id=2, name="long"),
            trial(3, 20, 1000, 8, user_id=2, name="long"),
            trial(4, 21, 10, 8, user_id=1, name="short"),
        ),
        1,
    )
    order = Policy(Order.SHORTEST, Backfill.NONE, reservations=1)
    assert starts(played(work, order, Predicted())) == {1: 0, 2: 10, 4: 1010, 3: 1020}


def test_by_priority_who_used_less_goes_first() -> None:
    # User 1 has held the node for 1,000 s when it is free; user 2 has had nothing.
    work = workload(
        (
            trial(1, 0, 1000, 8, user_id=1, project_id=1),
            trial(2, 1, 10, 8, user_id=1, project_id=1),
            trial(3, 2, 10, 8, user_id=2, project_id=2),
        ),
        lending((), 1, 1).nodes[:1],
        projects=lending((), 1, 1).projects,
    )
    assert starts(played(work, Policy(Order.PRIORITY))) == {1: 0, 3: 1000, 2: 1010}


def test_played_twice_it_is_the_same() -> None:
    work = workload([trial(n, n * 7 % 50, n * 13 % 40, n % 12 + 1) for n in range(1, 60)], 2)
    again = replace(work, jobs=tuple(reversed(work.jobs)))
    policy = NAMED["carrel"].policy
    assert ends(played(work, policy, Predicted())) == ends(played(again, policy, Predicted()))


def test_passes_are_measured_with_the_clock_that_is_given() -> None:
    ticks = iter(range(1000))
    simulation = Simulation(
        workload((trial(1, 0, 10, 8),), 1), FIFO, Requested(), lambda: float(next(ticks))
    )
    simulation.play()
    assert simulation.pass_s == [1.0]


def test_who_makes_room_grew_no_older_while_it_ran_and_a_long_run_ends_the_row() -> None:
    one = trial(1, 100, 10**6, 8)
    run = Run(one, pending(one, TrueLengths()), 10**6, 100)
    run.start_s, run.gpus = 160.0, 8.0
    run.pending = run.make_room(200, checkpoints=True)
    assert (run.in_a_row, waited_s(run.pending, 200), waited_s(run.pending, 230)) == (1, 60, 90)
    run.start_s = 230.0
    run.pending = run.make_room(300, checkpoints=True)
    assert (run.in_a_row, waited_s(run.pending, 300)) == (2, 90)
    run.start_s = 300.0
    assert run.victim(0, 300 + LONG_RUN_S - 1, checkpoints=True).preempted == 2
    victim = run.victim(0, 300 + LONG_RUN_S, checkpoints=True)
    assert (victim.preempted, victim.lost(300 + LONG_RUN_S)) == (0, 0)
    assert run.victim(0, 310, checkpoints=False).lost(310) == 8 * 10
    run.make_room(300 + LONG_RUN_S, checkpoints=True)
    assert (run.in_a_row, run.preemptions) == (1, 3)


@pytest.mark.parametrize("order", [Order.SHORTEST, Order.LEAST_SERVICE, Order.PRIORITY])
def test_who_waited_too_long_has_its_turn(order: Order) -> None:
    """Behind an endless queue of those who go before it: two are always there."""
    hour, days = 3600, 14
    small = [
        trial(2 + n, max(0, n - 1) * hour, hour, 8, nice=-1000, user_id=2, project_id=1)
        for n in range(24 * (days + 2))
    ]
    large = trial(1, 0, 9 * hour, 8, user_id=1, project_id=1)
    work = workload([large, *small], 1, projects=(Project(1, "lab", None),))
    begun = starts(played(work, Policy(order)))[1]
    assert days * 24 * hour < begun <= (days * 24 + 1) * hour
    assert starts(played(work, replace(Policy(order), bounded=False)))[1] > begun
