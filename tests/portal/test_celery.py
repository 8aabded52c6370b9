"""The worker, within this process: its threads keep what they need from task to task."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from celery.contrib.testing.worker import TestWorkController, start_worker
from celery.signals import worker_init
from django.conf import settings
from django.db import connection

from portal import broker
from portal.celery import app
from portal.models import Partition

POOLED = "pool" in settings.DATABASES["default"]["OPTIONS"]
seen: queue.Queue[Any] = queue.Queue()


@app.task
def ask() -> None:
    Partition.objects.count()
    seen.put(connection.connection)


@app.task
def spoil() -> None:
    """As a restart of the server would."""
    connection.ensure_connection()
    seen.put(connection.connection)
    connection.connection.close()
    Partition.objects.count()


class Worker(TestWorkController):
    """Says that it begins, as the one of Celery's command line does."""

    def on_before_init(self, **_: Any) -> None:
        worker_init.send(sender=self)


@pytest.fixture
def worker(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    broker.connection().flushdb()
    monkeypatch.setitem(settings.DATABASES["default"], "CONN_MAX_AGE", 0)
    with start_worker(
        app, pool="threads", concurrency=1, perform_ping_check=False, WorkController=Worker
    ):
        yield
    monkeypatch.undo()


@pytest.mark.skipif(POOLED, reason="a pool keeps them")
def test_a_thread_keeps_its_connection_to_the_database(worker: None) -> None:
    for _ in range(2):
        ask.delay()
    assert seen.get(timeout=20) is seen.get(timeout=20)


def test_a_broken_connection_is_another_one_in_the_next_task(worker: None) -> None:
    """Whichever of a pool it was."""
    for task in (spoil, ask):
        task.delay()
    assert seen.get(timeout=20) is not seen.get(timeout=20)


def test_a_message_is_gone_once_it_was_taken(worker: None) -> None:
    ask.delay()
    seen.get(timeout=20)
    assert broker.connection().keys("unacked*") == []
    assert broker.connection().llen("celery") == 0
