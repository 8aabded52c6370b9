"""All workers were away after a pass: nobody is sent who would end too late by now."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from portal import hints
from portal.actions import charge, dispatch, schedule, settle
from portal.models import Allocation, Charge, Event, Lease, Node, Project, Reservation
from portal.queries import days
from tests.portal.actions.conftest import Lab
from tests.portal.actions.late import (
    AWAY,
    EDGE,
    HOUR,
    Phase,
    before_maintenance,
    chosen_again,
    planned,
    reserved,
    sent,
)


def runs(lab: Lab, node: Node) -> list[Path]:
    return list((lab.directory / node.name).glob("runs/*"))


def test_it_is_not_sent_into_maintenance(
    lab: Lab, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("n1")
    maintenance = reserved(node, now + EDGE)
    job = planned(lab, now)
    asked = list[object]()
    monkeypatch.setattr(hints, "schedule", lambda **_: asked.append(None))
    assert not sent(node, now + AWAY) and not runs(lab, node)
    assert asked, "others may use the room at once"
    assert (lab.fresh(job).state, job.held) == ("PENDING", False)
    assert not Lease.objects.filter(released_at=None).exists()
    assert Allocation.objects.get().phase == Phase.VOID
    told = Event.objects.filter(job=job, kind="state", new="PENDING").get()
    assert told.detail == (
        "Its launch was delayed: it could no longer end before n1 is reserved for disks."
    )
    assert schedule.schedule(now=now + AWAY) == 0
    maintenance.delete()
    lab.running(job)
    assert lab.log(job) == "restart 0\n"


@pytest.mark.parametrize(("seconds", "in_time"), [(20, True), (31, False)])
def test_the_time_for_its_launch_is_counted_already(
    lab: Lab, now: datetime, seconds: int, in_time: bool
) -> None:
    node = lab.node("n1")
    reserved(node, now + HOUR + timedelta(seconds=60))
    planned(lab, now)
    assert sent(node, now + timedelta(seconds=seconds)) is in_time


def test_it_is_sent_late_where_that_is_in_time(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    reserved(node, now + AWAY + EDGE)
    reserved_elsewhere = Reservation.objects.create(
        name="other disks", starts_at=now, ends_at=now + HOUR
    )
    reserved_elsewhere.nodes.set([lab.node("n2")])
    planned(lab, now)
    assert sent(node, now + AWAY)


def test_it_is_sent_late_into_what_is_reserved_for_it(
    lab: Lab, now: datetime, project: Project
) -> None:
    node = lab.node("n1")
    reserved(node, now + EDGE).projects.set([project])
    planned(lab, now)
    assert sent(node, now + AWAY)


def test_what_was_reserved_meanwhile_counts(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    job = planned(lab, now)
    reserved(node, now + AWAY)
    assert not sent(node, now + AWAY)
    assert lab.fresh(job).state == "PENDING"


def test_what_has_begun_already_is_told_so(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    job = planned(lab, now)
    reserved(node, now + AWAY / 2)
    assert not sent(node, now + AWAY)
    assert lab.fresh(job).detail == "Its launch was delayed: n1 is reserved for disks."


def test_it_is_not_sent_past_its_deadline(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    job = planned(lab, now, f"#SBATCH --deadline={timezone.localtime(now + EDGE):%FT%T}")
    assert not sent(node, now + AWAY)
    assert lab.fresh(job).detail == (
        "Its launch was delayed: it could no longer end before its deadline."
    )
    assert schedule.schedule(now=now + AWAY) == 0
    assert lab.fresh(job).state == "DEADLINE"


def test_none_of_a_gang_is_sent_where_one_would_end_too_late(lab: Lab, now: datetime) -> None:
    first, second = lab.node("n1"), lab.node("n2")
    reserved(second, now + EDGE)
    job = planned(lab, now, nodes="2")
    assert not sent(first, now + AWAY) and not runs(lab, first)
    assert (lab.fresh(job).state, Lease.objects.filter(released_at=None).count()) == ("PENDING", 0)


def test_of_a_gang_the_rest_is_ended(lab: Lab, now: datetime) -> None:
    first, second = lab.node("n1"), lab.node("n2")
    reserved(second, now + EDGE)
    job = planned(lab, now, nodes="2")
    assert sent(first, now)
    assert not sent(second, now + AWAY)
    assert lab.fresh(job).state == "COMPLETING"
    lab.drive(lambda: lab.fresh(job).state == "PENDING")
    assert not runs(lab, second)
    assert job.eligible_at == now, "as old as it was"


def test_it_has_the_place_in_the_queue_that_it_had(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    reserved(node, now + EDGE)
    chosen = now + timedelta(seconds=20)
    job = planned(lab, chosen)
    assert not sent(node, now + AWAY)
    waited = (chosen - job.submitted_at).total_seconds()
    assert (lab.fresh(job).eligible_at, job.waited_before_s) == (chosen, pytest.approx(waited))


def test_it_costs_nothing(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    reserved(node, now + EDGE)
    planned(lab, now)
    assert charge.charge(now=now + AWAY / 2) == 0
    assert not sent(node, now + AWAY)
    assert charge.charge(now=now + AWAY) == 1
    assert not Charge.objects.exists()
    assert Allocation.objects.get().charged


def test_what_is_sent_late_costs_from_the_pass_on(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    planned(lab, now)
    assert sent(node, now + AWAY)
    charge.charge(now=now + AWAY)
    held = [(row.starts_at, row.ends_at) for row in Charge.objects.order_by("starts_at")]
    assert held == list(days.split(now, now + AWAY))


def test_it_is_no_failed_launch(lab: Lab, now: datetime) -> None:
    node = lab.node("n1")
    maintenance = reserved(node, now + EDGE)
    job = planned(lab, now)
    for _ in range(settle.MAX_LAUNCH_TRIES):
        assert not sent(node, now + AWAY)
        chosen_again(maintenance, now)
    assert lab.fresh(job).state == "CONFIGURING"
    assert job.attempts.count() == 1 + settle.MAX_LAUNCH_TRIES


def test_what_another_worker_sends_meanwhile_is_not_taken_back(
    lab: Lab, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, job = before_maintenance(lab, now)
    too_late = dispatch.too_late

    def slowly(parts: QuerySet[Allocation], at: datetime) -> dict[Allocation, str]:
        found = too_late(parts, at)
        assert len(dispatch._claim(node, now)) == len(found) == 1
        return found

    monkeypatch.setattr(dispatch, "too_late", slowly)
    dispatch._take_back(node, now + AWAY)
    monkeypatch.undo()
    assert Allocation.objects.get().phase == Phase.LAUNCHING
    assert lab.fresh(job).state == "CONFIGURING"
    assert Lease.objects.filter(released_at=None).count() == 1
