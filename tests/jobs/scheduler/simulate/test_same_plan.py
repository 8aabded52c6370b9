"""The simulator plays the real scheduler: at every event it decides as `plan` does.

The pools that it carries from pass to pass equal pools made anew, the jobs that it does not look at
would not have started, and of each job the scheduler is told what the portal's snapshot tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from jobs.bands import Band
from jobs.scheduler import preempt, rank
from jobs.scheduler.decide import Decided
from jobs.scheduler.fairshare import Project
from jobs.scheduler.limits import Demand, Holding, Limits, Quota, Usage
from jobs.scheduler.plan import plan
from jobs.scheduler.policy import Backfill, Order, Placing, Policy
from jobs.scheduler.predict import History
from jobs.scheduler.room import Room
from jobs.scheduler.simulate.job import Run, pending
from jobs.scheduler.simulate.lengths import (
    Kin,
    Lengths,
    Predicted,
    Requested,
    TrueLengths,
)
from jobs.scheduler.simulate.run import Simulation, Unit
from jobs.scheduler.simulate.workload import Trial, Workload
from jobs.scheduler.snapshot import LATE_S, DependencyState, Node, Pending, Running, Snapshot
from jobs.scheduler.work import Work
from jobs.spec import JobSpec
from portal.queries.pass_rows import Row
from portal.queries.snapshot import Known, waits
from tests.jobs.scheduler.simulate.workloads import nodes, workload


class Compared(Simulation):
    """Makes a snapshot before each decision, and a plan for it afterwards."""

    seen: Decided

    def __init__(self, work: Workload, policy: Policy, lengths: Lengths) -> None:
        super().__init__(work, policy, lengths)
        self.history = History()
        self.ages: dict[int, tuple[float | None, float]] = {}
        """Since when each job grows older, and what it waited before, as the portal's columns."""
        self.in_a_row: Counter[int] = Counter()

    def decide(self, unit: Unit, now: float) -> bool:
        for name in unit:
            self.queues[name].learn()
        snapshot = self.snapshot(unit, now)
        self.seen = Decided()
        again = super().decide(unit, now)
        decided = plan(snapshot, _at(now), explained=False)
        assert decided.starts == tuple(self.seen.starts)
        assert decided.preempted == tuple(self.seen.preempted)
        return again

    def _start(self, decided: Decided, now: float) -> None:
        self.seen = decided
        for start in decided.starts:
            since, waited_s = self.ages[start.job_id]
            assert since is not None
            self.ages[start.job_id] = None, waited_s + now - since
        super()._start(decided, now)

    def _arrive(self, trial: Trial) -> str:
        self.ages[trial.id] = trial.submit_s, 0.0
        return super()._arrive(trial)

    def _preempt(self, run: Run, now: float) -> None:
        self.ages[run.trial.id] = now, self.ages[run.trial.id][1]
        long = now - run.start_s >= preempt.LONG_RUN_S
        self.in_a_row[run.trial.id] = 1 if long else self.in_a_row[run.trial.id] + 1
        super()._preempt(run, now)

    def _happen(self, now: float) -> set[str]:
        over = {job_id for job_id, run in self.runs.items() if run.end_s >= 0}
        touched = super()._happen(now)
        for job_id, run in self.runs.items():
            if run.end_s >= 0 and job_id not in over:
                self.history.observe(_work(run.trial), max(1.0, run.trial.run_s), _at(run.end_s))
        return touched

    def waiting(self, job: Pending, now: float) -> Pending:
        """As the portal tells it, from its row and from what history foretells."""
        trial, done_s = self.runs[job.id].trial, self.runs[job.id].done_s
        found = self.history.predict(_work(trial))
        if done_s:
            whole = self.history.predict(replace(_work(trial), walltime_s=None))
            found = whole.remaining(done_s, trial.request_s)
        learns = isinstance(self.lengths, Predicted)
        walltime_s = found.expected_s if learns else self.lengths.limit(trial, done_s)
        since, waited_s = self.ages[job.id]
        row = Row(
            pk=job.id, owner_id=trial.user_id, owner__username="", project_id=trial.project_id,
            project__name="", name="train", partition__name=trial.partition,
            submitted_at=_at(trial.submit_s), started_at=None,
            walltime_s=max(1, round(walltime_s)), held=False, held_by_admin=False,
            reason="", array_id=None, array_index=None, band=trial.band, nice=trial.nice,
            node_count=job.resources.nodes,
            gpus_per_node=job.resources.gpus_per_node, claimed_at=job.claimed_at,
            eligible_at=None if since is None else _at(since), waited_before_s=waited_s,
            preemptions=0, spec_text="",
        )  # fmt: skip
        spec = JobSpec("train", "#!/bin/sh\ntrue\n", job.resources)
        foretold = {job.id: found} if learns and found.from_n else {}
        return waits(
            row, DependencyState.NONE, (), (), Known({job.id: spec}, {}, foretold, {}, _at(now))
        )

    def snapshot(self, unit: Unit, now: float) -> Snapshot:
        """These partitions, with the usage of all."""
        rooms = [room for name in unit for room in self.pools[name].rooms]
        held = [job for name in unit for job in self._running[name].items()]
        everywhere = [self.runs[job_id] for jobs in self._running.values() for job_id in jobs]
        return Snapshot(
            nodes=tuple(_node(room) for room in rooms),
            pending=tuple(
                self.waiting(job, now) for name in unit for job in self.queues[name].jobs()
            ),
            running=tuple(self.holding(self.runs[job_id], on, now) for job_id, on in held),
            projects=self.workload.projects,
            members=self._facts.members,
            usage=self.shares.usage(now),
            quotas=self.workload.quotas,
            lends=self.workload.lends,
            quota_usage=Usage(_at(now), tuple(map(_holding, everywhere))),
            policy=self.policy,
        )

    def holding(self, run: Run, rooms: list[Room], now: float) -> Running:
        """With checkpoints it has just saved."""
        job = run.pending
        long = now - run.start_s >= preempt.LONG_RUN_S
        return Running(
            id=job.id,
            ends_by=_at(_not_stuck(rooms[0].holds[job.id].end, now)),
            node_ids=tuple(room.node.id for room in rooms),
            cpus_per_node=job.resources.cpus,
            resources=job.resources,
            project_id=job.project_id,
            user_id=job.user_id,
            band=job.band,
            gpus=run.gpus,
            started_at=_at(run.start_s),
            saved_at=_at(now) if self.workload.checkpoints else None,
            preemptions=0 if long else self.in_a_row[job.id],
            submitted_at=job.submitted_at,
            waited_s=self.ages[job.id][1],
        )


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _not_stuck(end: float, now: float) -> float:
    """In a simulation no node fails: who is past their end may be gone at any moment."""
    late_s = now - end
    return end if late_s <= 0 else now - LATE_S * late_s / (late_s + LATE_S)


def _node(room: Room) -> Node:
    holders = {
        position: job_id
        for job_id, held in room.holds.items()
        for position in range(len(room.gpus))
        if held.part.gpus >> position & 1
    }
    gpus = tuple(replace(gpu, job_id=holders.get(at)) for at, gpu in enumerate(room.gpus))
    cpus = room.node.cpus - sum(held.part.cpus for held in room.holds.values())
    return replace(room.node, gpus=gpus, cpus_free=cpus, jobs=tuple(room.holds))


def _work(trial: Trial) -> Work:
    user, project = str(trial.user_id or ""), str(trial.project_id or "")
    return Work(user, project, trial.name, round(trial.gpus), walltime_s=trial.request_s)


def _holding(run: Run) -> Holding:
    job = run.pending
    demand = Demand(
        job.id, job.project_id, job.user_id, job.band, run.gpus, job.walltime_s, job.partition
    )
    return Holding(demand, _at(run.start_s))


@st.composite
def trials(draw: st.DrawFn, **more: st.SearchStrategy[Any]) -> tuple[Trial, ...]:
    """Few lengths and sizes, so that much happens at once; and more than fits."""
    one = st.builds(
        Trial,
        id=st.just(0),
        submit_s=st.integers(0, 8).map(lambda at: at * 5),
        run_s=st.sampled_from([0, 10, 30, 35, 60, 120]),
        gpus=st.sampled_from([1, 2, 4, 6, 7, 8, 9, 16]),
        request_s=st.sampled_from([5, 20, 40, 150]),
        user_id=st.integers(0, 3),
        project_id=st.integers(1, 3),
        name=st.sampled_from(["", "train"]),
        **({"partition": st.just("p")} | more),
    )
    found = draw(st.lists(one, min_size=10, max_size=22))
    return tuple(replace(job, id=number) for number, job in enumerate(found, 1))


def policies(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Policy]:
    values: dict[str, st.SearchStrategy[Any]] = {
        "order": st.sampled_from(Order),
        "backfill": st.sampled_from(Backfill),
        "placing": st.sampled_from(Placing),
        "reservations": st.integers(1, 4),
        "min_run_s": st.sampled_from([0.0, 10.0]),
        "max_preemptions": st.integers(0, 3),
    }
    return st.builds(Policy, **(values | more))


class Learning(Predicted):
    """At once, from whoever ends."""

    def kin(self, trial: Trial) -> Kin | None:
        return "all"

    def alike(self, trial: Trial) -> Hashable:
        return _work(trial)


lengths = st.sampled_from([TrueLengths, Requested, Learning]).map(lambda kind: kind())
LABS = tuple(Project(number, f"lab {number}", None) for number in (1, 2, 3))


def _ended(simulation: Simulation) -> Iterator[bool]:
    for run in simulation.runs.values():
        yield run.end_s >= run.trial.submit_s + max(1, run.trial.run_s)


@given(
    trials(partition=st.sampled_from(["p", "p", "p", "q"])), policies(), lengths,
    st.sampled_from([20.0, 60.0, rank.LONG_WAIT_S]),
)  # fmt: skip
def test_it_decides_as_a_plan_does_behind_hard_walls(
    jobs: tuple[Trial, ...], policy: Policy, known: Lengths, long_s: float
) -> None:
    cluster = (*nodes(2), *nodes(2, "q", 3))
    simulation = Compared(workload(jobs, cluster, projects=LABS), policy, known)
    with patch.object(rank, "LONG_WAIT_S", long_s):
        simulation.play()
    assert len(simulation.runs) == len(jobs) and all(_ended(simulation))


@given(
    trials(partition=st.sampled_from(["p", "p", "q"])), policies(), lengths,
    st.tuples(*[st.sampled_from([8, 12, 16])] * 3), st.booleans(),
)  # fmt: skip
def test_it_decides_as_a_plan_does_where_a_quota_spans_partitions(
    jobs: tuple[Trial, ...], policy: Policy, known: Lengths, limits: tuple[int, ...], lends: bool
) -> None:
    quotas = tuple(Quota(lab.id, Limits(gpus=n)) for lab, n in zip(LABS, limits, strict=True))
    fit = tuple(job for job in jobs if job.gpus <= (16 if lends else limits[job.project_id - 1]))
    cluster = (*nodes(2), *nodes(2, "q", 3))
    lent = frozenset({None}) if lends else frozenset()
    work = workload(fit, cluster, projects=LABS, quotas=quotas, lends=lent)
    simulation = Compared(work, policy, known)
    simulation.play()
    assert len(simulation.runs) == len(fit) and all(_ended(simulation))


@given(trials(), policies(), lengths, st.tuples(*[st.sampled_from([0, 8, 12, 16])] * 3))
def test_it_decides_as_a_plan_does_where_projects_lend(
    jobs: tuple[Trial, ...], policy: Policy, known: Lengths, guarantees: tuple[int, ...]
) -> None:
    quotas = tuple(Quota(lab.id, Limits(gpus=n)) for lab, n in zip(LABS, guarantees, strict=True))
    lent = workload(jobs, 3, projects=LABS, quotas=quotas, lends=frozenset({None}))
    total = sum(guarantees)
    fit = tuple(job for job in jobs if job.gpus <= min(total, 24))
    simulation = Compared(replace(lent, jobs=fit), policy, known)
    simulation.play()
    assert len(simulation.runs) == len(fit) and all(_ended(simulation))


@given(
    trials(band=st.sampled_from([Band.PRODUCTION, *[Band.BEST_EFFORT] * 2])), policies(), lengths
)
def test_it_decides_as_a_plan_does_where_bands_preempt(
    jobs: tuple[Trial, ...], policy: Policy, known: Lengths
) -> None:
    simulation = Compared(workload(jobs, 2, projects=LABS), policy, known)
    simulation.play()
    assert len(simulation.runs) == len(jobs) and all(_ended(simulation))


@given(trials(), policies(order=st.sampled_from(Order)), lengths)
def test_nothing_is_given_twice_and_gangs_are_whole(
    jobs: tuple[Trial, ...], policy: Policy, known: Lengths
) -> None:
    work: Workload = workload(jobs, 2, projects=LABS)
    simulation = Simulation(work, policy, known)
    simulation.play()
    for room in simulation.pools["p"].rooms:
        assert room.free == 255 and not room.holds and room.cpus == 8
    moments = {run.first_start_s for run in simulation.runs.values()}
    for moment in moments:
        busy = sum(
            pending(run.trial, TrueLengths()).resources.gpus
            for run in simulation.runs.values()
            if run.first_start_s <= moment < run.end_s
        )
        assert busy <= 16
