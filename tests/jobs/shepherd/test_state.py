"""State files that their own job wrote over: its affair, not that of the node's other runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.events import Cause, Observation
from jobs.nodes.answers import decode
from jobs.shepherd.state import CAUSES
from tests.jobs.shepherd.node import Node

END = {"cause": "exited", "message": "", "ended_at": 1e9, "exit_code": 0, "signal": None}
STARTED = {"started_at": 1e9, "tasks": [], "checkpoint_dir": None}
FORGED = [
    ("exit.json", END | {"cause": "victory"}),
    ("exit.json", END | {"message": 7}),
    ("exit.json", END | {"ended_at": "now"}),
    ("exit.json", END | {"ended_at": True}),
    ("exit.json", END | {"ended_at": 10**400}),
    ("exit.json", END | {"exit_code": 10**12}),
    ("exit.json", END | {"signal": -1}),
    ("started.json", STARTED | {"started_at": "x"}),
    ("started.json", STARTED | {"started_at": None}),
    ("started.json", STARTED | {"tasks": ["1"]}),
    ("started.json", STARTED | {"checkpoint_dir": 7}),
    ("started.json", STARTED | {"checkpoint_dir": "/\0"}),
    ("seen.json", {"complete": []}),
    ("seen.json", {"complete": {"a": "b"}}),
    ("exit.json", END | {"torn": [[]], "doubts": "x"}),
]


@pytest.mark.parametrize(("name", "value"), FORGED)
def test_another_run_is_seen_all_the_same(
    node: Node, name: str, value: dict[str, Any], tmp_path: Any
) -> None:
    forged = json.dumps(value)
    where = str(tmp_path / "checkpoints")
    node.launch(f"touch {where}/a; sleep 600", key="odd", checkpoint_dir=where)
    node.launch("sleep 600", key="well")
    (node.run_dir("odd") / name).write_text(forged)
    answer = node.call("observe", keys=["odd", "well"], checkpoints=True)
    seen = decode(Observation, answer)
    assert [run.phase.value for run in seen.runs][1] == "running"
    node.stop("odd", number=9, grace_s=0)
    node.ended("odd")


def test_an_end_that_is_none_may_still_come(node: Node) -> None:
    node.launch('echo "{}" > "$CARREL_RUN_DIR/exit.json"; exit 7')
    assert node.ended()["exit_code"] == 7


def test_the_causes_are_those_of_the_events() -> None:
    assert set(CAUSES) == {cause.value for cause in Cause}
