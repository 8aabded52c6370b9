"""The cluster at one moment, from the database, for `jobs.scheduler`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from jobs.bands import Band
from jobs.lifecycle import Reason
from jobs.rules import SpecError
from jobs.scheduler.fairshare import Project
from jobs.scheduler.predict import Prediction
from jobs.scheduler.priority import PriorityWeights
from jobs.scheduler.snapshot import DependencyState, Pending, Running, Snapshot
from jobs.spec import JobSpec, Resources
from portal import models
from portal.models import Job, Prepared
from portal.queries import accounts, history, holdings, machines, pass_rows, preemption, specs
from portal.queries.books import Books
from portal.queries.dependencies import Dependencies
from portal.queries.holdings import Holdings, Part
from portal.queries.pass_rows import Row
from portal.queries.preemption import Run

LAST_ID = 2**63 - 1
"""The largest a database counts to."""
_weights = Prepared(
    lambda: models.Partition.objects.order_by("pk").values_list("name", "priority_weights"),
    lambda row: (row[0], PriorityWeights(**row[1])),
)


def take(now: datetime) -> Snapshot:
    """Everything a scheduling decision depends on, in a constant number of queries."""
    return read(now).snapshot()


@dataclass(frozen=True)
class Seen:
    """The rows of one moment. To make a snapshot of them takes longer than to read them, and is
    for after a transaction in which others cannot write."""

    rest: Snapshot
    """All but the jobs."""
    queue: Sequence[Row]
    active: Sequence[Row]
    asked_for: Mapping[int, JobSpec]
    unreadable: Mapping[int, str]
    others: Dependencies
    held: Holdings
    gpus: Mapping[int, float]
    """By job, as how many it counts that it holds."""
    runs: Mapping[int, Run]
    served: Mapping[int, float]
    usable: Mapping[tuple[str, int], frozenset[int]]
    now: datetime

    def snapshot(self) -> Snapshot:
        """With the jobs, and how long they are expected to run."""
        works = {row.pk: row.work(self.asked_for[row.pk]) for row in (*self.queue, *self.active)}
        foretold = history.predictions(works, self.served)
        known = Known(self.asked_for, self.unreadable, foretold, self.usable, self.now)
        return replace(
            self.rest,
            pending=_pending(self.queue, self.others, known),
            running=_running(self.active, self.held, self.gpus, self.runs, known),
        )


def read(now: datetime) -> Seen:
    """In a constant number of queries, those for run times that are foretold aside."""
    # In a zone whose clocks change a time and so many seconds make another one than they should.
    now = now.astimezone(UTC)
    queue, active = pass_rows.waiting(), pass_rows.active()
    both = [*queue, *active]
    found = specs.read(row.spec_text for row in both)
    asked_for = dict(zip((row.pk for row in both), map(_or_columns, both, found), strict=True))
    held, reserved, quotas = holdings.read(), machines.reservations(now), accounts.quotas()
    books, (projects, lenders) = Books.read(now, held), accounts.tree()
    return Seen(
        rest=Snapshot(
            nodes=machines.nodes(held),
            pending=(),
            running=(),
            projects=projects,
            members=accounts.members(
                {(row.project_id, row.owner_id, row.owner__username) for row in both}
            ),
            usage=tuple(sorted(books.balances().items())),
            quotas=quotas,
            lends=lenders | {None} if books.terms.lends else lenders,
            quota_usage=accounts.counted(books, quotas) if quotas else None,
            reservations=tuple(map(machines.reservation, reserved)),
            policy=accounts.policy(),
            weights=tuple(_weights.rows()),
        ),
        queue=queue,
        active=active,
        asked_for=asked_for,
        unreadable={row.pk: str(why) for row, why in zip(both, found, strict=True) if _is_odd(why)},
        others=Dependencies([(row, asked_for[row.pk]) for row in queue]),
        held=held,
        gpus=accounts.gpus_held(books),
        runs=preemption.runs(held.open, now),
        served=history.served(row.pk for row in both if row.preemptions),
        usable=usable(reserved, projects),
        now=now,
    )


def asked(row: Job, spec: JobSpec, now: datetime) -> tuple[Pending, ...]:
    """A request as if it had just been submitted, one entry per index of its array.

    `row` is not saved; the ids come after those of all jobs there are.
    """
    tasks = len(spec.array.indices) if spec.array else 1
    first = waiting(row, spec, LAST_ID - tasks, now)
    if spec.array:
        first = replace(first, array_id=first.id)
    return tuple(replace(first, id=LAST_ID - tasks + number) for number in range(tasks))


def waiting(
    row: Job, spec: JobSpec, job_id: int, now: datetime, served: Mapping[int, float] | None = None
) -> Pending:
    """One job alone, as the scheduler is told of it; `served` if it has run before."""
    asks = Row(
        job_id, row.owner_id, row.owner.username, row.project_id, row.project.name,
        row.name, row.partition.name, row.submitted_at, None, row.walltime_s, row.held,
        row.held_by_admin, row.reason,
        row.array_id, row.array_index, row.band, row.nice,
        spec.resources.nodes, spec.resources.gpus_per_node, None, row.eligible_at,
        row.waited_before_s, 0, "",
    )  # fmt: skip
    foretold = history.predictions({asks.pk: asks.work(spec)}, served)
    may = usable(machines.reservations(now), accounts.projects())
    known = Known({asks.pk: spec}, {}, foretold, may, now)
    (found,) = _pending([asks], Dependencies([(asks, spec)]), known)
    return found


@dataclass(frozen=True)
class Known:
    """What is known of jobs beside their rows, by their ids."""

    specs: Mapping[int, JobSpec]
    unreadable: Mapping[int, str]
    """What is wrong with those that their columns stand for."""
    foretold: Mapping[int, Prediction]
    usable: Mapping[tuple[str, int], frozenset[int]]
    """The reservations of nodes of each project and user."""
    now: datetime


def _is_odd(spec: JobSpec | SpecError) -> bool:
    return isinstance(spec, SpecError)


def _or_columns(row: Row, spec: JobSpec | SpecError) -> JobSpec:
    """A request that cannot be read still holds, or asks for, what its columns say."""
    if not isinstance(spec, SpecError):
        return spec
    asked = Resources(nodes=row.node_count, gpus_per_node=row.gpus_per_node)
    return JobSpec("unreadable", ":", asked, requeue=False)


def _running(
    rows: Sequence[Row], held: Holdings, gpus: Mapping[int, float], runs: Mapping[int, Run],
    known: Known,
) -> tuple[Running, ...]:  # fmt: skip
    places: dict[int, list[Part]] = defaultdict(list)
    for part in sorted(held.open, key=lambda part: part.node_id):
        places[part.attempt__job_id].append(part)
    return tuple(
        _run(row, places[row.pk], gpus.get(row.pk, 0.0), runs.get(row.pk), known)
        for row in rows
        if places[row.pk]
    )


def _run(row: Row, parts: Sequence[Part], gpus: float, run: Run | None, known: Known) -> Running:
    # One that is about to start has its walltime still before it.
    began = row.started_at or parts[0].attempt__started_at
    ends_by = began + timedelta(seconds=row.walltime_s)
    if run is not None and run.leaves_by is not None:
        ends_by = min(ends_by, run.leaves_by)
    likely = _likely(began, ends_by, known.foretold.get(row.pk), known.now)
    returns = run is not None and known.specs[row.pk].requeue is not False
    return Running(
        id=row.pk,
        ends_by=ends_by,
        expected_end=likely[0],
        early_end=likely[1],
        node_ids=tuple(part.node_id for part in parts),
        array_id=row.array_id,
        cpus_per_node=max(part.cpus for part in parts),
        memory_mib_per_node=max(part.memory_mib for part in parts),
        array_index=row.array_index,
        project_id=row.project_id,
        user_id=row.owner_id,
        band=Band(row.band),
        gpus=gpus,
        started_at=run.started_at if run else None,
        saved_at=run.saved_at if run else None,
        preemptions=run.preemptions if run else 0,
        submitted_at=row.submitted_at,
        waited_s=row.waited_before_s,
        resources=known.specs[row.pk].resources,
        leaving=run is not None and run.leaving,
        preemptible=run is not None and run.preemptible,
        again=_again(row, run, known) if run and returns else None,
    )


def _again(row: Row, run: Run, known: Known) -> Pending:
    """What it saved it need not do again."""
    foretold = known.foretold.get(row.pk)
    if foretold is not None and run.saved_at is not None:
        saved_s = (run.saved_at - run.started_at).total_seconds()
        left = foretold.remaining(saved_s, row.walltime_s)
        known = replace(known, foretold={row.pk: left})
    return waits(row, DependencyState.MET, (), (), known)


def _likely(
    began: datetime, ends_by: datetime, foretold: Prediction | None, now: datetime
) -> tuple[datetime, datetime]:
    """When a job that runs is expected to end, and the earliest end that is likely. `foretold` is
    of this run alone."""
    if foretold is None:
        return ends_by, ends_by
    known = foretold.longer_than(max(0.0, (now - began).total_seconds()))
    expected, early = (
        min(ends_by, max(now, began + timedelta(seconds=length)))
        for length in (known.expected_s, known.low_s)
    )
    return expected, min(early, expected)


def _pending(rows: Sequence[Row], others: Dependencies, known: Known) -> tuple[Pending, ...]:
    return tuple(waits(row, *others.of(row, known.specs[row.pk]), known) for row in rows)


def waits(
    row: Row, dependency: DependencyState, in_the_way: tuple[int, ...], besides: tuple[int, ...],
    known: Known,
) -> Pending:  # fmt: skip
    """A job that waits, as the scheduler is told of it."""
    spec = known.specs[row.pk]
    found = Pending(
        id=row.pk,
        submitted_at=row.submitted_at,
        resources=known.specs[row.pk].resources,
        walltime_s=row.walltime_s,
        partition=row.partition__name,
        held=row.held,
        hold_reason=_hold_reason(row),
        begin_at=spec.begin_at,
        deadline_at=spec.deadline_at,
        dependency=dependency,
        waits_for=in_the_way,
        waits_besides=besides,
        array_id=row.array_id,
        array_limit=spec.array.limit if spec.array else None,
        array_index=row.array_index,
        project_id=row.project_id,
        user_id=row.owner_id,
        band=Band(row.band),
        nice=row.nice,
        # What is still kept back grows no older.
        eligible_at=row.eligible_at or known.now,
        waited_before_s=row.waited_before_s,
        claimed_at=row.claimed_at,
        reservations=may_use(known.usable, row.project_id, row.owner_id),
        unreadable=known.unreadable.get(row.pk, ""),
    )
    return expecting(found, known.foretold.get(row.pk))


def expecting(job: Pending, prediction: Prediction | None) -> Pending:
    """The same, now that so much is known of how long it runs."""
    if prediction is None:
        return job
    return replace(
        job, expected_s=prediction.expected_s, typical_s=prediction.typical_s,
        spread_s=(prediction.low_s, prediction.high_s),
    )  # fmt: skip


def _hold_reason(row: Row) -> Reason:
    if row.held_by_admin or row.reason not in (Reason.HELD_LAUNCH, Reason.HELD_REQUEUE):
        return Reason.HELD_ADMIN if row.held_by_admin else Reason.HELD_USER
    return Reason(row.reason)


def usable(
    reserved: Sequence[models.Reservation], projects: Sequence[Project]
) -> dict[tuple[str, int], frozenset[int]]:
    """The reservations that jobs of a project, or of a user, may use: one for a project is for all
    below it, too."""
    found: dict[tuple[str, int], frozenset[int]] = defaultdict(frozenset)
    lines = accounts.lineage(projects) if reserved else {}
    for row in reserved:
        named = {project.pk for project in row.projects.all()}
        for project_id, line in lines.items():
            if not named.isdisjoint(line):
                found["project", project_id] |= {row.pk}
        for user in row.users.all():
            found["user", user.pk] |= {row.pk}
    return found


def may_use(
    usable: Mapping[tuple[str, int], frozenset[int]], project_id: int, user_id: int
) -> frozenset[int]:
    """Those of them that a job of this project and user may use."""
    nobody = frozenset[int]()
    return usable.get(("project", project_id), nobody) | usable.get(("user", user_id), nobody)
