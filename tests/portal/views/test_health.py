"""/healthz: every part by name, 503 as soon as one is missing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from portal import broker, signs

pytestmark = pytest.mark.django_db


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[str, list[socket.socket]]]:
    """A Redis that takes connections and never answers: its address, and who came."""
    came: list[socket.socket] = []
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def take() -> None:
            while True:
                try:
                    came.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"unix://{place}", came
        listener.shutdown(socket.SHUT_RDWR)
    for one in came:
        one.close()


def test_well_when_every_part_gave_a_sign(client: Client) -> None:
    signs.alive("worker")
    signs.alive("beat")
    answer = client.get("/healthz")
    parts = dict.fromkeys(("web", "database", "redis", "worker", "beat"), "ok")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "parts": parts})


def test_names_the_part_that_gave_none(client: Client) -> None:
    signs.alive("worker")
    broker.connection().delete("carrel:alive:beat")
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["status"] == "degraded"
    assert answer.json()["parts"]["worker"] == "ok"
    assert answer.json()["parts"]["beat"] == f"no sign of life for {signs.FRESH_S} s"


def test_a_frozen_redis_is_waited_for_once(
    client: Client, settings: Any, silent: tuple[str, list[socket.socket]],
    another_redis: None,
) -> None:  # fmt: skip
    settings.REDIS_URL, came = silent
    answer = client.get("/healthz")
    assert answer.status_code == 503
    parts = answer.json()["parts"]
    assert parts["redis"] == "does not answer"
    assert parts["worker"] == parts["beat"] == "unknown: Redis does not answer"
    assert len(came) == 1
