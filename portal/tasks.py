"""The Celery door: ids in, one action, nothing else."""

from __future__ import annotations

import time
from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down
from django.utils import timezone

from portal import broker, hints, turns
from portal.actions import checkup, logs, nodes, practice, retention
from portal.actions import dispatch as dispatching
from portal.actions import observe as observing
from portal.actions import reconcile as reconciling
from portal.actions import schedule as scheduling
from portal.actions import what_if as trying
from portal.pace import Pace

EXPLAIN_EVERY_S = 1.0
PASS_PART = 4
"""Passes that come one upon the other take at most this part of a thread's time."""
EXPLAIN_PART = 10
"""Where thousands wait, passes that explain take at most this part of a thread's time."""
TIDY_EVERY_S = 600.0
PRUNE_EVERY_S = 60.0

_passes = Pace(per_s=6, burst=4)


@shared_task
def schedule() -> None:
    """One scheduling pass. Reasons are written at most once a second, the last one always."""
    _passes.wait()
    hints.taken("schedule")
    explain = broker.first("explained", EXPLAIN_EVERY_S)
    began = time.thread_time()
    scheduling.schedule(now=timezone.now(), explain=explain)
    took = time.thread_time() - began
    if not explain:
        _passes.later(took * PASS_PART)
        # Later than that, the reconciler comes by.
        if broker.left("explained") <= EXPLAIN_EVERY_S:
            hints.schedule(countdown=EXPLAIN_EVERY_S)
    elif took * EXPLAIN_PART > EXPLAIN_EVERY_S:
        broker.extend("explained", took * EXPLAIN_PART)


@shared_task
def dispatch(node_id: int) -> None:
    """Start and stop what is wanted on a node."""
    hints.taken("dispatch", node_id)
    turns.take(
        "dispatch", node_id, lambda: dispatching.dispatch(node_id=node_id, now=timezone.now())
    )


@shared_task
def observe(node_id: int) -> None:
    """See what became of a node's runs."""
    hints.taken("observe", node_id)
    turns.take("observe", node_id, lambda: observing.observe(node_id=node_id, now=timezone.now()))


@shared_task
def look(node_id: int) -> None:
    """See what became of a node's runs, and how its GPUs and the machine are."""
    hints.taken("look", node_id)
    turns.take("look", node_id, lambda: _look(node_id))


def _look(node_id: int) -> None:
    # What became of the runs of a node that cannot be probed is asked all the same.
    nodes.probe_if_due(node_id=node_id, now=timezone.now())
    observing.observe(node_id=node_id, now=timezone.now(), gpus=True, system=True)
    if broker.first(f"pruned:{node_id}", PRUNE_EVERY_S):
        retention.prune(node_id=node_id, now=timezone.now())
    if broker.first(f"tidied:{node_id}", TIDY_EVERY_S):
        logs.tidy(node_id=node_id, now=timezone.now())


@shared_task
def health(node_id: int) -> None:
    """See whether something is wrong with a node, which may take long."""
    hints.taken("health", node_id)
    turns.take("health", node_id, lambda: checkup.check(node_id=node_id, now=timezone.now()))


@shared_task
def keep_logs(node_id: int) -> None:
    """Bring the logs of a node's ended runs home."""
    hints.taken("keep_logs", node_id)
    turns.take("keep_logs", node_id, lambda: logs.keep(node_id=node_id, now=timezone.now()))


@shared_task
def what_if() -> None:
    """Have the next change tried, by a process of its own: it is minutes of work."""
    hints.taken("what_if")
    if trying.play_next(clock=timezone.now):
        hints.what_if()


@worker_shutting_down.connect
def _interrupt(**_: Any) -> None:
    """The worker would wait for it, and be killed at last."""
    trying.interrupt()


@shared_task
def reconcile() -> None:
    """Find every row that is behind and push it on."""
    reconciling.reconcile(now=timezone.now())
    practice.first_job(now=timezone.now())
    practice.finish_removal(now=timezone.now())
