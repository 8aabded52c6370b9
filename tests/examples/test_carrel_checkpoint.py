"""What training scripts copy: whole or not at all, when it is time, and told when to stop."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from jobs.shepherd import whole
from tests.jobs.shepherd.node import Node, eventually
from tests.lab.processes import ended_under

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name in ("CHECKPOINT_DIR", "RESUME_FROM", "CHECKPOINT_INTERVAL"):
        monkeypatch.delenv(f"CARREL_{name}", raising=False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    spec = importlib.util.spec_from_file_location(
        "carrel_checkpoint", EXAMPLES / "carrel_checkpoint.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for number, handler in before.items():
        signal.signal(number, handler)


def write(directory: Path) -> None:
    (directory / "state.json").write_text('{"step": 500}')
    (directory / "parts").mkdir()
    (directory / "parts" / "weights").write_bytes(b"weights" * 1000)


def test_what_it_saves_is_whole_and_proves_it(helper: ModuleType, tmp_path: Path) -> None:
    saver = helper.Saver(directory=tmp_path)
    path = saver.save(500, write)
    assert path == tmp_path / "step-500"
    assert whole.problem(str(path), True) == ""
    (path / "parts" / "weights").write_bytes(b"w3ights" * 1000)
    assert "differs from its checksum" in whole.problem(str(path), True)
    saver.save(500, write)
    assert whole.problem(str(path), True) == "", "the same step again takes its place"
    assert [one.name for one in tmp_path.iterdir()] == ["step-500"]


def test_large_files_have_their_size_only(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper, "HASHED", 100)
    path = helper.Saver(directory=tmp_path).save(1, write)
    files = json.loads((path / helper.MANIFEST).read_text())["files"]
    assert set(files["state.json"]) == {"size", "sha256"}
    assert files["parts/weights"] == {"size": 7000}


def test_what_fails_leaves_nothing(helper: ModuleType, tmp_path: Path) -> None:
    def fails(directory: Path) -> None:
        write(directory)
        raise RuntimeError("out of memory")

    saver = helper.Saver(directory=tmp_path)
    with pytest.raises(RuntimeError):
        saver.save(500, fails)
    assert list(tmp_path.iterdir()) == []


def test_when_it_is_time(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    saver = helper.Saver(60, directory=tmp_path, clock=lambda: now[0])
    now[0] = 59.0
    assert not saver.due()
    now[0] = 60.0
    assert saver.due()
    saver.save(1, write)
    assert not saver.due()
    monkeypatch.setenv("CARREL_CHECKPOINT_INTERVAL", "7")
    assert helper.Saver(60, directory=tmp_path).every_s == 7.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_asks_for_one_more(helper: ModuleType, tmp_path: Path, number: int) -> None:
    saver = helper.Saver(directory=tmp_path)
    assert (saver.told_to_stop, saver.due()) == (None, False)
    os.kill(os.getpid(), number)
    assert (saver.told_to_stop, saver.due(), saver.exit_code) == (number, True, 128 + number)


def test_outside_of_carrel_it_does_nothing(helper: ModuleType) -> None:
    saver = helper.Saver(0)
    assert (saver.due(), saver.save(1, write)) == (False, None)
    assert (helper.checkpoint_dir(), helper.resume_from()) == (None, None)


def test_a_job_saves_and_goes_on(tmp_path: Path) -> None:
    script = (
        f"#!{sys.executable}\n"
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "from carrel_checkpoint import *\n"
        "found = resume_from()\n"
        "step = int((found / 'step').read_text()) + 1 if found else 1\n"
        "Saver().save(step, lambda where: (where / 'step').write_text(str(step)))\n"
    )
    saved = tmp_path / "saved"
    with ended_under(tmp_path):
        node = Node(tmp_path / "spool")
        node.launch(script, checkpoint_dir=str(saved))
        node.ended()
        first = eventually(node.checkpoints, "the first is listed")["step-1"]
        assert (first["complete"], first["step"], first["problem"]) == (True, 1, "")
        again = {"CARREL_RESUME_FROM": first["path"]}
        node.launch(script, "j1.a2.n0", checkpoint_dir=str(saved), environment=again)
        node.ended("j1.a2.n0")
        found = node.checkpoints("j1.a2.n0")
        assert {name: one["complete"] for name, one in found.items()} == {
            "step-1": True,
            "step-2": True,
        }


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_python_3_8_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))
