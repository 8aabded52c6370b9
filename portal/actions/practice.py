"""The practice lab: bring its nodes in on the first start, take them away again."""

from __future__ import annotations

import contextlib
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from jobs.lifecycle import State
from jobs.practice import machines as lab
from portal.actions import nodes, setup
from portal.actions.cancel import cancel
from portal.actions.submit import read, submit
from portal.models import Allocation, Job, Node, Partition, User
from portal.queries.partitions import PRACTICE

LEAVING = "the practice lab is being removed"


def ensure(*, now: datetime) -> list[Node]:
    """Make the practice machines nodes, probed now or as soon as their server answers."""
    partition, _ = Partition.objects.get_or_create(name=PRACTICE)
    found = []
    lab.authorize(settings.PRACTICE_DIR, nodes.public_key())
    checkpoints = lab.shared(settings.PRACTICE_DIR) / "checkpoints"
    for machine in lab.describe(settings.PRACTICE_DIR):
        node = Node.objects.filter(name=machine.name, simulated=True).first()
        if node is None:
            node = nodes.add(
                name=machine.name, host=machine.host, port=machine.port, login=machine.user,
                host_key=machine.host_key, spool=machine.spool, partition=partition,
                checkpoint_root=str(checkpoints), simulated=True, actor=None, now=now,
            )  # fmt: skip
        elif (node.port, node.host_key) != (machine.port, machine.host_key):
            Node.objects.filter(pk=node.pk).update(port=machine.port, host_key=machine.host_key)
        if node.probed_at is None:
            # Its server is only starting: look again at once, not as at one that went away.
            Node.objects.filter(pk=node.pk).update(tried_at=None)
        found.append(node)
    return found


def first_job(*, now: datetime) -> None:
    """Submit the sample job, once ever, as soon as a practice node has told of its GPUs."""
    ready = Node.objects.filter(simulated=True, health=Node.Health.UP, gpus__present=True)
    if Job.objects.exists() or not ready.exists():
        return
    owner = setup.first_admin()
    project = setup.first_project(owner)
    script = lab.sample_script(settings.PRACTICE_DIR)
    request = read(owner=owner, script=script, overrides={"project": project.name}, now=now)
    submit(
        owner=owner, spec=request.spec, project=request.project, partition=request.partition,
        key="practice-sample", now=now,
    )  # fmt: skip


def remove(*, actor: User, now: datetime) -> None:
    """Take the practice lab away: no new jobs there, its jobs are cancelled, its nodes go."""
    for node in Node.objects.filter(simulated=True):
        nodes.drain(node=node, reason=LEAVING, actor=actor, now=now)
    for job in jobs_there():
        cancel(job=job, actor=actor, now=now)
    finish_removal(now=now)


def jobs_there() -> list[Job]:
    """Those that hold a practice node, and those that wait for nothing else."""
    simulated = Node.objects.filter(simulated=True)
    parts = Allocation.objects.filter(node__in=simulated, attempt__ended_at=None)
    real = Partition.objects.filter(nodes__simulated=False)
    waits = Q(state=State.PENDING, partition__nodes__in=simulated) & ~Q(partition__in=real)
    found = Job.objects.filter(Q(attempts__allocations__in=parts) | waits)
    return list(found.select_related("owner").distinct().order_by("pk"))


def finish_removal(*, now: datetime) -> None:
    """Let the drained practice nodes go whose last job has ended, and then the lab itself."""
    leaving = Node.objects.filter(simulated=True, drained=True, drain_reason=LEAVING)
    for node in leaving:
        if not node.allocations.filter(attempt__ended_at=None).exists():
            # Somebody may have resumed it at this very moment, and a pass placed a job there.
            with contextlib.suppress(nodes.NodeBusy):
                nodes.remove(node=node, actor=None, now=now)
    if leaving and not Node.objects.filter(simulated=True).exists():
        lab.remove(settings.PRACTICE_DIR)


def want() -> None:
    """Ask for the practice lab again after it was removed; it comes with the next start."""
    lab.restore(settings.PRACTICE_DIR)
