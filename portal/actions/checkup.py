"""Look at a node's health once a minute, and write down what is found."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DataError, transaction
from django.db.models import F, Q

from jobs.nodes.health import HealthAsked, HealthSeen
from jobs.nodes.signs import ClockSeen, Found, Sign, clock_seen, signs
from jobs.nodes.transport import NodeError
from jobs.nodes.weigh import Key, Open, Weighed, weigh
from portal import live, reach
from portal.actions import findings, passes
from portal.actions.clock import Clock
from portal.models import Checkup, Finding, Node, update_each
from portal.queries import health_signs

EVERY = timedelta(minutes=1)
AT_ONCE = 10
"""Nodes of one round of the reconciler: a launch must not wait until all have been asked."""
LAST_STAMP = 2**62
"""In microseconds: no machine has been up for longer, whatever it says."""

log = logging.getLogger(__name__)


def due(now: datetime) -> list[int]:
    """Some nodes whose health should be looked at, those that waited longest first."""
    waited = Q(checkup=None) | Q(checkup__asked_at=None) | Q(checkup__asked_at__lte=now - EVERY)
    well = Node.objects.filter(waited, health=Node.Health.UP, probed_at__isnull=False)
    longest = F("checkup__asked_at").asc(nulls_first=True)
    return list(well.order_by(longest, "pk").values_list("pk", flat=True)[:AT_ONCE])


def check(*, node_id: int, now: datetime) -> None:
    """Ask one node, unless it was asked within the last minute. What is found is acted upon; of a
    node that does not answer nothing is concluded here."""
    node = Node.objects.filter(pk=node_id, health=Node.Health.UP).first()
    if node is None:
        return
    kept, _ = Checkup.objects.get_or_create(node=node)
    mine = Q(asked_at=None) | Q(asked_at__lte=now - EVERY)
    if not Checkup.objects.filter(mine, pk=kept.pk).update(asked_at=now):
        return
    clock = Clock(now)
    try:
        seen = reach.engine(node).health(_asked(node, kept))
    except NodeError as error:
        limits = [f"Its health could not be looked at: {error.message}"]
        Checkup.objects.filter(pk=kept.pk).update(limits=limits)
        return
    # In Unix seconds of ours.
    times = clock_seen(seen, asked_at=now.timestamp(), answered_at=clock.now.timestamp())
    try:
        _apply(node, seen, times, clock.now)
    except (DataError, OverflowError) as error:
        log.warning("what %s tells of its health cannot be written down: %s", node, error)


def _asked(node: Node, kept: Checkup) -> HealthAsked:
    return HealthAsked(
        log_boot_id=kept.log_boot_id or None,
        log_after_us=kept.log_stamp_us if kept.log_boot_id else None,
        mounts=tuple(node.mounts),
        check=node.check_program,
    )


@transaction.atomic
def _apply(node: Node, seen: HealthSeen, clock: ClockSeen, now: datetime) -> None:
    kept = Checkup.objects.select_for_update().get(node=node)
    # A card that was moved here has brought its own along.
    Finding.objects.filter(gpu__node=node, cleared_at=None).exclude(node=node).update(node=node)
    found = signs(seen, health_signs.known(node), kept.counters, clock)
    used, blind = health_signs.of_use(node, now)
    rows = {_key(row): row for row in findings.open_of(node).select_related("gpu")}
    weighed = weigh(
        (*found.signs, *used),
        {key: Open(row.seen_at.timestamp(), row.absent) for key, row in rows.items()},
        {(gpu, name): since for gpu, name, since in kept.suspects},
        now=now.timestamp(),
        blind=found.blind | blind,
    )
    _write(node, weighed, rows, now)
    _remember(kept, seen, found, weighed, now)


def _key(row: Finding) -> Key:
    return (row.gpu.uuid if row.gpu else "", row.kind)


def _write(node: Node, weighed: Weighed, rows: Mapping[Key, Finding], now: datetime) -> None:
    if any(findings.takes_out(sign) for sign in weighed.opened):
        passes.wait()
    # Before its findings, as whoever drains it does.
    Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    gpus = {gpu.uuid: gpu for gpu in node.gpus.all()}
    for sign, since in weighed.opened.items():
        began = datetime.fromtimestamp(since, UTC)
        findings.open_(node=node, gpu=gpus.get(sign.gpu), sign=sign, since=began, now=now)
    changes: dict[int, dict[str, Any]] = {
        rows[sign.gpu, sign.kind].pk: _again(sign, now) for sign in weighed.again
    }
    changes |= {rows[key].pk: {"absent": number} for key, number in weighed.absent.items()}
    update_each(Finding.objects.filter(cleared_at=None), changes)
    for key in weighed.over:
        findings.clear(finding=rows[key], actor=None, now=now)
    if weighed.again:
        live.changed(f"node-{node.pk}")


def _again(sign: Sign, now: datetime) -> dict[str, Any]:
    return {"text": sign.text, "seen_at": now, "absent": 0}


def _remember(
    kept: Checkup, seen: HealthSeen, found: Found, weighed: Weighed, now: datetime
) -> None:
    kept.answered_at = now
    kept.log_boot_id = seen.boot_id[:64]
    kept.log_stamp_us = min(max(seen.kernel_log.stamp_us, 0), LAST_STAMP)
    if found.counters is not None:
        kept.counters = dict(found.counters)
    kept.suspects = [[gpu, name, since] for (gpu, name), since in weighed.suspects.items()]
    kept.limits = list(found.limits)
    kept.save()
