"""What was sent before, and would end too late by now, is not begun any more, and says why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from jobs.engines.contract import Launch, Launched
from jobs.engines.ssh import ShepherdEngine
from jobs.events import Observation
from jobs.nodes.transport import ConnectionLost
from portal.actions import dispatch, observe, settle
from portal.models import Allocation, Job, Node
from tests.portal.actions.conftest import Lab
from tests.portal.actions.late import (
    AWAY,
    EDGE,
    Phase,
    before_maintenance,
    chosen_again,
    planned,
    reserved,
    sent,
)

SEND = ShepherdEngine.launch


def cut(self: ShepherdEngine, launches: Sequence[Launch]) -> list[Launched]:
    raise ConnectionLost("The connection broke.")


def resent_late(lab: Lab, node: Node, job: Job, now: datetime) -> None:
    """Its first launch did not arrive, as nobody here could tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShepherdEngine, "launch", cut)
        assert not sent(node, now)
    assert not sent(node, now + AWAY)
    observe.observe(node_id=node.pk, now=now + AWAY)
    assert lab.fresh(job).state == "PENDING"


def test_what_is_resent_late_says_why(lab: Lab, now: datetime) -> None:
    node, job = before_maintenance(lab, now)
    resent_late(lab, node, job, now)
    assert lab.fresh(job).detail == (
        "Its launch was delayed: it could no longer end before n1 is reserved for disks."
    )
    assert (job.eligible_at, job.attempts.get().detail) == (now, job.detail)


def test_what_is_resent_while_its_node_is_asked_says_why(
    lab: Lab, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, job = before_maintenance(lab, now)
    monkeypatch.setattr(ShepherdEngine, "launch", cut)
    assert not sent(node, now)
    monkeypatch.undo()
    ask = ShepherdEngine.observe

    def slowly(self: ShepherdEngine, keys: Sequence[str], **wanted: bool) -> Observation:
        assert not sent(node, now + AWAY)
        return ask(self, keys, **wanted)

    monkeypatch.setattr(ShepherdEngine, "observe", slowly)
    observe.observe(node_id=node.pk, now=now + AWAY)
    assert (lab.fresh(job).state, job.detail[:23]) == ("PENDING", "Its launch was delayed:")


def test_what_is_resent_late_is_no_failed_launch(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    maintenance = reserved(node, now + EDGE)
    job = planned(lab, now)
    for _ in range(settle.MAX_LAUNCH_TRIES):
        resent_late(lab, node, job, now)
        chosen_again(maintenance, now)
    assert lab.fresh(job).state == "CONFIGURING"
    # And with one that failed it does not make several.
    assert node.allocations.filter(phase=Phase.PLANNED).update(phase=Phase.VOID, tries=1) == 1
    settle.settle(attempt=job.attempts.get(ended_at=None), now=now)
    assert (lab.fresh(job).state, job.held) == ("PENDING", False)


def test_what_was_kept_waiting_after_it_was_claimed_is_not_begun(
    lab: Lab, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, job = before_maintenance(lab, now)
    claim = dispatch._claim

    def slowly(node: Node, at: datetime) -> list[Allocation]:
        claimed = claim(node, at)
        monkeypatch.setattr(dispatch.Clock, "now", now + AWAY)
        return claimed

    monkeypatch.setattr(dispatch, "_claim", slowly)
    assert not sent(node, now)
    monkeypatch.undo()
    observe.observe(node_id=node.pk, now=now + AWAY)
    assert (lab.fresh(job).state, job.detail[:23]) == ("PENDING", "Its launch was delayed:")


@pytest.mark.parametrize("arrived", [False, True])
def test_what_may_have_begun_is_not_begun_late(
    lab: Lab, now: datetime, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    node = lab.node("n1")

    def cut_off(self: ShepherdEngine, launches: Sequence[Launch]) -> list[Launched]:
        if arrived:
            SEND(self, launches)
        return cut(self, launches)

    maintenance = reserved(node, now + EDGE)
    job = planned(lab, now)
    monkeypatch.setattr(ShepherdEngine, "launch", cut_off)
    assert not sent(node, now)
    monkeypatch.undo()
    assert sent(node, now + AWAY) is arrived
    assert bool(Allocation.objects.get().message) is not arrived
    observe.observe(node_id=node.pk, now=now + AWAY)
    assert lab.fresh(job).state == ("RUNNING" if arrived else "PENDING")
    maintenance.delete()
    lab.running(job)
    assert job.attempts.count() == (1 if arrived else 2)
