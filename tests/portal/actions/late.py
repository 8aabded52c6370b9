"""Jobs whose launch comes late: all workers were away after the pass that chose them."""

from __future__ import annotations

from datetime import datetime, timedelta

from portal.actions import dispatch, schedule
from portal.models import Allocation, Job, Node, Reservation
from tests.portal.actions.conftest import Lab

HOUR = timedelta(hours=1)
EDGE = HOUR + timedelta(seconds=90)
"""Half a minute more than a job of an hour needs before a reservation."""
AWAY = timedelta(minutes=10)
Phase = Allocation.Phase


def reserved(node: Node, at: datetime) -> Reservation:
    row = Reservation.objects.create(name="disks", starts_at=at, ends_at=at + HOUR)
    row.nodes.set([node])
    return row


def planned(lab: Lab, now: datetime, directive: str = "", **asked: str) -> Job:
    """An hour long, and chosen by a pass."""
    asked = {"gpus_per_node": "1", "walltime": "1:00:00"} | asked
    script = '#!/bin/bash\n{}\necho "restart $SLURM_RESTART_COUNT"; sleep 600\n'
    job = lab.submit(script.format(directive), **asked)
    assert schedule.schedule(now=now) == 1
    return job


def before_maintenance(lab: Lab, now: datetime) -> tuple[Node, Job]:
    """A job that would be in time if it began now, and the node that it was chosen for."""
    node = lab.node("n1")
    reserved(node, now + EDGE)
    return node, planned(lab, now)


def chosen_again(maintenance: Reservation, now: datetime) -> None:
    """By a pass for which the maintenance was put off."""
    Reservation.objects.update(starts_at=now + 2 * HOUR, ends_at=now + 3 * HOUR)
    assert schedule.schedule(now=now) == 1
    Reservation.objects.update(starts_at=maintenance.starts_at)


def sent(node: Node, now: datetime) -> bool:
    dispatch.dispatch(node_id=node.pk, now=now)
    return Allocation.objects.filter(node=node, phase=Phase.RUNNING).exists()
