"""A half-written checkpoint is never shown as complete."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.jobs.shepherd.node import Node, eventually

WRITER = """#!/usr/bin/env python3
import os, signal, sys, time
os.chdir(os.environ["CARREL_CHECKPOINT_DIR"])
{before}
out = open("step_200.pt", "wb", buffering=0)
out.write(b"half")
print("ready", flush=True)
{after}
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return tmp_path / "saved"


def _write(node: Node, saved: Path, before: str = "", after: str = "time.sleep(600)") -> None:
    script = WRITER.replace("{before}", before).replace("{after}", after)
    node.launch(script, checkpoint_dir=str(saved))
    node.says(b"ready")


def _complete(node: Node) -> dict[str, bool]:
    return {name: one["complete"] for name, one in node.checkpoints().items()}


def test_files_and_directories_are_listed(node: Node, saved: Path) -> None:
    node.launch(
        "cd $CARREL_CHECKPOINT_DIR; printf 12345 > step_100.pt; mkdir -p epoch3/part;"
        "printf 123 > epoch3/part/a; touch .hidden x.tmp y.part z.partial;"
        "ln -s step_100.pt latest",
        checkpoint_dir=str(saved),
    )
    node.ended()
    found = node.checkpoints()
    assert set(found) == {"step_100.pt", "epoch3"}
    assert (found["step_100.pt"]["size_bytes"], found["epoch3"]["size_bytes"]) == (5, 3)
    assert (found["step_100.pt"]["step"], found["epoch3"]["step"]) == (100, 3)
    assert found["epoch3"]["path"] == str(saved / "epoch3")
    modified_at = (saved / "step_100.pt").stat().st_mtime
    assert found["step_100.pt"]["modified_at"] == pytest.approx(modified_at, abs=1e-3)
    assert all(one["complete"] for one in found.values())


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_100", 100),
        ("ckpt-100.pt", 100),
        ("epoch=3-step=500.ckpt", 500),
        ("model.h5", None),
        ("checkpoint-0005.tar.gz", 5),
        ("final", None),
    ],
)
def test_the_step_is_read_from_the_name(
    node: Node, saved: Path, name: str, step: int | None
) -> None:
    node.launch(f"touch $CARREL_CHECKPOINT_DIR/{name}", checkpoint_dir=str(saved))
    node.ended()
    assert node.checkpoints()[name]["step"] == step


def test_a_file_becomes_complete_when_its_writer_closes_it(node: Node, saved: Path) -> None:
    close = "\n".join(
        [
            "import pathlib",
            "while not pathlib.Path('.close').exists(): time.sleep(0.05)",
            "out.close(); time.sleep(600)",
        ]
    )
    _write(node, saved, "open('step_100.pt', 'wb').write(b'w')", close)
    eventually(lambda: _complete(node)["step_100.pt"], "the closed one is complete")
    # Long untouched, but open for writing: only its writer knows whether it is whole.
    os.utime(saved / "step_200.pt", (1, 1))
    eventually(
        lambda: node.checkpoints()["step_200.pt"]["modified_at"] == 1, "it looks old", every_s=2.5
    )
    assert _complete(node) == {"step_100.pt": True, "step_200.pt": False}
    (saved / ".close").touch()
    eventually(lambda: _complete(node)["step_200.pt"], "the second is complete")


@pytest.mark.parametrize("how", ["stop", "kill", "walltime", "minder", "both guards", "itself"])
def test_what_was_being_written_at_the_kill_stays_incomplete(
    node: Node, saved: Path, how: str
) -> None:
    before = "open('step_100.pt', 'wb').write(b'w'); time.sleep(2.5)"
    after = "os.kill(os.getpid(), 9)" if how == "itself" else "signal.pause()"
    script = WRITER.replace("{before}", before).replace("{after}", after)
    walltime_s = 10 if how == "walltime" else 600
    node.launch(script, checkpoint_dir=str(saved), walltime_s=walltime_s)
    node.says(b"ready")
    if how == "stop":
        node.stop(grace_s=600)
    elif how == "kill":
        node.stop(number=signal.SIGKILL, grace_s=0)
    elif how == "minder":
        os.kill(node.guards()[0], signal.SIGKILL)
    elif how == "both guards":
        for pid in reversed(node.guards()):
            os.kill(pid, signal.SIGKILL)
    node.ended()
    for _ in range(2):
        assert _complete(node) == {"step_100.pt": True, "step_200.pt": False}


def test_what_is_saved_on_the_way_out_is_complete(node: Node, saved: Path) -> None:
    before = (
        "def save(*_):\n"
        "    out.write(b'more'); time.sleep(0.5); out.write(b'whole'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)"
    )
    _write(node, saved, before, "while True: time.sleep(60)")
    node.stop(grace_s=600)
    assert node.ended()["cause"] == "stopped"
    assert _complete(node) == {"step_200.pt": True}


def test_a_child_of_the_shell_may_save_on_the_way_out(node: Node, saved: Path) -> None:
    program = (
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    out.write('more'); time.sleep(0.5); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "out = open(os.environ['CARREL_CHECKPOINT_DIR'] + '/step_1', 'w')\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    node.launch(f'python3 -c "{program}"\necho after', checkpoint_dir=str(saved))
    node.says(b"ready")
    node.stop(grace_s=600)
    node.ended()
    assert _complete(node) == {"step_1": True}


def test_a_restart_keeps_what_was_known_to_be_whole(node: Node, saved: Path) -> None:
    (node.spool / "boot_id").write_text("first\n")
    _write(node, saved, "open('step_100.pt', 'wb').write(b'w')", "out.close(); time.sleep(600)")
    eventually(lambda: all(_complete(node).values()), "both are complete")
    (saved / "step_300.pt").write_bytes(b"cut off by the restart")
    assert _complete(node)["step_300.pt"] is False
    (node.spool / "boot_id").write_text("second\n")
    assert node.ended()["cause"] == "node_restarted"
    assert _complete(node) == {"step_100.pt": True, "step_200.pt": True, "step_300.pt": False}
