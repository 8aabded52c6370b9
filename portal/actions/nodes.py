"""Nodes: add, probe, drain, resume, remove; and what a look at one says of its health."""

from __future__ import annotations

from contextlib import closing, suppress
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import DataError, transaction

from jobs.nodes.probe import GpuFacts, NodeFacts
from jobs.nodes.probe import probe as ask
from jobs.nodes.ssh import HostKey, generate_key, load_key, public_key_line, scan_host_key
from jobs.nodes.transport import CommandFailed, NodeError
from jobs.scheduler.words import jobs_named
from portal import hints, live, reach
from portal.actions import contact, partitions, passes
from portal.models import Event, Finding, Gpu, Node, Partition, User
from portal.queries.partitions import PRACTICE


class NodeBusy(Exception):
    """The node still has work; `message` says which."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def public_key() -> str:
    """Carrel's own public key, one line for a node's `authorized_keys`."""
    _ensure_key()
    return public_key_line(load_key(settings.SSH_KEY))


def _ensure_key() -> None:
    """Make the portal's key on first use; who comes second finds the first one's."""
    if not settings.SSH_KEY.exists():
        with suppress(FileExistsError):
            generate_key(settings.SSH_KEY)


def scan(*, host: str, port: int, jump: list[dict[str, Any]]) -> HostKey:
    """The key a host shows, for a person to confirm. Raises `NodeError`."""
    _ensure_key()
    return scan_host_key(host, port, jump=reach.hops(jump), key=load_key(settings.SSH_KEY))


def add(
    *,
    name: str,
    actor: User | None,
    now: datetime,
    host: str = "",
    port: int = 22,
    login: str = "",
    host_key: str = "",
    jump: list[dict[str, Any]] | None = None,
    partition: Partition | None = None,
    transport: str = Node.Transport.SSH,
    spool: str = "",
    checkpoint_root: str = "",
    simulated: bool = False,
) -> Node:
    """Make a machine a node, with its host key pinned, and probe it.

    The node stays, with its `problem`, when the probe fails. Raises `ValidationError`, by field,
    for a name that is taken or malformed, and for a real one in the practice lab's partition.
    """
    if partition and not simulated and partition.name == PRACTICE:
        raise ValidationError({"partition": f"{PRACTICE} is the practice lab's; choose another."})
    _ensure_key()
    node = Node(
        name=name, host=host, port=port, login=login, host_key=host_key, jump=jump or [],
        partition=partition or partitions.usual_for_nodes(), transport=transport,
        simulated=simulated, spool=spool or f"~/.carrel/{name}", health_since=now,
        checkpoint_root=checkpoint_root or Node._meta.get_field("checkpoint_root").default,
    )  # fmt: skip
    node.clean_fields(exclude={f.name for f in Node._meta.fields} - _GIVEN)
    node.validate_constraints()
    with transaction.atomic():
        node.save()
        partitions.follow_nodes(actor=actor, now=now)
        Event.objects.create(at=now, node=node, kind="added", actor=actor, detail=_way(node))
        live.changed("nodes")
    return probe(node=node, actor=actor, now=now)


_GIVEN = {"name", "host", "port", "login", "host_key", "jump", "transport", "spool"}


def _way(node: Node) -> str:
    if node.transport == Node.Transport.LOCAL:
        return "this machine"
    return f"{node.login}@{node.host}:{node.port}"


def probe(*, node: Node, actor: User | None, now: datetime) -> Node:
    """Find out what the node is and has; what went wrong stands in its `problem`."""
    _ensure_key()
    try:
        with closing(reach.transport(node)) as transport:
            facts = ask(transport, node.spool)
        _learn(node, facts, actor, now)
    except (NodeError, DataError, OverflowError) as problem:
        error = _as_node_error(problem)
        known = node.health == Node.Health.UNREACHABLE and actor is None
        contact.unreachable(node=node, error=error, now=now)
        if not known:
            Event.objects.create(
                at=now, node=node, kind="probe failed", actor=actor, detail=error.message
            )
    node.refresh_from_db()
    return node


def _as_node_error(problem: Exception) -> NodeError:
    """Figures and words that no column takes are a node's fault, too."""
    if isinstance(problem, NodeError):
        return problem
    return CommandFailed(f"What the node tells of itself cannot be written down: {problem}")


def probe_if_due(*, node_id: int, now: datetime) -> bool:
    """Probe a node that never was, or was restarted since; whether there was reason to."""
    node = Node.objects.filter(pk=node_id, probed_at=None).first()
    if node is None:
        return False
    probe(node=node, actor=None, now=now)
    return True


@transaction.atomic
def _learn(node: Node, facts: NodeFacts, actor: User | None, now: datetime) -> None:
    # A pass under way leases GPUs that are not there any more.
    passes.wait()
    # Else one that has just been added is probed twice, by its author's process and a worker.
    first = Node.objects.filter(pk=node.pk, probed_at=node.probed_at).update(
        hostname=facts.hostname,
        os=facts.os,
        python=facts.python,
        driver=facts.driver or "",
        cpus=facts.cpus,
        memory_mib=facts.memory_mib or 0,
        topology=facts.topology or "",
        notes=list(facts.problems),
        boot_id=facts.boot_id,
        probed_at=now,
        seen_at=now,
        health=Node.Health.UP,
        health_since=node.health_since if node.health == Node.Health.UP else now,
        problem="",
        missed=0,
    )
    if not first:
        return
    taken = _on_other_nodes(node, facts)
    for gpu in facts.gpus:
        if gpu.uuid not in taken:
            _keep(node, gpu)
    for uuid, owner in taken.items():
        detail = f"{uuid} is on {owner}, which is up; probe that again if the card was moved."
        Event.objects.create(at=now, node=node, kind="claims a GPU", detail=detail)
    gone = node.gpus.exclude(uuid__in=[gpu.uuid for gpu in facts.gpus])
    gone.update(present=False)
    Event.objects.create(
        at=now, node=node, kind="probed", actor=actor,
        detail=f"{len(facts.gpus)} GPUs, {facts.cpus} CPUs, {facts.memory_mib} MiB",
    )  # fmt: skip
    live.changed("nodes", f"node-{node.pk}")
    hints.schedule()


def _on_other_nodes(node: Node, facts: NodeFacts) -> dict[str, str]:
    """GPUs it tells of that others have, by UUID: a broken or hostile node gets none of theirs."""
    theirs = Gpu.objects.filter(
        uuid__in=[gpu.uuid for gpu in facts.gpus], present=True,
        node__health=Node.Health.UP, node__removed_at=None,
    )  # fmt: skip
    return dict(theirs.exclude(node=node).values_list("uuid", "node__name"))


def _keep(node: Node, gpu: GpuFacts) -> None:
    """A GPU is known by its UUID, also after it was moved to another machine."""
    facts = {
        "node": node,
        "present": True,
        "index": gpu.index,
        "model": gpu.model or "unknown model",
        "memory_mib": gpu.memory_mib or 0,
        "pci_bus_id": gpu.pci_bus_id or "",
        "mig_mode": bool(gpu.mig_mode),
        "domain": gpu.domain,
    }
    Gpu.objects.update_or_create(uuid=gpu.uuid, defaults=facts)


def drain(*, node: Node, reason: str, actor: User | None, now: datetime) -> bool:
    """Let no further job start here; what runs goes on. False when it was drained already.

    One that is drained for what was found on it stays drained when that is over."""
    return _drain(node, True, reason, actor, now)


def resume(*, node: Node, actor: User | None, now: datetime) -> bool:
    """Let jobs start here again; False when it was not drained."""
    return _drain(node, False, "", actor, now)


@transaction.atomic
def _drain(node: Node, drained: bool, reason: str, actor: User | None, now: datetime) -> bool:
    if drained:
        # A pass that saw it free may be about to start jobs on it.
        passes.wait()
    done = Node.objects.filter(pk=node.pk, drained=not drained).update(drained=drained)
    # From here on it is as somebody has said, not as findings would have it.
    taken_over = Finding.objects.filter(node=node, drained=True).update(drained=False)
    if not done and not (drained and taken_over):
        return False
    Node.objects.filter(pk=node.pk).update(drain_reason=reason)
    node.refresh_from_db()
    Event.objects.create(
        at=now, node=node, kind="drained" if drained else "resumed", actor=actor, detail=reason
    )
    live.changed("nodes", f"node-{node.pk}")
    hints.schedule()
    return True


@transaction.atomic
def remove(*, node: Node, actor: User | None, now: datetime) -> None:
    """Take a node without work out of the lab; past jobs still name it.

    Nothing happens when somebody else has just removed it. Raises `NodeBusy` while jobs hold part
    of it.
    """
    # A pass that still saw it there would place a job on it.
    passes.wait()
    found = Node.objects.select_for_update().filter(pk=node.pk).first()
    if found is None:
        return
    node = found
    busy = node.allocations.filter(attempt__ended_at=None).values_list("attempt__job_id", flat=True)
    if busy:
        advice = "Drain it, wait for them or cancel them, then remove it."
        if node.health == Node.Health.UNREACHABLE:
            advice = (
                "It does not answer, so nobody knows whether they still run. If the machine is "
                f"off, say so on its page or by `manage.py nodes off {node.name}`: that ends them."
            )
        named = jobs_named([str(pk) for pk in sorted(set(busy))])
        raise NodeBusy(f"{node.name} still runs {named}. {advice}")
    Node.objects.filter(pk=node.pk).update(removed_at=now)
    node.gpus.update(present=False)
    partitions.follow_nodes(actor=actor, now=now)
    Event.objects.create(at=now, node=node, kind="removed", actor=actor, detail=_way(node))
    live.changed("nodes")
    transaction.on_commit(lambda: reach.forget(node.pk))
