"""What is shown as set holds for all that starts from then on: a pass under way, which has seen
what there was before, is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.nodes.probe import NodeFacts
from portal.actions import nodes, partitions, policy, projects, quotas, schedule
from portal.actions.preview import preview
from portal.actions.update import Outdated, update
from portal.models import Allocation, Job, Node, Partition, Project, User
from tests.portal import cast
from tests.portal.together import during_the_pass, needs_postgresql

pytestmark = needs_postgresql

BY: dict[str, Any] = {"actor": None, "now": cast.NOW}
WITHOUT_GPUS = NodeFacts("gpu-1", "3.11", 32, 2**18, "Linux", "6", "carrel", "/home/carrel", "b")


def _move() -> bool:
    above = projects.create(name="lab", **BY)
    return projects.move(project=Project.objects.get(name="vision"), parent=above, **BY)


CHANGES: dict[str, Callable[[], object]] = {
    "drain": lambda: nodes.drain(node=Node.objects.get(), reason="new disks", **BY),
    "probe": lambda: nodes._learn(Node.objects.get(), WITHOUT_GPUS, None, cast.NOW),
    "quota": lambda: quotas.set_quota(project=Project.objects.get(), limits={"gpus": 0}, **BY),
    "tree": _move,
    "name": lambda: partitions.rename(partition=Partition.objects.get(), name="a100", **BY),
    "lending": lambda: projects.set_lending(project=Project.objects.get(), lends=True, **BY),
    "lending at the top": lambda: projects.set_lending_at_the_top(lends=True, **BY),
    "policy": lambda: policy.set_policy(grace_s=5.0, **BY),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_waits_for_a_pass_under_way(
    transactional_db: None, alice: User, project: Project, node: Node,
    monkeypatch: pytest.MonkeyPatch, what: str,
) -> None:  # fmt: skip
    cast.job(alice, project)

    def started_when_it_was_done() -> int:
        assert CHANGES[what]() is not False
        return Allocation.objects.count()

    others = during_the_pass(monkeypatch, started_when_it_was_done)
    assert schedule.schedule(now=cast.NOW) == 1
    assert others[0].outcome() == 1


def test_a_preview_tells_nothing_of_what_a_pass_under_way_starts(
    transactional_db: None, alice: User, project: Project, node: Node,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cast.job(alice, project)
    others = during_the_pass(
        monkeypatch,
        lambda: preview(lambda: policy.set_policy(grace_s=5.0, **BY), now=cast.NOW),
    )
    assert schedule.schedule(now=cast.NOW) == 1
    found = others[0].outcome()
    assert [event.kind for event in found.events] == ["policy set"]
    assert not found.planned.any


def test_a_job_that_a_pass_under_way_starts_is_not_changed(
    transactional_db: None, alice: User, project: Project, node: Node,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    job = cast.job(alice, project)
    shorter = {"walltime_s": [3600, 600]}
    others = during_the_pass(
        monkeypatch, lambda: update(job=job, changes=shorter, detail="With less time.", **BY)
    )
    assert schedule.schedule(now=cast.NOW) == 1
    assert isinstance(others[0].outcome(), Outdated)
    assert Job.objects.get().walltime_s == 3600
