"""A small cast for the tests: people, a project, nodes with GPUs, jobs in any state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from jobs.lifecycle import ENDED, State
from portal.models import (
    Allocation,
    Attempt,
    Gpu,
    Job,
    Lease,
    Membership,
    Node,
    Partition,
    Project,
    Script,
    User,
)

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1gSwMMix/QTZ2zr558UowskONGowUcZN3RNWOco9L4"
_numbers = count(1)


def person(name: str, *projects: Project, staff: bool = False) -> User:
    user = User.objects.create_user(name, password=f"{name}'s own password", is_staff=staff)
    for project in projects:
        Membership.objects.create(user=user, project=project)
    return user


def node(
    name: str, *, gpus: int = 4, partition: Partition | None = None, **columns: object
) -> Node:
    """A node that is up, with its GPUs."""
    if partition is None:
        partition, _ = Partition.objects.get_or_create(name="gpu", defaults={"is_default": True})
    facts = {
        "host": "192.0.2.7", "login": "carrel", "host_key": HOST_KEY,
        "health": Node.Health.UP, "health_since": NOW, "seen_at": NOW, "probed_at": NOW,
        "cpus": 32, "memory_mib": 256 * 1024,
    }  # fmt: skip
    made = Node.objects.create(name=name, partition=partition, **facts | columns)
    for index in range(gpus):
        Gpu.objects.create(
            node=made,
            uuid=f"GPU-{made.pk:08x}-0000-0000-0000-{index:012x}",
            index=index,
            model="NVIDIA A100-SXM4-80GB",
            memory_mib=81_920,
            sampled_at=NOW,
            memory_used_mib=0,
            utilization_pct=0,
            temperature_c=31,
            power_w=52.5,
        )
    return made


def job(
    owner: User,
    project: Project,
    *,
    state: State = State.PENDING,
    gpus: int = 1,
    name: str = "train",
    **columns: object,
) -> Job:
    """A row in any state; `run` gives it an allocation and leases."""
    partition, _ = Partition.objects.get_or_create(name="gpu", defaults={"is_default": True})
    script, _ = Script.objects.get_or_create(
        digest="0" * 64, defaults={"text": "#!/bin/bash\necho hello\n"}
    )
    times: dict[str, object] = {"submitted_at": NOW - timedelta(minutes=10)}
    if state == State.PENDING and not columns.get("held"):
        times["eligible_at"] = columns.get("submitted_at", times["submitted_at"])
    if state != State.PENDING:
        times["started_at"] = NOW - timedelta(minutes=5)
    if state in ENDED:
        times["ended_at"] = NOW
    usual: dict[str, object] = {
        "owner": owner, "project": project, "partition": partition, "name": name, "script": script,
        "spec": {"name": name, "resources": {"gpus_per_node": gpus}}, "node_count": 1,
        "gpus_per_node": gpus, "walltime_s": 3600, "state": state,
    }  # fmt: skip
    return Job.objects.create(**usual | times | columns)


def array(owner: User, project: Project, *states: State, **columns: object) -> list[Job]:
    """Tasks 1 to the number of states."""
    head = job(owner, project, state=states[0], array_index=1, **columns)
    head.array_id = head.pk
    head.save()
    rest = [
        job(owner, project, state=state, array_id=head.pk, array_index=index, **columns)
        for index, state in enumerate(states[1:], 2)
    ]
    return [head, *rest]


def run(job: Job, node: Node, *indices: int) -> Allocation:
    """Put the job on these GPUs of the node: an attempt, an allocation and open leases."""
    number = job.attempts.count() + 1
    attempt = Attempt.objects.create(job=job, number=number, started_at=NOW)
    allocation = Allocation.objects.create(
        attempt=attempt,
        node=node,
        rank=0,
        key=f"j{job.pk}.a{number}.n0.{next(_numbers):08x}",
        cpus=4,
        memory_mib=16 * 1024,
        phase=Allocation.Phase.RUNNING,
        started_at=NOW - timedelta(minutes=5),
        charged_until=NOW,
    )
    for gpu in node.gpus.filter(index__in=indices):
        for share in gpu.shares:
            Lease.objects.create(gpu=gpu, share=share, of=len(gpu.shares), allocation=allocation)
    return allocation
