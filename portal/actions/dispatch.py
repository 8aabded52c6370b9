"""Push what is wanted to a node: start what was decided, end what is to end."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from jobs.engines.contract import Grant, Stop
from jobs.events import Cause
from jobs.nodes.transport import (
    HostKeyChanged,
    LoginRefused,
    NodeError,
    NoPython,
    NoRoute,
    Refused,
)
from portal import reach
from portal.actions import contact, leases, nodes, occupied
from portal.actions.cases import lock
from portal.actions.clock import Clock
from portal.actions.launches import READ, launches_of
from portal.actions.settle import settle, settle_locked
from portal.models import Allocation, Attempt, Node, update_each
from portal.queries.sendings import ALLOWED, too_late

Phase, Fence = Allocation.Phase, Allocation.Fence
RESEND_AFTER = timedelta(seconds=10)
"""A launch or a stop that brought no answer is sent again; both may be repeated."""
MAX_BATCH = 100
STOPS = (
    "key", "stop_signal", "stop_grace_s", "attempt__preempted_by",
    "attempt__job__cancelled_by__username", "attempt__job__cancelled_by__first_name",
    "attempt__job__cancelled_by__last_name",
)  # fmt: skip
SENT_ONCE = Q(phase=Phase.LAUNCHING, tries=1)
"""Of others an earlier sending may still arrive."""
NEVER_REACHED = (NoRoute, Refused, LoginRefused, HostKeyChanged, NoPython)
"""These say for certain that nothing we sent was carried out."""

log = logging.getLogger(__name__)


def dispatch(*, node_id: int, now: datetime) -> None:
    """Launch and stop on one node: claim, act outside any transaction, apply."""
    node = Node.objects.to_ask(node_id)
    if node is None:
        return
    clock = Clock(now)
    _send_stops(node, now)
    # A node may take long to answer, and launches are counted from when they are sent.
    _send_launches(node, clock)


def _send_launches(node: Node, clock: Clock) -> None:
    _take_back(node, clock.now)
    claimed = _claim(node, clock.now)
    if node.guards_gpus and (whys := occupied.in_the_way(claimed, node, clock.now)):
        _withdraw(whys, SENT_ONCE, clock.now)
        claimed = [part for part in claimed if part not in whys]
    if not claimed:
        return
    now = clock.now
    try:
        lease = _lease(node, claimed)
        now = clock.now
        launches = launches_of(claimed, node, now=now, late=_late(claimed, now))
        answers = reach.engine(node).launch(launches, lease=lease)
    except NEVER_REACHED as error:
        # Out of reach at once, or the next pass would choose it again, and again.
        contact.missed(node=node, error=error, now=now, at_once=True)
        why = f"{node.name} could not be reached: {error.message}"
        _withdraw(dict.fromkeys(claimed, why), SENT_ONCE, now)
        return
    except NodeError as error:
        # It may have started all the same: it stays LAUNCHING and is sent again.
        contact.missed(node=node, error=error, now=now)
        return
    told = {answer.key: answer for answer in answers}
    _apply([part for part in claimed if told[part.key].accepted], clock.now)
    refused = {
        part: f"{node.name} could not take it in: {told[part.key].message}."
        for part in claimed
        if told[part.key].refused
    }
    if refused:
        # Left as it is, its emptiness would draw in one job after the other.
        why = f"launches fail here: {told[next(iter(refused)).key].message}"
        nodes.drain(node=node, reason=why[:200], actor=None, now=now)
        _withdraw(refused, SENT_ONCE, clock.now)


def _lease(node: Node, claimed: list[Allocation]) -> Grant | None:
    """What the launches come with. A node that does not tell its clock can fence nothing in.

    Raises `NodeError`, before anything was sent.
    """
    found = leases.grant(node)
    if found is None and any(part.fence == Fence.UP for part in claimed):
        found = leases.first(node)
    if found is None:
        for part in claimed:
            if part.fence == Fence.UP:
                part.fence = Fence.LATER
        unfenced = Allocation.objects.filter(pk__in=[part.pk for part in claimed])
        unfenced.filter(fence=Fence.UP).update(fence=Fence.LATER)
    return found


def _take_back(node: Node, now: datetime) -> None:
    """Give back what no worker was there to send, where by now it would end too late."""
    planned = node.allocations.filter(phase=Phase.PLANNED, attempt__ended_at=None)
    if late := too_late(planned, now):
        _withdraw(late, Q(phase=Phase.PLANNED), now)


def _late(claimed: list[Allocation], now: datetime) -> frozenset[str]:
    """The keys of those that would end too late if they began only now: sent before, or claimed
    in time and kept waiting since. Each is noted why."""
    overdue = [part.pk for part in claimed if part.attempt.started_at < now - ALLOWED]
    late = too_late(Allocation.objects.filter(pk__in=overdue), now) if overdue else {}
    if late:
        # Before they are sent: whoever hears that one has not begun is to know that we forbade it.
        with transaction.atomic():
            lock(part.attempt.job_id for part in late)
            update_each(
                Allocation.objects.filter(phase=Phase.LAUNCHING),
                {part.pk: {"message": why} for part, why in late.items()},
            )
    return frozenset(part.key for part in late)


def _claim(node: Node, now: datetime) -> list[Allocation]:
    """Take on what nobody else has or is about to take."""
    waiting = Q(phase=Phase.PLANNED) | Q(
        phase=Phase.LAUNCHING, sent_at__lt=now - RESEND_AFTER, stop_wanted_at=None
    )
    found = node.allocations.filter(waiting, attempt__ended_at=None).order_by("pk")
    with transaction.atomic():
        # Passing over what is locked, this never waits for a transaction that waits for it.
        claimed = list(
            found.select_for_update(of=("self",), skip_locked=True)
            .select_related(
                "attempt__job__owner", "attempt__job__project", "attempt__job__partition"
            )
            .only("attempt__started_at", *READ)[:MAX_BATCH]
        )
        Allocation.objects.filter(pk__in=[part.pk for part in claimed]).update(
            phase=Phase.LAUNCHING, sent_at=now, tries=F("tries") + 1
        )
    return claimed


def _withdraw(whys: dict[Allocation, str], unsent: Q, now: datetime) -> None:
    """Nothing was started: give back those that are `unsent` still."""
    with transaction.atomic():
        jobs = lock(part.attempt.job_id for part in whys)
        update_each(
            Allocation.objects.filter(unsent),
            {
                part.pk: {"phase": Phase.VOID, "ended_at": now, "message": why}
                for part, why in whys.items()
            },
        )
        settle_locked(jobs=jobs, now=now)


def _apply(accepted: list[Allocation], now: datetime) -> None:
    with transaction.atomic():
        jobs = lock(part.attempt.job_id for part in accepted)
        Allocation.objects.filter(
            pk__in=[part.pk for part in accepted], phase=Phase.LAUNCHING
        ).update(phase=Phase.RUNNING, message="")
        settle_locked(jobs=jobs, now=now)


def _send_stops(node: Node, now: datetime) -> None:
    unsent = Q(stop_sent_at=None) | Q(stop_sent_at__lt=now - RESEND_AFTER)
    running = Q(phase__in=(Phase.LAUNCHING, Phase.RUNNING))
    # Given up as lost; should its node come back after all, it must not run on there.
    lost = Q(phase=Phase.ENDED, cause__in=(Cause.LOST, Cause.FENCED), stop_sent_at=None)
    wanted = node.allocations.filter(unsent, running | lost, stop_wanted_at__isnull=False)
    rows = wanted.order_by("pk").select_related("attempt__job__cancelled_by")
    parts = list(rows.only(*STOPS)[:MAX_BATCH])
    if not parts:
        return
    try:
        reach.engine(node).stop([_stop(part) for part in parts])
    except NodeError as error:
        contact.missed(node=node, error=error, now=now)
        return
    Allocation.objects.filter(pk__in=[part.pk for part in parts]).update(stop_sent_at=now)


def _stop(part: Allocation) -> Stop:
    why = _why_stopped(part.attempt)
    if part.stop_signal is None or part.stop_grace_s is None:
        return Stop(part.key, why=why)
    return Stop(part.key, part.stop_signal, part.stop_grace_s, why)


def _why_stopped(attempt: Attempt) -> str:
    if attempt.job.cancelled_by:
        return f"cancelled by {attempt.job.cancelled_by}"
    return f"makes room for {attempt.preempted_by}" if attempt.preempted_by else ""


def resettle(*, now: datetime) -> None:
    """Move on jobs whose allocations have all ended while a worker was killed in between."""
    stuck = Attempt.objects.filter(ended_at=None).exclude(allocations__phase__in=Allocation.OPEN)
    for attempt in stuck[:MAX_BATCH]:
        try:
            settle(attempt=attempt, now=now)
        except Exception:
            # One that cannot be settled must not keep all others from it.
            log.exception("%s cannot be settled", attempt)
