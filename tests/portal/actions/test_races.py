"""Transactions that meet on PostgreSQL, where they do not exclude each other as on SQLite.

These run where `DATABASE_URL` names a PostgreSQL server: `.ci/postgres pytest tests/portal`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from jobs.lifecycle import State
from jobs.scheduler.plan import Decision
from jobs.scheduler.usage import Charge as Cost
from jobs.scheduler.usage import Decay, Usage, usage_of
from portal.actions import (
    accounting,
    balances,
    cancel,
    charge,
    dispatch,
    hold,
    nodes,
    projects,
    reasons,
    schedule,
)
from portal.models import Accounting, Allocation, Attempt, Job, Node, Project, UsageBalance, User
from portal.queries import snapshot
from tests.portal import cast
from tests.portal.actions.conftest import Lab
from tests.portal.together import Other, during_the_pass, needs_postgresql

pytestmark = needs_postgresql


def test_a_job_cancelled_during_a_pass_keeps_its_last_word(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.node("n1", gpus=1)
    first = lab.submit("sleep 600", gpus_per_node="1")
    schedule.schedule(now=timezone.now())
    second = lab.submit("true", gpus_per_node="1")
    (other,) = [
        during_the_pass(
            monkeypatch,
            lambda: cancel.cancel(
                job=Job.objects.get(pk=second.pk), actor=lab.owner, now=timezone.now()
            ),
        )
    ]
    schedule.schedule(now=timezone.now())
    assert other[0].outcome() is True
    assert lab.fresh(second).state == "CANCELLED"
    assert (second.reason, second.detail.split()[0]) == ("CancelledByUser", "Cancelled")
    assert lab.fresh(first).state == "CONFIGURING"


def test_an_array_and_a_pass_do_not_wait_for_each_other(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass has locked the second task, which it starts, and goes on to the others."""
    lab.node("n1", gpus=1)
    head = lab.submit("true", array="1-3", gpus_per_node="1")
    Job.objects.filter(pk=head.pk).update(held=True)
    grow, others = schedule.age.grow, list[Other]()

    def cancel_all() -> cancel.Cancelled:
        return cancel.cancel_array(array_id=head.pk, actor=lab.owner, now=timezone.now())

    def meet(*given: Any) -> None:
        others.append(Other(cancel_all).until_it_waits())
        grow(*given)

    monkeypatch.setattr(schedule.age, "grow", meet)
    assert schedule.schedule(now=timezone.now()) == 1
    assert others[0].outcome() == (2, 1)


def test_a_pass_and_the_reasons_of_another_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch, transactional_db: None, alice: User, project: Project
) -> None:
    """The pass has locked the second job, which it starts, and goes on to the first one."""
    node = cast.node("gpu-1")
    first = cast.job(alice, project, gpus=3)
    second = cast.job(alice, project, gpus=2, submitted_at=cast.NOW - timedelta(days=6))
    Job.objects.filter(pk=first.pk).update(eligible_at=None)
    Node.objects.update(drained=True)
    told = Decision(snapshot.take(cast.NOW), cast.NOW).explained()
    Node.objects.filter(pk=node.pk).update(drained=False)
    grow, others = schedule.age.grow, list[Other]()

    def meet(*given: Any) -> None:
        others.append(Other(lambda: reasons.write(told, now=cast.NOW)).until_it_waits())
        grow(*given)

    monkeypatch.setattr(schedule.age, "grow", meet)
    assert schedule.schedule(now=cast.NOW + timedelta(seconds=1), explain=False) == 1
    assert others[0].outcome() == 1
    states = dict(Job.objects.values_list("pk", "state"))
    assert states == {first.pk: "PENDING", second.pk: "CONFIGURING"}


def test_two_changes_of_how_the_lab_charges_are_both_kept(transactional_db: None) -> None:
    Accounting.objects.create()
    with transaction.atomic():
        accounting.set_terms(actor=None, now=cast.NOW, gpu_weight=2.0)
        other = Other(
            lambda: projects.set_lending_at_the_top(lends=True, actor=None, now=cast.NOW)
        ).until_it_waits()
    assert other.outcome() is True
    row = Accounting.objects.get()
    assert (row.gpu_weight, row.lends) == (2.0, True)


def test_what_is_charged_while_the_half_life_changes_fades_as_all_does(
    monkeypatch: pytest.MonkeyPatch, alice: User, project: Project, transactional_db: None
) -> None:
    cast.run(cast.job(alice, project, state=State.RUNNING), cast.node("gpu-1"), 0)
    now, half_life_s = cast.NOW + timedelta(days=7), 86_400.0
    add, others = balances.add, list[Other]()

    def meet(*given: Any) -> None:
        if not others:
            others.append(Other(change).until_it_waits())
        add(*given)

    def change() -> bool:
        return accounting.set_terms(half_life_s=half_life_s, actor=None, now=now)

    monkeypatch.setattr(balances, "add", meet)
    charge.charge(now=now)
    assert others[0].outcome() is True
    decay = Decay(half_life_s)
    spent = usage_of(Cost(1 + 4 * 0.02, cast.NOW, now), decay)
    row = UsageBalance.objects.get()
    found = Usage(row.value, row.at).seen(now, decay).value
    assert found == pytest.approx(spent.value)


def test_what_a_pass_starts_is_not_held(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.node("n1", gpus=1)
    head = lab.submit("true", array="1-3", gpus_per_node="1")
    others = during_the_pass(
        monkeypatch,
        lambda: hold.hold_array(array_id=head.pk, actor=lab.owner, now=timezone.now()),
    )
    assert schedule.schedule(now=timezone.now()) == 1
    assert others[0].outcome() == 2
    found = Job.objects.order_by("pk").values_list("state", "held")
    assert list(found) == [("CONFIGURING", False), ("PENDING", True), ("PENDING", True)]


def test_a_node_is_not_removed_under_a_pass_that_uses_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("n1")
    job = lab.submit("true")
    others = during_the_pass(
        monkeypatch, lambda: nodes.remove(node=node, actor=lab.owner, now=timezone.now())
    )
    assert schedule.schedule(now=timezone.now()) == 1
    assert isinstance(others[0].outcome(), nodes.NodeBusy)
    monkeypatch.undo()
    assert Node.objects.filter(pk=node.pk).exists()
    lab.end(job)


def test_a_cancellation_that_comes_with_the_end_is_too_late(lab: Lab) -> None:
    node = lab.node("n1")
    job = lab.submit("true")
    schedule.schedule(now=timezone.now())
    now = timezone.now()
    with transaction.atomic():
        locked = Job.objects.select_for_update().get(pk=job.pk)
        other = Other(
            lambda: cancel.cancel(job=Job.objects.get(pk=job.pk), actor=lab.owner, now=now)
        ).until_it_waits()
        Attempt.objects.filter(job=job).update(ended_at=now)
        node.allocations.update(phase="ended", cause="exited", exit_code=0, ended_at=now)
        locked.move(State.COMPLETED, now=now, exit_code=0, ended_at=now)
    assert other.outcome() is False
    assert lab.fresh(job).cancelled_at is None


def test_a_claim_passes_over_what_another_transaction_changes(lab: Lab) -> None:
    node = lab.node("n1")
    for _ in range(2):
        lab.submit("sleep 600")
    schedule.schedule(now=timezone.now())
    with transaction.atomic():
        held = Allocation.objects.select_for_update().order_by("pk").first()
        claimed = Other(lambda: dispatch._claim(node, timezone.now())).outcome()
    assert held is not None
    assert held.pk not in [part.pk for part in claimed]
    assert len(claimed) == 1


def test_a_part_claimed_just_now_is_told_to_stop(lab: Lab) -> None:
    """The cancellation has read it as never sent when a worker takes it on."""
    node = lab.node("n1")
    proof = lab.directory / "proof"
    job = lab.submit(f"sleep 2; touch {proof}")
    schedule.schedule(now=timezone.now())
    with transaction.atomic():
        claimed = dispatch._claim(node, timezone.now())
        other = Other(
            lambda: cancel.cancel(
                job=Job.objects.get(pk=job.pk), actor=lab.owner, now=timezone.now()
            )
        ).until_it_waits()
    assert other.outcome() is True
    assert len(claimed) == 1
    assert Allocation.objects.get().stop_wanted_at is not None
    lab.end(job)
    assert job.state == "CANCELLED"
    assert not proof.exists()
