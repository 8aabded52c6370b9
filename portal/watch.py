"""Follow every node's own reports, so that an end is known when it happens.

It also keeps the nodes' leases, and takes from nodes out of reach what has ended there: both go on
while no message arrives.

Lives in the worker process. One thread a node blocks on one warm SSH channel; what comes through
it is only a hint to look. A watcher that dies costs seconds, never a state: the reconciler looks
at every node anyway.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from celery.signals import worker_ready, worker_shutdown
from django.db import close_old_connections
from django.utils import timezone

from jobs.nodes.transport import NodeError
from portal import broker, hints, reach, signs
from portal.actions import leases, observe
from portal.actions.recover import recover
from portal.models import Node
from portal.pace import Pace

REFRESH_S = 2.0
"""How often the list of nodes to follow is brought up to date."""
CLAIM_S = 10.0
"""A node is followed by one worker; its claim lasts this long past its last sign of life."""

CATCH_UP_S = 0.05
LOOKS_PER_S = 16
"""At most, of all nodes together, after as many at once: in a rush a look costs the worker and
the node the same for one end as for ten."""

LEASES_S = 1.0
"""How often it is seen whose lease is neglected, and whose is over."""
MOST_AT_ONCE = 128
"""Nodes that are asked for the sake of their lease. Those that hang hold a thread each."""

log = logging.getLogger(__name__)


class Watcher:
    """All followed nodes of this worker."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._followed: dict[int, threading.Thread] = {}
        self._paces: dict[int, Pace] = defaultdict(lambda: Pace(per_s=4, burst=3))
        self._pace = Pace(per_s=LOOKS_PER_S, burst=LOOKS_PER_S)
        self._changed: dict[int, None] = {}
        """Nodes that are to be looked at, those that have waited longest first."""
        self._asked: dict[int, Future[None]] = {}

    def start(self) -> None:
        pulse = partial(signs.pulse, "worker", self._stop)
        for target in (self._keep_up, self._catch_up, self._keep_leases, pulse):
            threading.Thread(target=target, daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _keep_up(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow_new()
            except Exception:
                log.exception("could not list the nodes to follow")
            finally:
                close_old_connections()
            self._stop.wait(REFRESH_S)

    def _follow_new(self) -> None:
        present = {node.pk: node for node in Node.objects.all()}
        for pk in self._followed.keys() - present.keys():
            # Removed, by another process: this one still holds a connection to it.
            reach.forget(pk)
            del self._followed[pk]
        for node in present.values():
            if node.health != Node.Health.UP:
                continue
            thread = self._followed.get(node.pk)
            if thread and thread.is_alive():
                continue
            if broker.first(f"watch:{node.pk}", CLAIM_S):
                thread = threading.Thread(target=self._follow, args=(node,), daemon=True)
                self._followed[node.pk] = thread
                thread.start()

    def _tell(self, node_id: int) -> None:
        """Have the node looked at: at once after a rest, soon when much happens there."""
        if self._may_look(node_id):
            hints.observe(node_id)
        else:
            self._changed.setdefault(node_id)

    def _may_look(self, node_id: int) -> bool:
        return self._pace.ready and not self._paces[node_id].delay() and not self._pace.delay()

    def _catch_up(self) -> None:
        while not self._stop.wait(CATCH_UP_S):
            for node_id in list(self._changed):
                if self._may_look(node_id):
                    del self._changed[node_id]
                    hints.observe(node_id)

    def _keep_leases(self) -> None:
        vigil = leases.Vigil()
        with ThreadPoolExecutor(MOST_AT_ONCE, "lease") as pool:
            while not self._stop.wait(LEASES_S):
                try:
                    for node_id in leases.neglected(timezone.now()):
                        self._keep_lease(pool, node_id)
                    recover(vigil=vigil, clock=leases.clock(), now=timezone.now())
                except Exception:
                    log.exception("could not keep the nodes' leases")
                finally:
                    close_old_connections()

    def _keep_lease(self, pool: ThreadPoolExecutor, node_id: int) -> None:
        asked = self._asked.get(node_id)
        if asked is None or asked.done():
            self._asked[node_id] = pool.submit(_look, node_id)

    def _follow(self, node: Node) -> None:
        """Until the node stops answering; each line is a key of a run that changed, or a sign."""
        claim = Pace(per_s=1, burst=1)
        try:
            for key in reach.engine(node).watch():
                if self._stop.is_set():
                    return
                if not claim.delay():
                    broker.extend(f"watch:{node.pk}", CLAIM_S)
                if key:
                    self._tell(node.pk)
        except NodeError as error:
            log.info("%s is no longer followed: %s", node.name, error.message)
        finally:
            broker.clear(f"watch:{node.pk}")


def _look(node_id: int) -> None:
    try:
        observe.observe(node_id=node_id, now=timezone.now())
    except Exception:
        log.exception("could not look at node %s", node_id)
    finally:
        close_old_connections()


_watcher = Watcher()


@worker_ready.connect
def _start(**_: Any) -> None:
    _watcher.start()


@worker_shutdown.connect
def _end(**_: Any) -> None:
    _watcher.stop()
