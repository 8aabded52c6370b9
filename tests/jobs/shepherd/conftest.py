from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.shepherd.node import Node
from tests.lab.processes import ended_under


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A spool directory with the shepherd in it; whatever still runs in the end is killed."""
    with ended_under(tmp_path):
        one = Node(tmp_path / "spool")
        yield one
        one.end_everything()
