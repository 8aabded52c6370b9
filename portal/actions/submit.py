"""Take a request in: read it, refuse what can never run, write it down."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from jobs.directives import Notice, SpecErrors, build_spec
from jobs.lifecycle import Reason, State
from jobs.rules import SpecError
from jobs.scheduler.fit import refuse
from jobs.scheduler.snapshot import Node
from jobs.scheduler.words import listed, span
from jobs.spec import Array, JobSpec, Resources
from jobs.spec_json import to_dict
from portal import hints, live
from portal.actions import age
from portal.actions.partitions import default_partition
from portal.models import Event, Job, Partition, PreparedFor, Project, Script, User, insert_all
from portal.queries import dependencies, machines, partitions, rights
from portal.queries.admission import Admission, Grounds

MOST_NAMED = 10
"""Of those that there are, where somebody names another one."""
LEAST: Mapping[str, Any] = {
    "gpus_per_node": 1, "shards": 1, "tasks_per_node": 1, "cpus_per_task": 1, "memory_mib": None,
    "gpu_model": None, "features": (), "only_nodes": (), "not_nodes": (), "max_switches": None,
    "nodes": 1,
}  # fmt: skip
"""Of each thing that a request may have too much of."""


@dataclass(frozen=True)
class Request:
    """A request that can be submitted, and what its author should know about it."""

    spec: JobSpec
    project: Project
    partition: Partition
    warnings: tuple[Notice, ...]


def read(
    *,
    owner: User,
    script: str,
    overrides: Mapping[str, str],
    now: datetime,
    key: str | None = None,
) -> Request:
    """A script and a form's fields as a request. Raises `SpecErrors` with all that is wrong.

    `key` is that of `submit`: what was submitted with it already is not asked to make room.
    """
    # Times that it gives without a zone are in the lab's.
    now = timezone.localtime(now)
    built = build_spec(script, overrides, now, partitions.usual_walltime_s)
    spec = built.spec
    errors: list[SpecError] = []
    project = _project(owner, spec.project, errors)
    partition = _partition(spec.partition, errors)
    if partition:
        errors += _band_not_allowed(spec, partition, owner)
        errors += _too_long(spec, partition)
        errors += _cannot_fit(spec, partition)
    errors += _beyond_rights(spec, owner)
    errors += _unknown_dependencies(spec)
    errors += _vain_dependencies(spec)
    if project and partition:
        errors += _beyond_quotas(Admission(owner, project, partition, spec), key, now)
    if errors or project is None or partition is None:
        raise SpecErrors(map(built.blame, errors))
    return Request(spec, project, partition, built.warnings)


def submit(
    *,
    owner: User,
    spec: JobSpec,
    project: Project,
    partition: Partition,
    now: datetime,
    key: str | None = None,
    relaunch_of: Job | None = None,
    resume_from: str = "",
) -> Job:
    """Write the job down as PENDING, an array as one row per index; the first row is returned.

    The request comes from `read`, which refuses what could never run. `key` names this
    submission: a second one with the same key returns the first one's job. Raises `SpecErrors`
    when meanwhile the project was archived, its owner left it, or as many jobs wait as may.
    """
    row = Job(
        owner=owner, project=project, partition=partition, name=spec.name,
        node_count=spec.resources.nodes, gpus_per_node=spec.resources.gpus_per_node,
        walltime_s=spec.walltime_s, submission_key=key, relaunch_of=relaunch_of,
        resume_from=resume_from, held=spec.held, held_by_owner=spec.held, submitted_at=now,
        reason=Reason.HELD_USER if spec.held else Reason.NONE,
        band=spec.band or partition.default_band, nice=spec.nice, eligible_at=age.since(spec, now),
    )  # fmt: skip
    try:
        with transaction.atomic():
            asked = Admission(owner, project, partition, spec)
            return _one_at_a_time(asked, key, now) or _write(row, spec, now)
    except IntegrityError:
        twin = _twin(key)
        if twin is None:
            raise
        return twin


# Not FOR UPDATE, which jobs that refer to projects would have to wait for.
_lock = PreparedFor[Any](
    lambda ids: (
        Project.objects.select_for_update(no_key=True)
        .filter(pk__in=ids)
        .order_by("pk")
        .values_list("pk")
    )
)


def others_wait(asked: Admission) -> None:
    """Until this transaction ends the project is not archived, and nobody else submits to it, nor
    to those above it where it matters how many wait."""
    _lock.rows({asked.project.pk, *asked.counted_in()})


def _one_at_a_time(asked: Admission, key: str | None, now: datetime) -> Job | None:
    """The job that has this key already, if any."""
    others_wait(asked)
    twin = _twin(key)
    problem = None if twin else _no_longer(asked) or asked.too_many(now)
    if problem:
        raise SpecErrors([problem])
    return twin


def _no_longer(asked: Admission) -> SpecError | None:
    """What was so when the request was read, and may have changed since."""
    name = asked.project.name
    if rights.projects_of(asked.owner).filter(pk=asked.project.pk).exists():
        return None
    if Project.objects.filter(pk=asked.project.pk, archived_at=None).exists():
        return SpecError("project", f"{name!r} is no longer a project of yours; choose another")
    return SpecError("project", f"{name!r} was archived and takes no more jobs; choose another")


def _twin(key: str | None) -> Job | None:
    return Job.objects.filter(submission_key=key).first() if key else None


def _write(row: Job, spec: JobSpec, now: datetime) -> Job:
    row.script = _script(spec.script)
    if spec.array is None:
        row.spec = _stored(spec)
        row.save()
        jobs = [row]
    else:
        jobs = _array(row, spec, spec.array)
    insert_all(
        Event(at=now, job=job, kind="submitted", new=State.PENDING, actor=row.owner) for job in jobs
    )
    live.changed("jobs")
    hints.schedule()
    return jobs[0]


def _array(first: Job, spec: JobSpec, array: Array) -> list[Job]:
    head, *tail = array.indices
    first.spec = _stored(replace(spec, array=Array((head,), array.limit)))
    first.array_index = head
    first.save()
    first.array_id = first.pk
    first.save(update_fields=["array_id"])
    copies = []
    for index in tail:
        copy = Job(**{f.attname: getattr(first, f.attname) for f in Job._meta.concrete_fields})
        copy.pk = None
        copy.submission_key = None
        copy.array_index = index
        copy.spec = _stored(replace(spec, array=Array((index,), array.limit)))
        copies.append(copy)
    return [first, *Job.objects.bulk_create(copies, batch_size=500)]


def _stored(spec: JobSpec) -> dict[str, object]:
    kept = to_dict(spec)
    del kept["script"]
    return kept


def _script(text: str) -> Script:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Script.objects.get_or_create(digest=digest, defaults={"text": text})[0]


def _project(owner: User, name: str | None, errors: list[SpecError]) -> Project | None:
    mine = rights.projects_of(owner)
    if name:
        found = mine.filter(name=name).first()
        if found is None:
            known = listed(mine.values_list("name", flat=True), MOST_NAMED) or "none yet"
            errors.append(
                SpecError("project", f"{name!r} is not a project of yours; there is {known}")
            )
        return found
    found = mine.filter(members=owner).first() or mine.first()
    if found is None:
        errors.append(
            SpecError("project", "you are in no project yet; ask an administrator to add you")
        )
    return found


def _partition(name: str | None, errors: list[SpecError]) -> Partition | None:
    if not name:
        return default_partition()
    found = partitions.named(name)
    if found is None:
        known = listed(Partition.objects.values_list("name", flat=True), MOST_NAMED)
        errors.append(SpecError("partition", f"there is no partition {name!r}; there is {known}"))
    return found


def _cannot_fit(spec: JobSpec, partition: Partition) -> list[SpecError]:
    nodes = machines.empty()
    why = refuse(spec.resources, nodes, partition.name)
    if why is None:
        return []
    others = sorted({node.partition for node in nodes} - {partition.name})
    if fitting := [name for name in others if refuse(spec.resources, nodes, name) is None]:
        why += f"; it would fit in partition {listed(fitting)}"
    return [SpecError(_at_fault(spec.resources, nodes, partition), why)]


def _at_fault(asked: Resources, nodes: Sequence[Node], partition: Partition) -> str:
    """What was asked for without which it would fit; `resources` where it takes more than one."""
    for name, least in LEAST.items():
        if getattr(asked, name) in (0, None, (), least):
            continue
        if refuse(replace(asked, **{name: least}), nodes, partition.name) is None:
            return name
    return "resources"


def _too_long(spec: JobSpec, partition: Partition) -> list[SpecError]:
    limit = partition.max_walltime_s
    if limit is None or spec.walltime_s <= limit:
        return []
    return [SpecError("walltime", f"partition {partition} allows {span(limit)} at most")]


def _beyond_quotas(asked: Admission, key: str | None, now: datetime) -> list[SpecError]:
    found = [asked.never(Grounds()), None if _twin(key) else asked.too_many(now)]
    # An array that is larger than what may ever wait is too large now as well.
    return list(filter(None, found))[:1]


def _band_not_allowed(spec: JobSpec, partition: Partition, owner: User) -> list[SpecError]:
    allowed = partition.bands_for(owner)
    if spec.band is None or spec.band in allowed:
        return []
    if partition.allowed_bands is None:
        why = f"{spec.band} is for administrators; leave out --qos, or give {listed(allowed)}"
        return [SpecError("band", why)]
    return [SpecError("band", f"partition {partition} allows {' and '.join(allowed)} only")]


def _beyond_rights(spec: JobSpec, owner: User) -> list[SpecError]:
    if spec.nice >= 0 or owner.is_staff:
        return []
    return [SpecError("nice", "below 0 is for administrators; leave it out, or give 0 or more")]


def _unknown_dependencies(spec: JobSpec) -> list[SpecError]:
    wanted = {wait.job_id for wait in spec.dependencies if wait.job_id}
    known = set(Job.objects.filter(pk__in=wanted).values_list("pk", flat=True))
    return [
        SpecError("dependency", f"there is no job {job_id}") for job_id in sorted(wanted - known)
    ]


def _vain_dependencies(spec: JobSpec) -> list[SpecError]:
    return [
        SpecError(
            "dependency",
            f"{wait.kind}:{wait.job_id} can never come true: job {wait.job_id} ended otherwise",
        )
        for wait in dependencies.in_vain(spec)
    ]
