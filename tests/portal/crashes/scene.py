"""A cluster in which one round of work does all that a scheduling pass can do.

A gang of production needs the GPUs of two best-effort jobs, one of them a gang itself; parts of a
GPU, another gang, an array with a limit, a project with a quota of one GPU, a node that is about
to be maintained, a deadline that cannot be met and jobs that wait for something of their own.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from jobs.bands import Band
from jobs.lifecycle import State
from portal import tasks
from portal.actions import charge, settle
from portal.models import Allocation, Gpu, Job, Lease, Node, Project, Quota, Reservation, User
from tests.portal import cast

Phase = Allocation.Phase
HOUR = timedelta(hours=1)
SHARES = 4


def make(now: datetime) -> None:
    """What ran before `now` was charged until an hour ago."""
    vision = Project.objects.create(name="vision")
    small = Project.objects.create(name="small", parent=vision)
    alice, bob = cast.person("alice", vision), cast.person("bob", small)
    Quota.objects.create(project=small, gpus=1)
    first, second, third, fourth = (cast.node(f"n{number}") for number in (1, 2, 3, 4))
    Gpu.objects.filter(node=third, index=0).update(shards=SHARES)
    Node.objects.filter(pk=third.pk).update(sharing=Node.Sharing.TIME_SLICING)
    window = {"starts_at": now + 10 * HOUR, "ends_at": now + 12 * HOUR}
    Reservation.objects.create(name="new-disks", **window).nodes.add(fourth)

    gang = _runs(alice, vision, "gives-way-gang", [(first, 0, 1), (second, 0, 1)], now)
    _runs(alice, vision, "gives-way", [(first, 2, 3)], now)
    _runs(alice, vision, "stays", [(third, 1, 2)], now, band=Band.BATCH)

    large = {"nodes": 2, "gpus_per_node": 3}
    _waits(alice, vision, "takes", now, large, hours=12, band=Band.PRODUCTION)
    for shards in (1, 3, 2):
        _waits(alice, vision, f"parts-{shards}", now, {"shards": shards})
    _waits(alice, vision, "gang", now, {"nodes": 2, "gpus_per_node": 1})
    there = {"gpus_per_node": 1, "only_nodes": ["n4"]}
    _waits(alice, vision, "beyond-window", now, there, hours=12)
    for number in (1, 2):
        _waits(bob, small, f"small-{number}", now, {"gpus_per_node": 1})
    _array(alice, vision, now)
    soon = (now + HOUR / 2).isoformat()
    _waits(alice, vision, "too-late", now, {"gpus_per_node": 1}, spec={"deadline_at": soon})
    _waits(alice, vision, "held", now, {"gpus_per_node": 1}, held=True)
    after = [{"kind": "afterok", "job_id": gang.pk}]
    _waits(alice, vision, "after", now, {"gpus_per_node": 1}, spec={"dependencies": after})


def _runs(
    owner: User,
    project: Project,
    name: str,
    places: list[tuple[Node, int, int]],
    now: datetime,
    band: Band = Band.BEST_EFFORT,
) -> Job:
    request = {"nodes": len(places), "gpus_per_node": 2}
    job = _waits(owner, project, name, now, request, hours=24, band=band)
    Job.objects.filter(pk=job.pk).update(
        state=State.RUNNING, started_at=now - 3 * HOUR, eligible_at=None
    )
    attempt = job.attempts.create(number=1, started_at=now - 3 * HOUR)
    for rank, (node, *indices) in enumerate(places):
        part = attempt.allocations.create(
            node=node, rank=rank, key=f"j{job.pk}.a1.n{rank}.0", cpus=1, memory_mib=1024,
            phase=Phase.RUNNING, started_at=now - 3 * HOUR, charged_until=now - HOUR,
        )  # fmt: skip
        for gpu in node.gpus.filter(index__in=indices):
            Lease.objects.create(gpu=gpu, allocation=part)
    return job


def _waits(
    owner: User,
    project: Project,
    name: str,
    now: datetime,
    resources: dict[str, object],
    *,
    hours: int = 1,
    spec: dict[str, object] | None = None,
    **columns: object,
) -> Job:
    kept_back = bool(spec) or columns.get("held")
    return cast.job(
        owner, project, name=name, gpus=int(str(resources.get("gpus_per_node", 0))),
        walltime_s=hours * 3600, submitted_at=now - HOUR,
        **{
            "spec": {"name": name, "resources": resources, **(spec or {})},
            "node_count": resources.get("nodes", 1),
            "eligible_at": None if kept_back else now - HOUR,
            **columns,
        },
    )  # fmt: skip


def _array(owner: User, project: Project, now: datetime) -> None:
    array = {"indices": [1, 2, 3], "limit": 1}
    tasks = [
        _waits(owner, project, f"task-{index}", now, {}, spec={"array": array}, array_index=index)
        for index in array["indices"]  # type: ignore[attr-defined]
    ]
    Job.objects.filter(pk__in=[task.pk for task in tasks]).update(array_id=tasks[0].pk)


def work() -> None:
    """All that workers do in a round; each pass is delivered twice."""
    tasks.schedule()
    tasks.schedule()
    for node_id in Node.objects.order_by("pk").values_list("pk", flat=True):
        _look(node_id)
    charge.charge(now=timezone.now())
    tasks.schedule()
    tasks.schedule()


def _look(node_id: int) -> None:
    """What a look at a node whose runs do as they are told would write down."""
    now = timezone.now()
    begins = Allocation.objects.filter(node=node_id, phase=Phase.PLANNED)
    leaves = Allocation.objects.filter(
        node=node_id, phase=Phase.RUNNING, stop_wanted_at__isnull=False
    )
    # A look tells of what there was when it began; another worker may add to that meanwhile.
    seen = dict((begins | leaves).order_by().values_list("pk", "attempt__job"))
    with transaction.atomic():
        jobs = settle.lock(seen.values())
        begins.filter(pk__in=seen).update(phase=Phase.RUNNING, started_at=now)
        leaves.filter(pk__in=seen).update(
            phase=Phase.ENDED, ended_at=now, cause="stopped", signal=15
        )
        settle.settle_locked(jobs=jobs, now=now)
