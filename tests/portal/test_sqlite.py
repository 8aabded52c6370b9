"""Writers of an SQLite database take turns, and none of them starves."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.db import connection, transaction

from portal.models import Project
from portal.sqlite.base import _Turn

pytestmark = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL has no need of turns"
)


def test_a_turn_is_one_thread_s_at_a_time(tmp_path) -> None:
    turn = _Turn(str(tmp_path / "turn"))
    assert turn.take(1)
    taken: list[bool] = []
    other = threading.Thread(target=lambda: taken.append(turn.take(0.05)), daemon=True)
    other.start()
    other.join(20)
    assert taken == [False]
    turn.end()
    assert turn.take(1)
    turn.end()


def test_a_turn_is_one_process_s_at_a_time(tmp_path) -> None:
    path = str(tmp_path / "turn")
    turn = _Turn(path)
    asks = (
        "import sys; from portal.sqlite.base import _Turn; "
        "sys.exit(0 if _Turn(sys.argv[1]).take(0.05) else 7)"
    )
    command = [sys.executable, "-c", asks, path]
    assert turn.take(1)
    assert subprocess.run(command, cwd=Path.cwd(), timeout=60).returncode == 7
    turn.end()
    assert subprocess.run(command, cwd=Path.cwd(), timeout=60).returncode == 0


@pytest.mark.django_db(transaction=True)
def test_an_error_gives_the_turn_back() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Project.objects.create(name="lost")
        print(1 // 0)
    wrote: list[str] = []

    def write() -> None:
        with transaction.atomic():
            wrote.append(Project.objects.create(name="kept").name)
        connection.close()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(10)
    assert wrote == ["kept"]
    assert list(Project.objects.values_list("name", flat=True)) == ["kept"]
