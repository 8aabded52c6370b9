"""Hints: none is held back by another one's delay, and none needs what it does not use."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.db import connection

from portal import broker, celery, hints


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    broker.connection().flushdb()
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        celery, "hint", lambda task, *ids, countdown=None: found.append((task, *ids, countdown))
    )
    return found


@pytest.mark.django_db(transaction=True)
def test_a_later_pass_holds_no_present_one_back(sent: list[Any]) -> None:
    hints.schedule(countdown=1.0)
    hints.schedule(countdown=1.0)
    hints.schedule()
    hints.schedule()
    assert sent == [("schedule", 1.0), ("schedule", None)]
    hints.taken("schedule")
    hints.schedule()
    assert sent[2:] == [("schedule", None)]


@pytest.mark.django_db(transaction=True)
def test_a_hint_that_could_not_be_given_is_given_next_time(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise redis.ConnectionError("away")

    with monkeypatch.context() as broken:
        broken.setattr(celery, "hint", away)
        hints.dispatch(1)
    hints.dispatch(1)
    assert sent == [("dispatch", 1, None)]


@pytest.mark.django_db(transaction=True)
def test_a_watcher_needs_no_connection_to_the_database(sent: list[Any]) -> None:
    connection.close()
    hints.observe(1)
    assert connection.connection is None
    assert sent == [("observe", 1, None)]
