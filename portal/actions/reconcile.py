"""Find what is behind and push it on: whatever hint was lost, whoever was killed.

Bounded per pass and without memory: it only reads the database and gives hints.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q

from jobs.events import Cause
from jobs.lifecycle import State
from portal import broker, hints
from portal.actions import charge, checkup, dispatch, logs, preempt, quarantine, what_if
from portal.models import Allocation, Job, Node

Phase = Allocation.Phase
BUSY_EVERY = timedelta(seconds=5)
IDLE_EVERY = timedelta(seconds=10)
AWAY_EVERY = timedelta(seconds=15)
"""How often a node with work, without, and one that does not answer is looked at."""


def reconcile(*, now: datetime) -> None:
    """One round. Two at once do no harm; the flag only saves the work."""
    if not broker.first("reconcile", 1.0):
        return
    dispatch.resettle(now=now)
    # What a node out of reach was told before is repeated when it answers again; what it was
    # never told is tried, so that it can be taken back.
    behind = Q(phase=Phase.PLANNED) | Q(
        Q(phase=Phase.LAUNCHING) | Q(stop_wanted_at__isnull=False),
        phase__in=(Phase.LAUNCHING, Phase.RUNNING),
        node__health=Node.Health.UP,
    )
    # Given up as lost when its node was out of reach or declared off, which answers all the same.
    returned = Q(
        phase=Phase.ENDED, stop_wanted_at__isnull=False, stop_sent_at=None,
        cause__in=(Cause.LOST, Cause.FENCED), node__health=Node.Health.UP, node__removed_at=None,
    )  # fmt: skip
    unsent = Allocation.objects.filter(behind & Q(attempt__ended_at=None) | returned)
    for node_id in unsent.values_list("node_id", flat=True).distinct():
        hints.dispatch(node_id)
    preempt.drop_claims(now=now)
    if Job.objects.filter(state=State.PENDING).exists():
        hints.schedule()
    charge.charge(now=now)
    what_if.sweep(now=now)
    _look(now)
    quarantine.sweep(now=now)
    for node_id in checkup.due(now):
        hints.health(node_id)
    waiting = logs.homeless(now).order_by().values_list("node_id", flat=True)
    for node_id in waiting.distinct():
        hints.keep_logs(node_id)


def _look(now: datetime) -> None:
    working = Allocation.objects.filter(
        node=OuterRef("pk"), phase__in=(Phase.LAUNCHING, Phase.RUNNING)
    )
    up = Q(health=Node.Health.UP)
    due = (
        Q(tried_at=None)
        | up & Q(busy=True, tried_at__lte=now - BUSY_EVERY)
        | up & Q(tried_at__lte=now - IDLE_EVERY)
        | Q(tried_at__lte=now - AWAY_EVERY)
    )
    nodes = Node.objects.annotate(busy=Exists(working)).filter(due)
    for node_id in nodes.order_by(F("tried_at").asc(nulls_first=True)).values_list("pk", flat=True):
        hints.look(node_id)
