"""Findings: opened, told of, acted upon, and over."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from jobs.nodes.kinds import Does, kind
from jobs.nodes.signs import Sign
from jobs.scheduler.words import sentence
from portal import hints, live
from portal.actions import nodes, passes
from portal.models import Event, Finding, Gpu, Node, User

LONGEST_REASON = 200


def open_of(node: Node) -> QuerySet[Finding]:
    """Those of the node, and of the GPUs that are in it now, which are not over."""
    here = Q(gpu=None, node=node) | Q(gpu__node=node)
    return Finding.objects.filter(here, cleared_at=None)


def takes_out(sign: Sign) -> bool:
    """Whether jobs are to be kept away for it."""
    return kind(sign.kind).does is not Does.TELL


def open_(*, node: Node, gpu: Gpu | None, sign: Sign, since: datetime, now: datetime) -> Finding:
    """Write down what was found and do what its kind asks for. Jobs that run are left alone.

    To be called in a transaction, and for what is not open yet.
    """
    means = kind(sign.kind)
    if takes_out(sign):
        # A pass under way may be about to start jobs there.
        passes.wait()
    found = Finding.objects.create(
        node=node, gpu=gpu, kind=sign.kind, severity=means.severity, does=means.does,
        text=sign.text, since=since, seen_at=now,
    )  # fmt: skip
    told = _told(found)
    Event.objects.create(at=now, node=node, kind="finding", detail=told)
    if gpu is not None and means.hits_jobs:
        _tell_jobs(gpu, f"{node}, {told} {means.advice}", now)
    if means.does is Does.DRAIN_NODE:
        _drain(found, now)
    if gpu is not None:
        _serve_or_not(gpu)
    live.changed("nodes", f"node-{node.pk}")
    return found


@transaction.atomic
def clear(*, finding: Finding, actor: User | None, now: datetime) -> bool:
    """It is over, says `actor`, or by itself where that is None: what was done for its sake alone
    is undone. False when it was over already."""
    # Before its findings, as whoever drains it does.
    Node.all_objects.select_for_update(no_key=True).get(pk=finding.node_id)
    row = Finding.objects.select_for_update(of=("self",)).filter(pk=finding.pk, cleared_at=None)
    found = row.select_related("node", "gpu").first()
    if found is None:
        return False
    drained, node = found.drained, found.node
    row.update(cleared_at=now, cleared_by=actor, drained=False)
    verb = "finding cleared" if actor else "finding over"
    Event.objects.create(at=now, node=node, kind=verb, actor=actor, detail=_told(found))
    if drained:
        _undrain(node, actor, now)
    if found.gpu is not None:
        _serve_or_not(found.gpu)
    live.changed("nodes", f"node-{node.pk}")
    return True


def _told(found: Finding) -> str:
    where = f"GPU {found.gpu.index}: " if found.gpu else ""
    return f"{where}{sentence(found.meaning.title)} {found.text}".strip()


def _tell_jobs(gpu: Gpu, words: str, now: datetime) -> None:
    held = gpu.leases.filter(released_at=None).order_by()
    jobs = set(held.values_list("allocation__attempt__job_id", flat=True))
    Event.objects.bulk_create(
        Event(at=now, job_id=pk, kind="GPU trouble", detail=words) for pk in sorted(jobs)
    )
    live.changed(*(f"job-{pk}" for pk in sorted(jobs)))


def _reason(found: Finding) -> str:
    return found.meaning.title[:LONGEST_REASON]


def _drain(found: Finding, now: datetime) -> None:
    """Whom a person has drained stays so whatever becomes of findings."""
    node = Node.objects.select_for_update(no_key=True).get(pk=found.node_id)
    for_findings = node.findings.filter(cleared_at=None, drained=True).exists()
    if node.drained and not for_findings:
        return
    if not node.drained:
        nodes.drain(node=node, reason=_reason(found), actor=None, now=now)
    found.drained = True
    found.save(update_fields=["drained"])


def _undrain(node: Node, actor: User | None, now: datetime) -> None:
    others = node.findings.filter(cleared_at=None, drained=True).order_by("pk")
    left = others.first()
    if left is None:
        nodes.resume(node=node, actor=actor, now=now)
    else:
        Node.objects.filter(pk=node.pk).update(drain_reason=_reason(left))


def _serve_or_not(gpu: Gpu) -> None:
    out = gpu.findings.filter(cleared_at=None, does=Does.DRAIN_GPU).exists()
    if Gpu.objects.filter(pk=gpu.pk, out_of_service=not out).update(out_of_service=out):
        hints.schedule()
