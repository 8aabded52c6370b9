"""The Celery application. A message is a hint that carries an id; the database is the truth."""

from __future__ import annotations

import os
import sys
from typing import Any

from celery import Celery
from celery.signals import task_postrun, worker_init
from django.conf import settings
from django.db import close_old_connections
from kombu.transport.redis import Channel

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# On a lost connection Kombu would put back what was begun, over that same connection, and die of
# it, and the worker with it. A hint need not be put back.
Channel.do_restore = False

CONNECTION_S = 60
"""How long a worker's thread uses a connection to the database, when nothing goes wrong on it."""

app = Celery("carrel")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    # Imported by workers: the watcher listens to their signals.
    include=["portal.watch"],
    task_ignore_result=True,
    task_acks_late=False,
    # As many as there are: at a limit Kombu's loop sleeps up to a second though threads are free.
    worker_prefetch_multiplier=0,
    # Would end tasks that are acknowledged late. None is; unset, Celery warns of it in six lines.
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Publishing must not hold up a page: the reconciler repairs what was not said.
    task_publish_retry=False,
    broker_transport_options={
        "socket_timeout": 30,
        "socket_connect_timeout": 1,
        "socket_keepalive": True,
        # Kept in Redis until it is acknowledged, a hint costs more than it is worth.
        "ack_emulation": False,
    },
    # The fixup for Django would close the connection to the database before and after each task.
    CELERY_DB_REUSE_MAX=sys.maxsize,
    beat_scheduler="portal.signs:Scheduler",
    beat_max_loop_interval=1,
    beat_schedule={
        "reconcile": {
            "task": "portal.tasks.reconcile",
            "schedule": 2.0,
            "options": {"expires": 4},
        },
    },
)
app.autodiscover_tasks(["portal"])


@worker_init.connect
def _keep_connections(**_: Any) -> None:
    """A worker's threads do one task after the other; elsewhere each request has its own thread.

    Where there is a pool, a connection goes back to it after each task, and is tried before the
    next.
    """
    database = settings.DATABASES["default"]
    if "pool" not in database["OPTIONS"]:
        database["CONN_MAX_AGE"] = CONNECTION_S
    task_postrun.connect(close_old_connections)


def hint(task: str, *arguments: Any, countdown: float | None = None) -> None:
    """Ask a worker to do something soon. Lost hints are repaired by the reconciler."""
    app.send_task(f"portal.tasks.{task}", args=arguments, countdown=countdown)
