"""Start no job on a GPU that a process of no job uses, where an administrator wants it so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from jobs.nodes.signs import Sign
from portal.actions import findings, passes
from portal.models import Allocation, Gpu, Lease, Node
from portal.queries import health_signs


def in_the_way(parts: Sequence[Allocation], node: Node, now: datetime) -> dict[Allocation, str]:
    """Those of these parts, which are about to be launched for the first time, that have such a
    GPU, and whose process it is. The GPU gets no further jobs until that is gone."""
    new = Allocation.objects.filter(pk__in=[part.pk for part in parts], tries=1)
    leases = Lease.objects.filter(allocation__in=new, released_at=None).select_related("gpu")
    held = {(lease.allocation_id, lease.gpu) for lease in leases}
    gpus = {gpu.uuid: gpu for _, gpu in held}
    signs = {sign.gpu: sign for sign in health_signs.occupied(gpus.values(), node, now)}
    for uuid, sign in signs.items():
        _keep_free(node, gpus[uuid], sign, now)
    taken = {pk: gpu for pk, gpu in held if gpu.uuid in signs}
    return {
        part: f"On {node.name} GPU {taken[part.pk].index} is not free. "
        f"{signs[taken[part.pk].uuid].text}"
        for part in parts
        if part.pk in taken
    }


@transaction.atomic
def _keep_free(node: Node, gpu: Gpu, sign: Sign, now: datetime) -> None:
    passes.wait()
    Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    if not findings.open_of(node).filter(gpu=gpu, kind=sign.kind).exists():
        findings.open_(node=node, gpu=gpu, sign=sign, since=now, now=now)
