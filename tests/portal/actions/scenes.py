"""Jobs that wait, each with one change that would start it sooner, and that change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from jobs.lifecycle import State
from portal.actions.update import update
from portal.models import Attempt, Job, Node, Partition, Project, Quota, User
from portal.queries import sooner
from portal.queries.sooner import Found
from tests.portal import cast
from tests.portal.cast import NOW

HOUR = timedelta(hours=1)
LONG_AGO = NOW - timedelta(days=5)


def asking(owner: User, project: Project, **spec: Any) -> Job:
    """It waits for five days already. `spec` is as it is stored; columns follow from it."""
    resources = {"gpus_per_node": 1} | spec.pop("resources", {})
    columns = {name: spec.pop(name) for name in ("array_id", "array_index") if name in spec}
    stored = {"name": "mine", "resources": resources, "walltime_s": 3600} | spec
    return cast.job(
        owner, project, name="mine", gpus=resources["gpus_per_node"], spec=stored,
        walltime_s=stored["walltime_s"], node_count=resources.get("nodes", 1),
        submitted_at=LONG_AGO, **columns,
    )  # fmt: skip


def begun(owner: User, project: Project, node: Node, *gpus: int, **more: Any) -> Job:
    job = cast.job(owner, project, state=State.RUNNING, gpus=len(gpus), **more)
    cast.run(job, node, *gpus)
    return job


def looked_for(job: Job) -> Found:
    found = sooner.found(job, NOW)
    assert found is not None
    return found


def changed(job: Job, found: Found) -> None:
    update(
        job=job, changes=found.changes, detail=found.advice.change, actor=job.owner, now=NOW
    )  # fmt: skip


def fewer_gpus(alice: User, project: Project, node: Node) -> Job:
    begun(alice, project, node, 0, 1)
    return asking(alice, project, resources={"gpus_per_node": 4})


def less_time(alice: User, project: Project, node: Node) -> Job:
    begun(alice, project, node, 0, 1, 2)
    cast.job(alice, project, gpus=4, band="production")
    return asking(alice, project, walltime_s=28_800)


def fewer_nodes(alice: User, project: Project, node: Node) -> Job:
    begun(alice, project, cast.node("gpu-2"), 0)
    return asking(alice, project, resources={"gpus_per_node": 4, "nodes": 2})


def not_alone(alice: User, project: Project, node: Node) -> Job:
    begun(alice, project, node, 0)
    return asking(alice, project, resources={"exclusive": True})


def no_feature(alice: User, project: Project, node: Node) -> Job:
    return asking(alice, project, resources={"features": ["infiniband"]})


def elsewhere(alice: User, project: Project, node: Node) -> Job:
    cast.node("old-1", partition=Partition.objects.create(name="old"))
    begun(alice, project, node, 0, 1, 2, 3)
    return asking(alice, project)


def where_its_own_name_went(alice: User, project: Project, node: Node) -> Job:
    begun(alice, project, node, 0, 1, 2, 3)
    job = asking(alice, project, partition="gpu")
    Partition.objects.filter(name="gpu").update(name="old")
    cast.node("gpu-2", partition=Partition.objects.create(name="gpu"))
    return Job.objects.get(pk=job.pk)


def best_effort(alice: User, project: Project, node: Node) -> Job:
    Quota.objects.create(project=project, gpus=0)
    return asking(alice, project)


def no_limit(alice: User, project: Project, node: Node) -> Job:
    first = begun(alice, project, node, 0, array_index=1)
    Job.objects.filter(pk=first.pk).update(array_id=first.pk)
    array = {"indices": [2], "limit": 1}
    return asking(alice, project, array=array, array_id=first.pk, array_index=2)


def not_after(alice: User, project: Project, node: Node) -> Job:
    first = begun(alice, project, node, 0)
    job = asking(alice, project, dependencies=[{"kind": "afterok", "job_id": first.pk}])
    Job.objects.filter(pk=job.pk).update(eligible_at=None, waited_before_s=60.0)
    return job


def not_after_what_failed(alice: User, project: Project, node: Node) -> Job:
    runs = begun(alice, project, node, 0, name="other", started_at=NOW, walltime_s=5400)
    failed = cast.job(alice, project, state=State.FAILED)
    kinds = [("afterany", runs), ("afterok", failed)]
    waits = [{"kind": kind, "job_id": other.pk} for kind, other in kinds]
    job = asking(alice, project, dependencies=waits)
    Job.objects.filter(pk=job.pk).update(eligible_at=None)
    return job


def at_once(alice: User, project: Project, node: Node) -> Job:
    job = asking(alice, project, begin_at=(NOW + HOUR).isoformat())
    Job.objects.filter(pk=job.pk).update(eligible_at=None)
    return job


def no_deadline(alice: User, project: Project, node: Node) -> Job:
    begun(alice, project, node, 0, 1, 2, 3, started_at=NOW, walltime_s=5400)
    return asking(alice, project, walltime_s=600, deadline_at=(NOW + HOUR / 4).isoformat())


def remembered(owner: User, project: Project) -> None:
    """The more GPUs, the longer: with fewer it is expected to run otherwise, too."""
    for gpus in (1, 2, 3):
        past = cast.job(owner, project, state=State.COMPLETED, name="mine", gpus=gpus)
        began = NOW - 9 * HOUR
        Attempt.objects.create(
            job=past, number=1, started_at=began, ended_at=began + gpus * HOUR / 4,
            outcome=State.COMPLETED,
        )  # fmt: skip


Scene = Callable[[User, Project, Node], Job]
SCENES: list[tuple[Scene, str]] = [
    (fewer_gpus, "With 2 GPUs in place of 4."),
    (less_time, "With a time limit of 50 min in place of 8 h."),
    (fewer_nodes, "On 1 node in place of 2."),
    (not_alone, "Without asking for whole nodes."),
    (no_feature, "Without infiniband."),
    (elsewhere, "In partition old."),
    (where_its_own_name_went, "In partition gpu."),
    (best_effort, "In band best-effort, where others may take its place."),
    (no_limit, "Outside its array's limit of 1 task at once."),
    (not_after, "Without waiting for job {}."),
    (not_after_what_failed, "Without waiting for job {}."),
    (at_once, "Without its begin time."),
    (no_deadline, "Without its deadline."),
]
