"""The database itself refuses to lease a part of a GPU twice, however it is divided."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from jobs.lifecycle import State
from portal.models import Gpu, Lease, Node, Project, User
from tests.portal import cast


@pytest.fixture
def shared(node: Node) -> Gpu:
    """Divided into four."""
    Gpu.objects.filter(node=node).update(shards=4)
    return Gpu.objects.get(node=node, index=0)


def _refused(gpu: Gpu, share: int, allocation: object) -> bool:
    try:
        with transaction.atomic():
            Lease.objects.create(gpu=gpu, share=share, of=4, allocation=allocation)
    except IntegrityError:
        return True
    return False


def test_nobody_comes_beside_who_holds_the_whole(
    shared: Gpu, node: Node, alice: User, project: Project
) -> None:
    whole = cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    assert (whole.leases.count(), whole.gpus) == (4, [shared])
    other = cast.run(cast.job(alice, project, state=State.RUNNING), node)
    assert all(_refused(shared, share, other) for share in shared.shares)
    Lease.objects.filter(allocation=whole).update(released_at=cast.NOW)
    assert not any(_refused(shared, share, other) for share in shared.shares)


def test_the_whole_is_not_held_beside_who_holds_a_part(
    shared: Gpu, node: Node, alice: User, project: Project
) -> None:
    part = cast.run(cast.job(alice, project, state=State.RUNNING), node)
    Lease.objects.create(gpu=shared, share=2, of=4, allocation=part)
    with pytest.raises(IntegrityError), transaction.atomic():
        cast.run(cast.job(alice, project, state=State.RUNNING), node, 0)
    beside = cast.run(cast.job(alice, project, state=State.RUNNING), node)
    assert [_refused(shared, share, beside) for share in shared.shares] == [
        False, False, True, False,
    ]  # fmt: skip
