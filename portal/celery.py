"""The Celery application. A message is a hint that carries an id; the database is the truth."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from kombu.transport.redis import Channel

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

# On a lost connection Kombu would put back what was begun, over that same connection, and die of
# it, and the worker with it. A hint need not be put back.
Channel.do_restore = False

app = Celery("carrel")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    # Imported by workers: the watcher listens to their signals.
    include=["portal.watch"],
    task_ignore_result=True,
    task_acks_late=False,
    worker_prefetch_multiplier=1,
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
        "visibility_timeout": 3600,
    },
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


def hint(task: str, *arguments: Any, countdown: float | None = None) -> None:
    """Ask a worker to do something soon. Lost hints are repaired by the reconciler."""
    app.send_task(f"portal.tasks.{task}", args=arguments, countdown=countdown)
