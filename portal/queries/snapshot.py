"""The cluster at one moment, from the database, for `jobs.scheduler`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import F, Q

from jobs import lifecycle
from jobs.lifecycle import Reason, State
from jobs.scheduler.snapshot import DependencyState, Gpu, Node, Pending, Running, Snapshot
from jobs.spec import Dependency, DependencyKind, JobSpec
from jobs.spec_json import from_dict
from portal import models
from portal.models import Allocation, Job, Lease

HELD_LAUNCH = Reason.HELD_LAUNCH
MAX_PENDING = 5000
"""Waiting jobs looked at in one pass, in order of submission and the held ones last: a pass is
bounded."""
OF_NODE = (
    "name", "cpus", "memory_mib", "features", "partition__name",
    "drained", "drain_reason", "health", "probed_at",
)  # fmt: skip
LAST_ID = 2**63 - 1
"""The largest a database counts to."""


class Waiting(NamedTuple):
    """A waiting job, less its specification, by the names of its columns."""

    pk: int
    owner_id: int
    name: str
    partition__name: str
    submitted_at: datetime
    walltime_s: int
    held: bool
    reason: str
    array_id: int | None
    array_index: int | None


class Held(NamedTuple):
    """What is allocated now, by the names of its columns."""

    node_id: int
    cpus: int
    memory_mib: int
    exclusive: bool
    attempt__job_id: int
    attempt__started_at: datetime


def take() -> Snapshot:
    """Everything a scheduling decision depends on, in a constant number of queries."""
    waiting = Job.objects.filter(state=State.PENDING).order_by("held", "submitted_at", "id")
    pending = [Waiting(*row) for row in waiting.values_list(*Waiting._fields)[:MAX_PENDING]]
    held = _held()
    return Snapshot(nodes=_nodes(held), pending=_pending(pending), running=_running(held))


def asked(row: Job, spec: JobSpec) -> tuple[Pending, ...]:
    """A request as if it had just been submitted, one entry per index of its array.

    `row` is not saved; the ids come after those of all jobs there are.
    """
    tasks = len(spec.array.indices) if spec.array else 1
    waits = Waiting(
        LAST_ID - tasks, row.owner_id, row.name, row.partition.name, row.submitted_at,
        row.walltime_s, row.held, row.reason, row.array_id, row.array_index,
    )  # fmt: skip
    earlier = _earlier_singletons([waits], {waits.pk: spec})
    first = _waiting(waits, spec, _states([spec]), earlier.get(waits.pk, ()))
    if spec.array:
        first = replace(first, array_id=first.id)
    return tuple(replace(first, id=waits.pk + number) for number in range(tasks))


def in_vain(spec: JobSpec) -> tuple[Dependency, ...]:
    """Those of its dependencies that can never come true, as the others ended otherwise."""
    states = _states([spec])
    return tuple(
        wait
        for wait in spec.dependencies
        if wait.job_id in states and _judge(wait, states, ()) is DependencyState.NEVER
    )


def empty_nodes() -> tuple[Node, ...]:
    """All nodes as if nothing ran: enough to tell what could ever fit."""
    return _nodes([])


def _held() -> list[Held]:
    """In the order of the nodes."""
    parts = Allocation.objects.filter(attempt__ended_at=None).order_by("node_id")
    return [Held(*row) for row in parts.values_list(*Held._fields)]


def _nodes(held: list[Held]) -> tuple[Node, ...]:
    on: dict[int, list[Held]] = defaultdict(list)
    for part in held:
        on[part.node_id].append(part)
    holders = (
        dict(
            Lease.objects.filter(released_at=None).values_list(
                "gpu_id", "allocation__attempt__job_id"
            )
        )
        if held
        else {}
    )
    gpus: dict[int, list[Gpu]] = defaultdict(list)
    present = models.Gpu.objects.filter(present=True)
    for pk, node_id, uuid, index, model, memory_mib in present.values_list(
        "pk", "node_id", "uuid", "index", "model", "memory_mib"
    ):
        gpus[node_id].append(Gpu(uuid, index, model, memory_mib, holders.get(pk)))
    rows = models.Node.objects.select_related("partition").only(*OF_NODE)
    return tuple(_node(row, tuple(gpus[row.pk]), on[row.pk]) for row in rows)


def _node(row: models.Node, gpus: tuple[Gpu, ...], held: list[Held]) -> Node:
    return Node(
        id=row.pk,
        name=row.name,
        partition=row.partition.name,
        cpus=row.cpus,
        memory_mib=row.memory_mib,
        cpus_free=row.cpus - sum(part.cpus for part in held),
        memory_free_mib=row.memory_mib - sum(part.memory_mib for part in held),
        gpus=gpus,
        features=tuple(row.features),
        unavailable=row.unavailable,
        jobs=tuple(sorted(part.attempt__job_id for part in held)),
        exclusive=any(part.exclusive for part in held),
    )


def _running(held: list[Held]) -> tuple[Running, ...]:
    jobs = Job.objects.filter(state__in=lifecycle.ACTIVE)
    places: dict[int, list[Held]] = defaultdict(list)
    for part in held:
        places[part.attempt__job_id].append(part)
    return tuple(
        Running(
            id=pk,
            # One that is about to start has its walltime still before it.
            ends_by=(started_at or places[pk][0].attempt__started_at)
            + timedelta(seconds=walltime_s),
            node_ids=tuple(part.node_id for part in places[pk]),
            array_id=array_id,
            cpus_per_node=max(part.cpus for part in places[pk]),
            memory_mib_per_node=max(part.memory_mib for part in places[pk]),
            array_index=array_index,
        )
        for pk, started_at, walltime_s, array_id, array_index in jobs.values_list(
            "pk", "started_at", "walltime_s", "array_id", "array_index"
        )
        if pk in places
    )


def _pending(rows: list[Waiting]) -> tuple[Pending, ...]:
    specs = _requests([row.pk for row in rows])
    states = _states(specs.values())
    earlier = _earlier_singletons(rows, specs)
    return tuple(_waiting(row, specs[row.pk], states, earlier.get(row.pk, ())) for row in rows)


_read: dict[int, JobSpec] = {}
"""Specifications of waiting jobs as read before: they never change, and reading is the work."""


def _requests(ids: list[int]) -> dict[int, JobSpec]:
    """The specifications of these jobs, all with an empty script in place of theirs."""
    # A web process asks from several threads, of which another may just be emptying it.
    kept = {pk: spec for pk in ids if (spec := _read.get(pk))}
    new = [pk for pk in ids if pk not in kept]
    for start in range(0, len(new), 500):
        for pk, spec in Job.objects.filter(pk__in=new[start : start + 500]).values_list(
            "pk", "spec"
        ):
            kept[pk] = from_dict(spec | {"script": ":"})
    _read.clear()
    _read.update(kept)
    return kept


def _waiting(
    row: Waiting, spec: JobSpec, states: dict[int, list[str]], singles: tuple[int, ...]
) -> Pending:
    judged = [(wait, _judge(wait, states, singles)) for wait in spec.dependencies]
    together = _together([state for _, state in judged])
    in_the_way = {
        job_id
        for wait, state in judged
        if state is together and state is not DependencyState.MET
        for job_id in ([wait.job_id] if wait.job_id else singles)
    }
    return Pending(
        id=row.pk,
        submitted_at=row.submitted_at,
        resources=spec.resources,
        walltime_s=row.walltime_s,
        partition=row.partition__name,
        held=row.held,
        hold_reason=HELD_LAUNCH if row.reason == HELD_LAUNCH else Reason.HELD_USER,
        begin_at=spec.begin_at,
        deadline_at=spec.deadline_at,
        dependency=together,
        waits_for=tuple(sorted(in_the_way)),
        array_id=row.array_id,
        array_limit=spec.array.limit if spec.array else None,
        array_index=row.array_index,
    )


def _together(states: list[DependencyState]) -> DependencyState:
    for worst in (DependencyState.NEVER, DependencyState.WAITING, DependencyState.MET):
        if worst in states:
            return worst
    return DependencyState.NONE


def _judge(
    wait: Dependency, states: dict[int, list[str]], singles: tuple[int, ...]
) -> DependencyState:
    if wait.kind is DependencyKind.SINGLETON:
        return DependencyState.WAITING if singles else DependencyState.MET
    found = [State(state) for state in states.get(wait.job_id or 0, [])]
    if any(state not in lifecycle.ENDED for state in found):
        return DependencyState.WAITING
    well = bool(found) and all(state is State.COMPLETED for state in found)
    if wait.kind is DependencyKind.AFTER_ANY:
        return DependencyState.MET
    wanted = well if wait.kind is DependencyKind.AFTER_OK else bool(found) and not well
    return DependencyState.MET if wanted else DependencyState.NEVER


def _states(specs: Iterable[JobSpec]) -> dict[int, list[str]]:
    """The states of all jobs that others wait for; an array's id stands for all of its jobs."""
    wanted = {wait.job_id for spec in specs for wait in spec.dependencies if wait.job_id}
    if not wanted:
        return {}
    found: dict[int, list[str]] = defaultdict(list)
    one = Job.objects.filter(Q(array_id=None) | ~Q(array_id=F("pk")), pk__in=wanted)
    for job_id, state in one.values_list("pk", "state"):
        found[job_id].append(state)
    for row in Job.objects.filter(array_id__in=wanted).only("array_id", "state"):
        found[row.array_id or row.pk].append(row.state)
    return found


def _earlier_singletons(
    rows: list[Waiting], specs: dict[int, JobSpec]
) -> dict[int, tuple[int, ...]]:
    """For each `singleton` job the owner's earlier unfinished jobs of the same name."""
    single = [
        row
        for row in rows
        if any(w.kind is DependencyKind.SINGLETON for w in specs[row.pk].dependencies)
    ]
    if not single:
        return {}
    unfinished = Job.objects.filter(
        state__in=lifecycle.WAITING | lifecycle.ACTIVE, owner__in={row.owner_id for row in single}
    ).values_list("pk", "owner_id", "name")
    return {
        row.pk: tuple(
            sorted(
                pk
                for pk, owner, name in unfinished
                if pk < row.pk and (owner, name) == (row.owner_id, row.name)
            )
        )
        for row in single
    }
