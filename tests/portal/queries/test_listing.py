"""What `--json` prints of nodes and jobs."""

from __future__ import annotations

from jobs.lifecycle import State
from portal.models import Gpu, Job, Lease, Node, Project, User
from portal.queries import listing
from tests.portal import cast


def test_all_jobs_of_a_gpu_are_told_with_their_parts(
    alice: User, bob: User, project: Project, node: Node
) -> None:
    def runs(owner: User) -> Job:
        return cast.job(owner, project, state=State.RUNNING)

    whole, first, second = runs(alice), runs(alice), runs(bob)
    Gpu.objects.filter(node=node, index__gt=0).update(shards=4)
    cast.run(whole, node, 0, 1)
    one, other = cast.run(first, node), cast.run(second, node)
    divided = node.gpus.get(index=2)
    for share, part in enumerate((one, other, other)):
        Lease.objects.create(gpu=divided, share=share, of=4, allocation=part)
    (told,) = listing.nodes()
    assert [gpu["jobs"] for gpu in told["gpus"]] == [
        [{"id": whole.pk, "parts": 1, "of": 1}],
        [{"id": whole.pk, "parts": 4, "of": 4}],
        [{"id": first.pk, "parts": 1, "of": 4}, {"id": second.pk, "parts": 2, "of": 4}],
        [],
    ]
