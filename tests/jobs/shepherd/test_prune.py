"""Only what was found complete, and is still as it was, is removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.jobs.shepherd.node import Node, eventually
from tests.jobs.shepherd.test_formats import zipped

GOOD = zipped([b"weights"])
KEY = "j1.a1.n0"


@pytest.fixture
def saved(node: Node, tmp_path: Path) -> Path:
    """Complete ones of a run that has ended."""
    path = tmp_path / "saved"
    path.mkdir()
    for step in (1, 2):
        (path / f"step-{step}.pt").write_bytes(GOOD)
    (path / "step-3" / "parts").mkdir(parents=True)
    (path / "step-3" / "parts" / "a.pt").write_bytes(GOOD)
    (path / "step-4.pt").write_bytes(GOOD[:-1])
    node.launch("exit 0", checkpoint_dir=str(path))
    node.ended()
    assert len(node.checkpoints()) == 4
    return path


def prune(node: Node, *names: str, size: int = len(GOOD)) -> list[tuple[bool, str]]:
    asked = [{"key": KEY, "name": name, "size_bytes": size} for name in names]
    answers: list[dict[str, Any]] = node.call("prune", prunes=asked)["pruned"]
    assert [one["name"] for one in answers] == list(names)
    return [(one["gone"], one["message"]) for one in answers]


def names(saved: Path) -> set[str]:
    return {one.name for one in saved.iterdir()}


def test_files_and_directories_go(node: Node, saved: Path) -> None:
    assert prune(node, "step-1.pt", "step-3") == [(True, ""), (True, "")]
    assert names(saved) == {"step-2.pt", "step-4.pt"}
    assert prune(node, "step-1.pt") == [(True, "")], "a repeat harms nobody"


def test_what_is_not_whole_or_has_changed_stays(node: Node, saved: Path) -> None:
    assert prune(node, "step-4.pt", size=len(GOOD) - 1) == [(False, "it has changed")]
    (saved / "step-1.pt").write_bytes(GOOD)
    (saved / "step-3" / "parts" / "b.pt").write_bytes(b"")
    told = prune(node, "step-1.pt", "step-3")
    assert told == [(False, "it has changed"), (False, "it has changed")]
    assert prune(node, "step-2.pt", size=7) == [(False, "it has changed")]
    assert names(saved) == {"step-1.pt", "step-2.pt", "step-3", "step-4.pt"}


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/etc/passwd", "a/b", ".hidden"])
def test_only_names_of_checkpoints(node: Node, saved: Path, name: str) -> None:
    assert prune(node, name) == [(False, "it is no name of a checkpoint")]


def test_links_are_left_alone(node: Node, saved: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.pt").write_bytes(GOOD)
    (saved / "step-5").symlink_to(outside)
    (saved / "step-3" / "link").symlink_to(outside)
    node.checkpoints()
    assert prune(node, "step-5") == [(False, "it is a link")]
    prune(node, "step-3")
    assert names(outside) == {"a.pt"}


def test_what_was_begun_is_finished(node: Node, saved: Path) -> None:
    (saved / "step-3").rename(saved / ".carrel-prune.step-3")
    prune(node, "step-9")
    assert names(saved) == {"step-1.pt", "step-2.pt", "step-4.pt"}


def test_what_is_being_written_stays(node: Node, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    script = "cd $CARREL_CHECKPOINT_DIR; printf 1234 > s1.bin; exec 9>>s2.bin; sleep 600"
    node.launch(script, checkpoint_dir=str(saved))
    eventually(lambda: node.checkpoints().get("s1.bin", {}).get("complete"), "one is complete")
    assert prune(node, "s2.bin", size=0) == [(False, "it has changed")]
    assert prune(node, "s1.bin", size=4) == [(True, "")]


def test_a_run_that_never_was_has_none(node: Node, tmp_path: Path) -> None:
    node.call("observe", keys=[])
    node.launch("exit 0")
    node.ended()
    assert prune(node, "step-1.pt") == [(False, "its run has no checkpoint directory")]
