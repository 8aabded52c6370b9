"""Change what a waiting job asks for, as `scontrol update` does.

It stays the same job: with its number, its age, its checkpoints, and those that wait for it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

from jobs.spec import JobSpec
from jobs.spec_json import from_dict, to_dict
from portal import hints, live
from portal.actions import charge, passes
from portal.actions.submit import others_wait
from portal.models import Event, Job, User
from portal.queries import partitions, sooner
from portal.queries.admission import Admission, Grounds
from portal.queries.sooner import Changes


class Outdated(Exception):
    """What was to be changed is no longer as it was; the text says what, and goes on after "it"."""


@transaction.atomic
def update(*, job: Job, changes: Changes, detail: str, actor: User, now: datetime) -> None:
    """`changes` are those that `sooner` found, `detail` says them. Raises `Outdated`."""
    # A pass under way would start it as it was.
    passes.wait()
    others_wait(Admission(job.owner, job.project, job.partition, sooner.request(job)))
    alone = Job.objects.select_for_update(of=("self",))
    job.refresh_from_db(from_queryset=alone.select_related("owner", "project", "partition"))
    if not job.waiting:
        raise Outdated("no longer waits")
    spec = _changed(sooner.request(job), changes)
    columns = _columns(job, spec, changes) | _places(job, spec, changes, now)
    if "band" in changes:
        # What it has used was used in the one it was in.
        charge.catch_up_on_ended(now=now)
    Job.objects.filter(pk=job.pk).update(**columns)
    Event.objects.create(
        at=now, job=job, kind="changed", detail=detail, changes=changes, actor=actor
    )
    live.changed("jobs", f"job-{job.pk}")
    hints.schedule()


def _changed(spec: JobSpec, changes: Changes) -> JobSpec:
    before = to_dict(spec)
    if any(before[name] != was for name, (was, _) in changes.items()):
        raise Outdated("asks for something else by now")
    return from_dict(before | {name: becomes for name, (_, becomes) in changes.items()})


def _columns(job: Job, spec: JobSpec, changes: Changes) -> dict[str, Any]:
    return {
        "spec": job.spec | {name: becomes for name, (_, becomes) in changes.items()},
        "walltime_s": spec.walltime_s,
        "node_count": spec.resources.nodes,
        "gpus_per_node": spec.resources.gpus_per_node,
    }


def _places(job: Job, spec: JobSpec, changes: Changes, now: datetime) -> dict[str, Any]:
    """Where it goes; what others make room for is where it was."""
    if changes.keys().isdisjoint({"partition", "band"}):
        return {}
    partition, band, grounds = partitions.named(spec.partition), spec.band, Grounds()
    if not (partition and band and sooner.is_taken(job, spec, partition, band, now, grounds)):
        raise Outdated("would not be taken in there by now")
    return {"partition": partition, "band": band, "claimed_at": None}
