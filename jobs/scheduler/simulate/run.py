"""The clock of a simulation: from event to event, and a pass of the real scheduler at each."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from jobs.scheduler.decide import Decided, Pass
from jobs.scheduler.policy import Order, Placing, Policy
from jobs.scheduler.pool import Pool
from jobs.scheduler.preempt import Preemption, asked_after
from jobs.scheduler.rank import is_long, place, waited_s
from jobs.scheduler.room import Room
from jobs.scheduler.simulate.gates import Gates
from jobs.scheduler.simulate.job import Run, pending
from jobs.scheduler.simulate.lengths import Lengths
from jobs.scheduler.simulate.queue import Kind, Queue, Sorting
from jobs.scheduler.simulate.shares import Shares
from jobs.scheduler.simulate.spent import Spent
from jobs.scheduler.simulate.workload import Trial, Workload
from jobs.scheduler.snapshot import Node, Pending, Running, Snapshot
from jobs.scheduler.words import amount
from jobs.spec import Resources

_ENDS, _OUTLIVES, _MAY_BE_ASKED, _LETS_GO = 0, 1, 2, 3
"""What happens to a running job, and at last to a limit on GPU-hours, which may have room then."""

Unit = tuple[str, ...]
"""The partitions that one pass decides about, as they depend on each other."""


class Stuck(ValueError):
    """A job that this policy never starts on this cluster."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(
            f"job {trial.id} on {amount(trial.gpus)} GPUs never starts "
            f"in partition {trial.partition}"
        )


class Simulation:
    """One workload under one policy. `clock` measures the passes, and decides nothing."""

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        lengths: Lengths,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.workload = workload
        # Who makes room is gone at once.
        self.policy = policy = replace(policy, grace_s=0.0)
        self.lengths = lengths
        nodes: dict[str, list[Node]] = defaultdict(list)
        for node in workload.nodes:
            nodes[node.partition].append(node)
        self.pools: dict[str, Pool] = {name: Pool.of(found) for name, found in nodes.items()}
        self.runs: dict[int, Run] = {}
        self.tally = workload.tally()
        self._spent = Spent(workload, self.tally)
        for pool in self.pools.values():
            tree = self.tally.tree
            pool.models = tree.gpu_models if tree.limits_models else None
        self.shares = Shares(workload.decay)
        self.ended = 0
        """How many jobs have."""
        self.pass_s: list[float] = []
        """How long each pass took."""
        self._clock = clock
        self._asked: dict[str, Counter[Resources]] = {name: Counter() for name in nodes}
        """What those ask for who wait and run in each partition."""
        if policy.placing is Placing.LEAST_FRAGMENTATION:
            for name, pool in self.pools.items():
                pool.mix = partial(self._asked.__getitem__, name)
        self._rooms = {r.node.id: r for pool in self.pools.values() for r in pool.rooms}
        self._running: dict[str, dict[int, list[Room]]] = {name: {} for name in nodes}
        self._long: dict[str, dict[int, Running]] = {name: {} for name in nodes}
        """Of those that run, who had waited for too long."""
        self._events: list[tuple[float, int, int, int]] = []
        """When, what, which job or limit, in which try."""
        submits = [trial.submit_s for trial in workload.jobs if trial.counts]
        self._first_s, self._last_s = min(submits, default=0), max(submits, default=0)
        self._gates = Gates(workload.jobs)
        bands = {trial.band for trial in workload.jobs}
        self._may_preempt = bool(workload.quotas) or len(bands) > 1
        # A quota counts what runs in all of them.
        every = tuple(sorted(nodes))
        self._units: dict[str, Unit] = {n: every if workload.quotas else (n,) for n in every}
        self._facts = _facts(workload, policy)
        self.queues: dict[str, Queue] = {
            name: Queue(policy, pool, lengths, place(self._facts, _at(0.0)))
            for name, pool in self.pools.items()
        }

    def play(self) -> dict[int, Run]:
        """Until every job has ended; by the jobs' ids.

        Raises `Stuck` if in the end one of them could not start on a whole empty cluster.
        """
        for _ in self.steps():
            pass
        for trial in self.stuck():
            raise Stuck(trial)
        return self.runs

    def stuck(self) -> list[Trial]:
        """Once all is over: those that could not start on a whole empty cluster."""
        return [self.runs[job.id].trial for queue in self.queues.values() for job in queue.jobs()]

    def steps(self) -> Iterator[float]:
        """The same, moment by moment."""
        arrivals = sorted(self.workload.jobs, key=lambda trial: (trial.submit_s, trial.id))
        coming = 0
        while coming < len(arrivals) or self._events:
            now = self._events[0][0] if self._events else math.inf
            if coming < len(arrivals):
                now = min(now, arrivals[coming].submit_s)
            touched = self._happen(now)
            while coming < len(arrivals) and arrivals[coming].submit_s <= now:
                for trial in self._gates.arrive(arrivals[coming], now):
                    touched.add(self._arrive(trial))
                coming += 1
            while touched:
                units = sorted({self._units[name] for name in touched})
                touched = {unit[0] for unit in units if self.decide(unit, now)}
            yield now

    def decide(self, unit: Unit, now: float) -> bool:
        """A pass over these partitions; whether another is due, as somebody has made room."""
        queues = [self.queues[name] for name in unit]
        fitting = {kind for queue in queues for kind in queue.fitting()}
        if not any(queues) or not (fitting or self._may_preempt):
            return False
        began = self._clock()
        self._spent.advance(now)
        pools = {name: self.pools[name] for name in unit}
        for queue, pool in zip(queues, pools.values(), strict=True):
            queue.learn()
            pool.begin()
        walk = Pass(pools, self.tally, self.policy, now, self._preemption(unit, now))
        by = self._sorting(unit, now)
        if self._may_preempt:
            waiting = sorted((job for queue in queues for job in queue.jobs()), key=by)
            walk.keep_together([job for job in waiting if job.claimed_at])
            for job in waiting:
                walk.consider(job)
        else:
            _walk(walk, queues[0], by, fitting)
        decided = walk.finish()
        self.pass_s.append(self._clock() - began)
        self._start(decided, now)
        for one in decided.preempted:
            self._preempt(self.runs[one.job_id], now)
            self._queue(one.for_id).claim(one.for_id, _at(now))
        for at, limit in self._spent.awaits(decided.limited, pools, now):
            heapq.heappush(self._events, (at, _LETS_GO, limit, 0))
        return bool(decided.preempted)

    def _queue(self, job_id: int) -> Queue:
        return self.queues[self.runs[job_id].trial.partition]

    def _preemption(self, unit: Unit, now: float) -> Preemption | None:
        if not self._may_preempt:
            return None
        runs = [self.runs[job_id] for name in unit for job_id in self._running[name]]
        saves = self.workload.checkpoints
        victims = [run.victim(self._group(run.pending), now, saves) for run in runs]
        return Preemption(victims, self.tally, self.policy, now)

    def _group(self, job: Pending) -> int:
        return self.tally.group(job.project_id, job.user_id, job.band)

    def _sorting(self, unit: Unit, now: float) -> Sorting:
        facts = self._facts
        if self.policy.order in (Order.PRIORITY, Order.FAIR_RATIO):
            facts = replace(facts, usage=self.shares.usage(now))
        if self.policy.gives_turns:
            first = [job for name in unit for job in self.queues[name].first()]
            long = [run for name in unit for run in self._long[name].values()]
            facts = replace(facts, pending=tuple(first), running=tuple(long))
        return place(facts, _at(now))

    def _happen(self, now: float) -> set[str]:
        """Whoever ends by now leaves; the partitions that have changed."""
        touched: set[str] = set()
        while self._events and self._events[0][0] <= now:
            at, what, job_id, number = heapq.heappop(self._events)
            if what == _LETS_GO:
                touched |= self.queues.keys() if self._spent.lets_go(job_id, at) else set()
                continue
            run = self.runs[job_id]
            if run.tries != number or run.end_s >= 0:
                continue  # That run was cut short.
            if what == _OUTLIVES:
                self._outlives(run, now)
                continue
            if what == _MAY_BE_ASKED:
                touched.add(run.trial.partition)
                continue
            self._leave(run, now)
            self._asked[run.trial.partition] -= Counter((run.pending.resources,))
            run.end_s = now
            self.lengths.ended(run.trial, now)
            kin = self.lengths.kin(run.trial)
            if kin is not None:
                for queue in self.queues.values():
                    queue.stir(kin)
            self.ended += 1
            touched.add(run.trial.partition)
            for trial in self._gates.end(run.trial, now):
                touched.add(self._arrive(trial))
        return touched

    def _arrive(self, trial: Trial) -> str:
        ready = self._gates.ready_s[trial.id]
        job = pending(trial, self.lengths)
        if ready > trial.submit_s:
            job = replace(job, eligible_at=datetime.fromtimestamp(ready, UTC))
        self.runs[trial.id] = Run(trial, job, max(1.0, trial.run_s), ready)
        self.queues[trial.partition].add(job, trial)
        self._asked[trial.partition][job.resources] += 1
        return trial.partition

    def _start(self, decided: Decided, now: float) -> None:
        for start in decided.starts:
            run = self.runs[start.job_id]
            run.start_s = now
            run.tries += 1
            if run.first_start_s < 0:
                run.first_start_s = now
            job = run.pending = self._queue(start.job_id).pop(start.job_id)
            run.gpus = decided.gpus[job.id]
            rooms = [self._rooms[part.node_id] for part in start.placements]
            self._running[job.partition][job.id] = rooms
            self._note_wait(run, start.placements[0].node_id, now)
            self.shares.hold(job.association, run.gpus, now)
            self._spent.starts(job, run.gpus, run.left_s, now)
            self._expect(run, now)

    def _expect(self, run: Run, now: float) -> None:
        """What is to happen to it."""
        moments = [(now + run.left_s, _ENDS)]
        if run.left_s > run.pending.walltime_s:
            moments.append((now + run.pending.walltime_s, _OUTLIVES))
        asked_s = asked_after(self.policy, run.in_a_row)
        if self._may_preempt and 0 < asked_s < run.left_s:
            # A second's part later at most, since only whole ones are exact.
            moments.append((math.ceil(now + asked_s), _MAY_BE_ASKED))
        for at, what in moments:
            heapq.heappush(self._events, (at, what, run.trial.id, run.tries))

    def _note_wait(self, run: Run, node_id: int, now: float) -> None:
        job, waited = run.pending, waited_s(run.pending, now)
        if is_long(waited):
            self._long[job.partition][job.id] = Running(
                job.id,
                _at(now + job.walltime_s),
                (node_id,),
                project_id=job.project_id,
                user_id=job.user_id,
                band=job.band,
                submitted_at=job.submitted_at,
                waited_s=waited,
            )

    def _outlives(self, run: Run, now: float) -> None:
        self._spent.outlives(run.trial.id, now)
        more = self.lengths.more(now - run.start_s)
        if not more:
            return  # A pass takes who is past their end to leave in the next moment.
        for room in self._running[run.trial.partition][run.trial.id]:
            room.expect(run.trial.id, now + more)
        if now + more < run.start_s + run.left_s:
            heapq.heappush(self._events, (now + more, _OUTLIVES, run.trial.id, run.tries))

    def _leave(self, run: Run, now: float) -> None:
        job = run.pending
        for room in self._running[run.trial.partition].pop(job.id):
            room.release(job.id)
        self._long[run.trial.partition].pop(job.id, None)
        self.tally.remove(self._group(job), run.gpus, self._spent.ends(job.id, now))
        self.shares.hold(job.association, -run.gpus, now)
        run.served_s += now - run.start_s
        timely_s = max(0.0, min(now, self._last_s) - max(run.start_s, self._first_s))
        run.timely_gpu_s += run.gpus * timely_s

    def _preempt(self, run: Run, now: float) -> None:
        self._leave(run, now)
        job = run.make_room(now, self.workload.checkpoints)
        self.queues[run.trial.partition].add(job, run.trial, run.done_s)


def _walk(walk: Pass, queue: Queue, by: Sorting, fitting: set[Kind]) -> None:
    """Past those only without whom it would decide the same, as nobody can be preempted."""
    for job in queue.deciding(by, fitting):
        if walk.consider(job):
            fitting -= {kind for kind in fitting if not queue.has_room(kind)}


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _facts(workload: Workload, policy: Policy) -> Snapshot:
    """What an order may depend on, but for the usage."""
    return Snapshot(
        nodes=workload.nodes,
        pending=(),
        projects=workload.projects,
        members=workload.everybody(),
        policy=policy,
        weights=workload.weights,
    )
