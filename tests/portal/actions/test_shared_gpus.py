"""Jobs side by side on one GPU, each told its part of it, on real processes."""

from __future__ import annotations

import pytest
from django.utils import timezone

from portal.actions import observe, sharing
from portal.models import Lease, Node
from tests.portal.actions.conftest import Lab

SAY = "echo $CUDA_VISIBLE_DEVICES $CARREL_GPU_SHARE; env | grep -c ^CUDA_MPS_; true"


def divided(lab: Lab, how: str) -> Node:
    """A node with one GPU in four parts."""
    node = lab.node("n1", gpus=1)
    for gpu in node.gpus.all():
        sharing.share(gpu=gpu, shards=4, how=how, actor=lab.owner, now=timezone.now())
    return node


@pytest.mark.parametrize(("how", "limits"), [("time-slicing", "0"), ("mps", "2")])
def test_each_has_its_own_part_of_one_gpu(lab: Lab, how: str, limits: str) -> None:
    uuid = divided(lab, how).gpus.get().uuid
    gate = lab.directory / "gate"
    wait = f"{SAY}; while [ ! -e {gate} ]; do sleep 0.05; done"
    jobs = [lab.submit(wait, shards=shards) for shards in ("1", "3")]
    lab.running(*jobs)
    whole = lab.submit(SAY, gpus_per_node="1")
    lab.step()
    assert sorted(Lease.objects.filter(released_at=None).values_list("share", flat=True)) == [
        0, 1, 2, 3,
    ]  # fmt: skip
    assert lab.fresh(whole).state == "PENDING"
    gate.touch()
    lab.end(*jobs, whole)
    assert [lab.log(job).split() for job in (*jobs, whole)] == [
        [uuid, "1/4", limits],
        [uuid, "3/4", limits],
        [uuid, "0"],
    ]


def test_a_node_without_the_service_says_so(lab: Lab) -> None:
    node = divided(lab, "mps")
    observe.observe(node_id=node.pk, now=timezone.now(), system=True)
    node.refresh_from_db()
    assert any("nvidia-cuda-mps-control -d starts it" in note for note in node.notes)
