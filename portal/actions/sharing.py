"""Divide a node's GPUs among several jobs, where an admin allows it."""

from __future__ import annotations

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from jobs.scheduler.words import jobs_named
from portal import hints, live
from portal.actions import passes
from portal.actions.changes import applied
from portal.models import Event, Gpu, Lease, Node, User


@transaction.atomic
def share(*, gpu: Gpu, shards: int, how: str, actor: User | None, now: datetime) -> bool:
    """Divide it into so many equal parts, 0 for none; `how` is one of `Node.Sharing` and holds for
    all GPUs of its node. False where nothing changes.

    Raises `ValidationError`, by field: also while it is leased, since the leases of a GPU have to
    be of parts of one size to keep out of each other's way.
    """
    # A pass under way leases what it has seen.
    passes.wait()
    gpu.refresh_from_db(from_queryset=Gpu.objects.select_for_update())
    node = Node.objects.select_for_update().get(pk=gpu.node_id)
    if shards and how not in Node.Sharing:
        raise ValidationError({"sharing": f"Say how: {' or '.join(Node.Sharing)}."})
    if gpu.mig_mode and shards:
        raise ValidationError({"shards": f"{gpu} is divided into MIG instances already."})
    changes = applied(gpu, {"shards": shards})
    if changes:
        _check_free(gpu)
    gpu.save(update_fields=["shards"])
    shared = node.gpus.filter(shards__gt=0).exists()
    by_node = applied(node, {"sharing": how if shared else ""})
    if not changes and not by_node:
        return False
    node.save(update_fields=["sharing"])
    Event.objects.create(
        at=now, node=node, kind="GPU divided", actor=actor, detail=str(gpu),
        changes=changes | by_node,
    )  # fmt: skip
    live.changed("nodes", f"node-{node.pk}")
    hints.schedule()
    return True


def _check_free(gpu: Gpu) -> None:
    leases = Lease.objects.filter(gpu=gpu, released_at=None).order_by("pk")
    held = leases.select_related("allocation__attempt__job")
    labels = list(dict.fromkeys(lease.allocation.attempt.job.label for lease in held))
    if labels:
        why = (
            f"{gpu} is in use by {jobs_named(labels)}; drain {gpu.node}, and wait until it is free."
        )
        raise ValidationError({"shards": why})
