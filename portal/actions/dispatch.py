"""Push what is wanted to a node: start what was decided, end what is to end."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from jobs.engines.contract import Launched, Stop
from jobs.nodes.transport import (
    HostKeyChanged,
    LoginRefused,
    NodeError,
    NoPython,
    NoRoute,
    Refused,
)
from portal import reach
from portal.actions import nodes
from portal.actions.launches import launches_of
from portal.actions.settle import settle
from portal.models import Allocation, Attempt, Job, Node

Phase = Allocation.Phase
RESEND_AFTER = timedelta(seconds=10)
"""A launch or a stop that brought no answer is sent again; both may be repeated."""
MAX_BATCH = 100
NEVER_REACHED = (NoRoute, Refused, LoginRefused, HostKeyChanged, NoPython)
"""These say for certain that nothing we sent was carried out."""

log = logging.getLogger(__name__)


def dispatch(*, node_id: int, now: datetime) -> None:
    """Launch and stop on one node: claim, act outside any transaction, apply."""
    node = Node.objects.filter(pk=node_id).first()
    if node is None:
        return
    _send_stops(node, now)
    _send_launches(node, now)


def _send_launches(node: Node, now: datetime) -> None:
    claimed = _claim(node, now)
    if not claimed:
        return
    try:
        answers = reach.engine(node).launch(launches_of(claimed, now=now))
    except NEVER_REACHED as error:
        nodes.missed(node=node, error=error, now=now)
        _withdraw([part for part in claimed if part.tries == 1], error, now)
        return
    except NodeError as error:
        # It may have started all the same: it stays LAUNCHING and is sent again.
        nodes.missed(node=node, error=error, now=now)
        return
    _apply(claimed, {answer.key: answer for answer in answers}, now)


def _claim(node: Node, now: datetime) -> list[Allocation]:
    """Take on what nobody else has; a claim is one conditional UPDATE per allocation."""
    waiting = Q(phase=Phase.PLANNED) | Q(
        phase=Phase.LAUNCHING, sent_at__lt=now - RESEND_AFTER, stop_wanted_at=None
    )
    found = node.allocations.filter(waiting, attempt__ended_at=None).order_by("pk")[:MAX_BATCH]
    claimed = []
    with transaction.atomic():
        for part in found.select_related("attempt__job__script", "attempt__job__owner", "node"):
            won = Allocation.objects.filter(
                pk=part.pk, phase=part.phase, sent_at=part.sent_at
            ).update(phase=Phase.LAUNCHING, sent_at=now, tries=F("tries") + 1)
            if won:
                part.phase, part.sent_at, part.tries = Phase.LAUNCHING, now, part.tries + 1
                claimed.append(part)
    return claimed


def _withdraw(parts: list[Allocation], error: NodeError, now: datetime) -> None:
    """Nothing was started: give back, unless an earlier sending may have arrived."""
    with transaction.atomic():
        _lock_jobs(parts)
        for part in parts:
            Allocation.objects.filter(pk=part.pk, phase=Phase.LAUNCHING, tries=1).update(
                phase=Phase.VOID,
                ended_at=now,
                message=f"{part.node.name} could not be reached: {error.message}.",
            )
        for attempt in {part.attempt for part in parts}:
            settle(attempt=attempt, now=now)


def _apply(claimed: list[Allocation], answers: dict[str, Launched], now: datetime) -> None:
    with transaction.atomic():
        _lock_jobs(claimed)
        for part in claimed:
            answer = answers.get(part.key)
            if answer and answer.accepted:
                Allocation.objects.filter(pk=part.pk, phase=Phase.LAUNCHING).update(
                    phase=Phase.RUNNING, started_at=now
                )
        for attempt in {part.attempt for part in claimed}:
            settle(attempt=attempt, now=now)


def _lock_jobs(parts: list[Allocation]) -> None:
    """In one order everywhere, so that no two transactions wait for each other."""
    ids = {part.attempt.job_id for part in parts}
    list(Job.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))


def _send_stops(node: Node, now: datetime) -> None:
    unsent = Q(stop_sent_at=None) | Q(stop_sent_at__lt=now - RESEND_AFTER)
    parts = list(
        node.allocations.filter(
            unsent, phase__in=(Phase.LAUNCHING, Phase.RUNNING), stop_wanted_at__isnull=False
        )[:MAX_BATCH]
    )
    if not parts:
        return
    try:
        reach.engine(node).stop([Stop(key=part.key) for part in parts])
    except NodeError as error:
        nodes.missed(node=node, error=error, now=now)
        return
    Allocation.objects.filter(pk__in=[part.pk for part in parts]).update(stop_sent_at=now)


def resettle(*, now: datetime) -> None:
    """Move on jobs whose allocations have all ended while a worker was killed in between."""
    stuck = Attempt.objects.filter(ended_at=None).exclude(allocations__phase__in=Allocation.OPEN)
    for attempt in stuck[:MAX_BATCH]:
        settle(attempt=attempt, now=now)
