"""The clock of a simulation: from event to event, and a pass of the real scheduler at each."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from jobs.scheduler.decide import Decided, Pass
from jobs.scheduler.policy import Policy
from jobs.scheduler.pool import Pool
from jobs.scheduler.preempt import Preemption, Victim
from jobs.scheduler.rank import in_order
from jobs.scheduler.room import Hold, Room
from jobs.scheduler.simulate.lengths import Lengths
from jobs.scheduler.simulate.workload import Trial, Workload
from jobs.scheduler.snapshot import Node, Pending
from jobs.spec import Resources

_ENDS, _OUTLIVES = 0, 1
"""What happens to a running job: it ends, or runs longer than it was taken to."""
SURPRISE_S = 60.0
"""Who outlives what was expected is taken to need as long again, and no less than this."""


@dataclass(slots=True)
class Run:
    """What becomes of one job."""

    trial: Trial
    pending: Pending
    left_s: float
    """Work still to be done, restarts included."""
    first_start_s: float = -1.0
    start_s: float = -1.0
    """Of the present run."""
    end_s: float = -1.0
    served_s: float = 0.0
    """In all its runs."""
    preemptions: int = 0
    tries: int = 0
    """Counts its starts, so that events of runs that were cut short are known."""

    @property
    def wait_s(self) -> float:
        """All the time it was not running."""
        return self.end_s - self.trial.submit_s - self.served_s


class Simulation:
    """One workload under one policy."""

    def __init__(self, workload: Workload, policy: Policy, lengths: Lengths) -> None:
        self.workload = workload
        self.policy = policy
        self.lengths = lengths
        nodes: dict[str, list[Node]] = defaultdict(list)
        for node in workload.nodes:
            nodes[node.partition].append(node)
        self.pools: dict[str, Pool] = {name: Pool.of(found) for name, found in nodes.items()}
        self.runs: dict[int, Run] = {}
        self.tally = workload.tally()
        self._rooms = {r.node.id: r for pool in self.pools.values() for r in pool.rooms}
        self._waiting: dict[str, dict[int, Pending]] = {name: {} for name in nodes}
        self._running: dict[str, dict[int, list[Room]]] = {name: {} for name in nodes}
        self._events: list[tuple[float, int, int, int]] = []
        """When, what, which job, in which try."""

    def play(self) -> dict[int, Run]:
        """Until every job has ended; by the jobs' ids."""
        arrivals = sorted(self.workload.jobs, key=lambda trial: (trial.submit_s, trial.id))
        coming = 0
        while coming < len(arrivals) or self._events:
            now = self._events[0][0] if self._events else math.inf
            if coming < len(arrivals):
                now = min(now, arrivals[coming].submit_s)
            touched = self._happen(now)
            while coming < len(arrivals) and arrivals[coming].submit_s <= now:
                touched.add(self._arrive(arrivals[coming], now))
                coming += 1
            while touched:
                touched = {name for name in sorted(touched) if self._pass(name, now)}
        return self.runs

    def _happen(self, now: float) -> set[str]:
        """Whoever ends by now leaves; the partitions that have changed."""
        touched = set()
        while self._events and self._events[0][0] <= now:
            _, what, job_id, number = heapq.heappop(self._events)
            run = self.runs[job_id]
            if run.tries != number or run.end_s >= 0:
                continue  # That run was cut short.
            if what == _OUTLIVES:
                self._outlives(run, now)
            else:
                self._leave(run, now)
                run.end_s = now
                self.lengths.ended(run.trial, now)
                touched.add(run.trial.partition)
        return touched

    def _arrive(self, trial: Trial, now: float) -> str:
        job = pending(trial, self.lengths, now)
        self.runs[trial.id] = Run(trial, job, max(1.0, trial.run_s))
        self._waiting[trial.partition][trial.id] = job
        return trial.partition

    def _pass(self, name: str, now: float) -> bool:
        """Decide for one partition; whether to do so again, as somebody has made room."""
        waiting = self._waiting[name]
        if not waiting:
            return False
        pool = self.pools[name]
        pool.begin()
        victims = [self._victim(self.runs[job_id]) for job_id in self._running[name]]
        preemption = Preemption(victims, self.tally, self.policy, now)
        walk = Pass({name: pool}, self.tally, self.policy, now, preemption)
        fresh = self.lengths.refreshed(waiting, now)
        waiting.update(fresh)
        for job in in_order(waiting.values(), self.policy, {}, now):
            walk.consider(job)
        decided = walk.finish()
        self._start(pool, name, decided, now)
        for one in decided.preempted:
            self._preempt(self.runs[one.job_id], now)
            job = waiting[one.for_id]
            waiting[one.for_id] = replace(job, claimed_at=job.submitted_at)
        return bool(decided.preempted)

    def _start(self, pool: Pool, name: str, decided: Decided, now: float) -> None:
        for start in decided.starts:
            run = self.runs[start.job_id]
            run.start_s = now
            run.tries += 1
            if run.first_start_s < 0:
                run.first_start_s = now
            job = run.pending = self._waiting[name].pop(start.job_id)
            self._running[name][job.id] = [self._rooms[p.node_id] for p in start.placements]
            heapq.heappush(self._events, (now + run.left_s, _ENDS, job.id, run.tries))
            if run.left_s > job.walltime_s:
                heapq.heappush(self._events, (now + job.walltime_s, _OUTLIVES, job.id, run.tries))

    def _outlives(self, run: Run, now: float) -> None:
        more = max(SURPRISE_S, now - run.start_s)
        for room in self._running[run.trial.partition][run.trial.id]:
            held = room.holds[run.trial.id]
            room.holds[run.trial.id] = Hold(held.job_id, now + more, held.part)
        if now + more < run.start_s + run.left_s:
            heapq.heappush(self._events, (now + more, _OUTLIVES, run.trial.id, run.tries))

    def _leave(self, run: Run, now: float) -> None:
        job = run.pending
        for room in self._running[run.trial.partition].pop(job.id):
            room.release(job.id)
        group = self.tally.group(job.project_id, job.user_id, job.band)
        self.tally.remove(group, job.gpus, job.gpus * job.walltime_s)
        run.served_s += now - run.start_s

    def _preempt(self, run: Run, now: float) -> None:
        """It goes on later where it was, after a restart."""
        self._leave(run, now)
        run.left_s -= now - run.start_s
        run.left_s += restart_s(run.trial)
        run.preemptions += 1
        run.tries += 1
        self._waiting[run.trial.partition][run.trial.id] = replace(run.pending, claimed_at=None)

    def _victim(self, run: Run) -> Victim:
        job = run.pending
        group = self.tally.group(job.project_id, job.user_id, job.band)
        return Victim(job.id, job.band, group, job.gpus, run.start_s, run.start_s, run.preemptions)


def restart_s(trial: Trial) -> float:
    """What a preemption costs, as in the published runs: 40 s on one node, 60 s on several."""
    return 40.0 if trial.gpus <= GPUS_PER_NODE else 60.0


GPUS_PER_NODE = 8
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def pending(trial: Trial, lengths: Lengths, now: float) -> Pending:
    """The job as the scheduler sees it. More GPUs than a node has go on whole nodes."""
    nodes = max(1, -(-trial.gpus // GPUS_PER_NODE))
    per_node = -(-trial.gpus // nodes)
    return Pending(
        id=trial.id,
        submitted_at=datetime.fromtimestamp(trial.submit_s, UTC),
        resources=Resources(nodes=nodes, gpus_per_node=per_node, cpus_per_task=max(1, per_node)),
        walltime_s=max(1, round(lengths.limit(trial, now))),
        partition=trial.partition,
        project_id=trial.project_id,
        user_id=trial.user_id,
        band=trial.band,
        expected_s=lengths.expected(trial, now),
    )
