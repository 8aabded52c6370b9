"""Who starts now, where, and why the rest waits: first come, first served.

Within a partition the order is strict: behind a job that waits for resources nothing starts, so
that big gangs are not starved by small jobs. A job that waits for something of its own does not
stand in the way: held, not begun yet, waiting for another job, at its array's limit, or able to
run only where too few nodes take jobs (down, draining). Nobody knows when a node comes back, so
such a job keeps its place in the order but lets others pass until then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property

from jobs.lifecycle import Reason
from jobs.scheduler import explain
from jobs.scheduler.fit import (
    gpu_count,
    has_cpus,
    has_features,
    has_memory,
    is_allowed,
    refuse,
)
from jobs.scheduler.forecast import Ending, Opening, endings, opening
from jobs.scheduler.room import Room
from jobs.scheduler.snapshot import (
    DependencyState,
    Explanation,
    Node,
    Pending,
    Plan,
    Running,
    Snapshot,
    Start,
)
from jobs.spec import Resources

_FINAL = (Reason.DEPENDENCY_NEVER, Reason.BAD_CONSTRAINTS)
"""Who waits so will not start, whatever others do."""


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide for every pending job. `now` has a time zone; sentences give times in it.

    Deterministic; the order of the snapshot's tuples means nothing.
    """
    queues = _queues(snapshot)
    arrays = _Arrays(snapshot.running)
    others = _Others(snapshot)
    starts: list[Start] = []
    expired: list[int] = []
    explanations: dict[int, Explanation] = {}
    for job in sorted(snapshot.pending, key=lambda job: (job.submitted_at, job.id)):
        if misses_deadline(job, now):
            expired.append(job.id)
            continue
        queue = queues.get(job.partition)
        why = _own_wait(job, others, arrays, now)
        if why is None:
            found = queue.serve(job, now) if queue else explain.no_nodes(job.partition)
            if isinstance(found, Start):
                starts.append(found)
                arrays.add(job.array_id, now + timedelta(seconds=job.walltime_s))
                continue
            why = found
        explanations[job.id] = why
        if queue is not None and why.reason not in _FINAL:
            queue.passed.append(job)
    return Plan(tuple(starts), explanations, tuple(expired))


def misses_deadline(job: Pending, now: datetime) -> bool:
    """Whether the job, started as early as it may, could run past its deadline."""
    if job.deadline_at is None:
        return False
    earliest = max(now, job.begin_at) if job.begin_at else now
    return earliest + timedelta(seconds=job.walltime_s) > job.deadline_at


def _own_wait(job: Pending, others: _Others, arrays: _Arrays, now: datetime) -> Explanation | None:
    """What the job waits for that has nothing to do with the others in the queue."""
    if job.held:
        return explain.held(job)
    if job.dependency is DependencyState.NEVER:
        return explain.dependency_never(others.named(job.waits_for))
    if job.dependency is DependencyState.WAITING:
        ends = [others.ends.get(job_id) for job_id in job.waits_for]
        return explain.dependency(others.named(job.waits_for), ends, now)
    if job.begin_at is not None and job.begin_at > now:
        return explain.begin_time(job.begin_at, now)
    if job.array_limit is not None and arrays.running(job.array_id) >= job.array_limit:
        return explain.array_limit(job.array_limit, arrays.first_end(job.array_id), now)
    return None


class _Others:
    """The jobs that jobs wait for, and when they end. By its own id an array is meant as a whole,
    which is how a dependency names it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._jobs: tuple[Pending | Running, ...] = (*snapshot.pending, *snapshot.running)
        self.ends = {job.id: job.ends_by for job in snapshot.running}
        """Those whose end is known, at the latest then."""
        for job in snapshot.running:
            if job.array_id is not None:
                end = self.ends.get(job.array_id, job.ends_by)
                self.ends[job.array_id] = max(end, job.ends_by)
        for waiting in snapshot.pending:
            if waiting.array_id is not None:
                self.ends.pop(waiting.array_id, None)

    @cached_property
    def _labels(self) -> dict[int, str]:
        return {job.id: job.label for job in self._jobs if job.array_id != job.id}

    def named(self, ids: Iterable[int]) -> list[str]:
        return [self._labels.get(job_id, str(job_id)) for job_id in sorted(ids)]


class _Arrays:
    """How many tasks of each array run, those included that this plan starts."""

    def __init__(self, running: Iterable[Running]) -> None:
        self._ends: dict[int, list[datetime]] = defaultdict(list)
        for job in running:
            self.add(job.array_id, job.ends_by)

    def add(self, array_id: int | None, ends_by: datetime) -> None:
        if array_id is not None:
            self._ends[array_id].append(ends_by)

    def running(self, array_id: int | None) -> int:
        return len(self._ends.get(array_id, ())) if array_id is not None else 0

    def first_end(self, array_id: int | None) -> datetime | None:
        return min(self._ends.get(array_id, ()), default=None) if array_id is not None else None


class _Queue:
    """One partition: its nodes, and who waits there."""

    def __init__(self, nodes: Iterable[Node], running: Iterable[Running]) -> None:
        self.rooms = sorted(map(Room, nodes), key=lambda room: room.order)
        self.ends: list[Ending] = endings(running, self.rooms)
        self.passed: list[Pending] = []
        """Who waits for something else, in order; whoever comes before the blocker goes first."""
        self.waiting = 0
        self.blocker: explain.Blocker | None = None
        self._usable: dict[object, list[tuple[Room, int]]] = {}
        self._able: dict[Resources, list[Room]] = {}
        self._excuses: dict[Resources, Explanation | None] = {}

    def serve(self, job: Pending, now: datetime) -> Start | Explanation:
        asked = job.resources
        if asked not in self._excuses:
            self._excuses[asked] = self._excuse(asked)
        excuse = self._excuses[asked]
        if excuse is not None:
            return excuse
        if self.blocker is None:
            start = self._start(job, now)
            if start is not None:
                return start
        self.waiting += 1
        if self.blocker is not None:
            return explain.priority(self.waiting - 1, self.blocker, now)
        return self._block(job, now)

    def _excuse(self, asked: Resources) -> Explanation | None:
        """Why such a request can't be served by waiting for other jobs to end, if so."""
        able = self._able[asked] = self._able_rooms(asked)
        if len(able) < asked.nodes:
            nodes = [room.node for room in self.rooms]
            return explain.never_fits(refuse(asked, nodes, nodes[0].partition) or "does not fit")
        if sum(not room.node.unavailable for room in able) < asked.nodes:
            return explain.nodes_unavailable(
                asked, [room.node for room in able], [room.node for room in self.rooms]
            )
        return None

    def _able_rooms(self, asked: Resources) -> list[Room]:
        """Nodes that could hold it when empty: `fit.could_hold`, with the slow part remembered."""
        kind = (asked.gpu_model, asked.features)
        if kind not in self._usable:
            self._usable[kind] = [
                (room, gpu_count(room.node, asked))
                for room in self.rooms
                if has_features(room.node, asked)
            ]
        return [
            room
            for room, gpus in self._usable[kind]
            if gpus >= asked.gpus_per_node
            and has_cpus(room.node, asked)
            and has_memory(room.node, asked)
            and is_allowed(room.node, asked)
        ]

    def _ready(self, asked: Resources) -> list[Room]:
        return [room for room in self._able[asked] if not room.node.unavailable]

    def _start(self, job: Pending, now: datetime) -> Start | None:
        """All nodes of the job or none; the tightest that fit; rank 0 first by name."""
        asked = job.resources
        fitting = [room for room in self._ready(asked) if room.fits(asked)]
        if len(fitting) < asked.nodes:
            return None
        chosen = sorted(fitting, key=Room.snugness)[: asked.nodes]
        chosen.sort(key=lambda room: room.order)
        before = [(room, {gpu.uuid: gpu for gpu in room.node.gpus}) for room in chosen]
        placements = tuple(room.take(job.id, asked) for room in chosen)
        ends_by = now + timedelta(seconds=job.walltime_s)
        for (room, gpus), part in zip(before, placements, strict=True):
            held = tuple(gpus[uuid] for uuid in part.gpu_uuids)
            self.ends.append(
                Ending(ends_by, job.id, job.label, room.node.id, held, part.cpus, part.memory_mib)
            )
        return Start(job.id, placements)

    def _block(self, job: Pending, now: datetime) -> Explanation:
        ready = self._ready(job.resources)
        found = opening(job.resources, ready, self.ends)
        rivals = self._rivals(found) if found is not None else ()
        self.blocker = explain.Blocker(job.label, job.resources, found, rivals)
        away = [room.node for room in self._able[job.resources] if room.node.unavailable]
        return explain.resources(self.blocker, ready, away, now)

    def _rivals(self, found: Opening) -> tuple[str, ...]:
        """Those before the blocker that may still be ready in time to start there first."""
        ready = [job for job in self.passed if job.begin_at is None or job.begin_at < found.at]
        fitting = {
            asked
            for asked in {job.resources for job in ready}
            if any(room.node.name in found.nodes for room in self._able_rooms(asked))
        }
        return tuple(job.label for job in ready if job.resources in fitting)


def _queues(snapshot: Snapshot) -> dict[str, _Queue]:
    nodes: dict[str, list[Node]] = defaultdict(list)
    for node in snapshot.nodes:
        nodes[node.partition].append(node)
    return {name: _Queue(found, snapshot.running) for name, found in nodes.items()}
