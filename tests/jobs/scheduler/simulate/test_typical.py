"""Orders that go by what is expected take what is typical, in simulations as in the portal."""

from __future__ import annotations

from dataclasses import replace

from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.simulate.workload import Trial
from tests.jobs.scheduler.simulate.test_same_plan import Compared, Learning, _work
from tests.jobs.scheduler.simulate.workloads import workload


def test_the_order_goes_by_what_is_typical_not_by_the_mean() -> None:
    # The runs of user 1 are short, but for a long one; those of user 2 are all of the same length.
    lengths_s = {1: (10, 10, 2000, 10), 2: (120, 120, 120, 120)}
    before = [
        Trial(0, 0, run_s, 8, "p", user_id=user, name="train")
        for user, runs in lengths_s.items()
        for run_s in runs
    ]
    asked = [Trial(0, 4000, 10, 8, "p", name="blocks")]
    asked += [Trial(0, 4001, 10, 8, "p", user_id=user, name="train") for user in (2, 1)]
    jobs = tuple(replace(job, id=number) for number, job in enumerate([*before, *asked], 1))
    simulation = Compared(workload(jobs, 1), Policy(order=Order.SHORTEST), Learning())
    simulation.play()
    second, first = jobs[-2:]
    means = [simulation.history.predict(_work(job)).expected_s for job in (first, second)]
    assert means[0] > means[1]
    assert simulation.runs[first.id].start_s < simulation.runs[second.id].start_s
