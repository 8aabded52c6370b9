"""With limits on GPU-hours the simulator decides as `plan` does, which is told each time what was
used in the period, summed up anew from all that ran."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler.limits import Key, Limits, Quota, Scope
from jobs.scheduler.periods import CalendarMonth, Period, Rolling
from jobs.scheduler.policy import Order, Policy
from jobs.scheduler.simulate.job import Run
from jobs.scheduler.simulate.lengths import Lengths, Requested
from jobs.scheduler.simulate.run import Simulation, Unit
from jobs.scheduler.simulate.workload import Trial, Workload
from jobs.scheduler.snapshot import Snapshot
from tests.jobs.scheduler.simulate.test_same_plan import LABS, Compared, _at, policies, trials
from tests.jobs.scheduler.simulate.workloads import nodes, workload

DAY = 86_400
SCALE = 1000
"""Seconds of the generated jobs are so long here: the longest run for more than a day."""
BEGINS = 30 * DAY
"""After the first of January, so that the month ends a day later."""


class Summed(Compared):
    """Knows what everybody has used, and when."""

    def __init__(self, work: Workload, policy: Policy, lengths: Lengths) -> None:
        super().__init__(work, policy, lengths)
        self.over: list[tuple[Run, float, float]] = []

    def snapshot(self, unit: Unit, now: float) -> Snapshot:
        made = super().snapshot(unit, now)
        periods = {quota.period for quota in self.workload.quotas}
        used = {period: self.used(period, now) for period in periods}
        assert made.quota_usage is not None
        return replace(made, quota_usage=replace(made.quota_usage, used=used))

    def used(self, period: Period, now: float) -> dict[Key, float]:
        begin, found = period.begin(_at(now)).timestamp(), dict[Key, float]()
        runs = (self.runs[one] for jobs in self._running.values() for one in jobs)
        for run, start, end in (*self.over, *((run, run.start_s, now) for run in runs)):
            key = run.pending.project_id, run.pending.user_id, run.pending.band
            seconds = max(0.0, end - max(begin, start))
            found[key] = found.get(key, 0.0) + run.gpus * seconds
        return found

    def _leave(self, run: Run, now: float) -> None:
        self.over.append((run, run.start_s, now))
        super()._leave(run, now)


def _long(job: Trial) -> Trial:
    """Within its walltime: who goes on beyond it uses what a start is not charged with."""
    run_s, request_s = SCALE * job.run_s, SCALE * max(job.run_s, job.request_s or 0)
    return replace(job, submit_s=BEGINS + SCALE * job.submit_s, run_s=run_s, request_s=request_s)


quotas = st.lists(
    st.builds(
        Quota,
        st.sampled_from([lab.id for lab in LABS]),
        st.builds(Limits, gpu_hours=st.sampled_from([100, 500, 667, 900])),
        st.sampled_from(Scope),
        st.sampled_from([None, Band.BATCH]),
        st.sampled_from([CalendarMonth(), CalendarMonth("Asia/Tokyo"), Rolling(1), Rolling(2)]),
    ),
    min_size=1,
    max_size=4,
)


def _may_start(job: Trial, limits: list[Quota]) -> bool:
    asked = 8 * -(-job.gpus // 8) * (job.request_s or 0) / 3600
    return all(asked <= one.limits.gpu_hours for one in limits)


@given(
    trials(partition=st.sampled_from(["p", "p", "q"])),
    policies(order=st.sampled_from([Order.SUBMISSION, Order.SHORTEST, Order.PRIORITY])),
    quotas,
)
def test_it_decides_as_a_plan_does_that_is_told_what_was_used(
    jobs: tuple[Trial, ...], policy: Policy, limits: list[Quota]
) -> None:
    fit = tuple(job for job in map(_long, jobs) if _may_start(job, limits))
    cluster = (*nodes(2), *nodes(2, "q", 3))
    work = workload(fit, cluster, projects=LABS, quotas=tuple(limits))
    simulation: Simulation = Summed(work, policy, Requested())
    assert len(simulation.play()) == len(fit)
