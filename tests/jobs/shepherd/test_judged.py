"""What is closed is judged once: what is missing is told, and how long its writing took."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from jobs.shepherd import checkpoints, seen, whole
from jobs.shepherd.seen import Memory
from jobs.shepherd.spool import Run, Spool
from tests.jobs.shepherd.node import Node, eventually, gate
from tests.jobs.shepherd.test_formats import zipped
from tests.jobs.shepherd.test_whole import distributed, sharded

GOOD = zipped([b"weights" * 10])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved"
    path.mkdir()
    return path


def test_what_is_cut_off_is_never_complete(node: Node, saved: Path) -> None:
    (saved / "step_100.pt").write_bytes(GOOD)
    (saved / "step_200.pt").write_bytes(GOOD[:-1])
    node.launch("sleep 600", checkpoint_dir=str(saved))
    found = eventually(
        lambda: (one := node.checkpoints())["step_100.pt"]["complete"] and one, "it is judged"
    )
    assert found["step_100.pt"]["problem"] == ""
    assert not found["step_200.pt"]["complete"]
    assert "the file is cut off" in found["step_200.pt"]["problem"]
    (saved / "step_200.pt").write_bytes(GOOD)
    assert node.checkpoints()["step_200.pt"]["problem"] == "", "it is not the one that was judged"
    eventually(lambda: node.checkpoints()["step_200.pt"]["complete"], "it is whole by now")


def test_directories_are_judged_with_all_that_is_in_them(node: Node, saved: Path) -> None:
    for name, made in (("step-1", sharded), ("step-2", distributed), ("step-3", sharded)):
        (saved / name).mkdir()
        made(saved / name)
    (saved / "step-3" / "model-00001-of-00003.safetensors").unlink()
    (saved / "latest").write_text("step-2")
    (saved / "zero_to_fp32.py").write_text("print()")
    (saved / "step-4.orbax-checkpoint-tmp-17").mkdir()
    node.launch("exit 0", checkpoint_dir=str(saved))
    node.ended()
    found = node.checkpoints()
    complete = {name: one["complete"] for name, one in found.items()}
    assert complete == {"step-1": True, "step-2": True, "step-3": False}
    assert "model-00001-of-00003.safetensors is missing" in found["step-3"]["problem"]


def test_how_long_it_took_is_told_where_somebody_saw_it_begin(
    node: Node, saved: Path, tmp_path: Path
) -> None:
    (saved / "step_1.pt").write_bytes(GOOD)
    script = (
        "cd $CARREL_CHECKPOINT_DIR; printf half > .new; echo ready; read line < ../go\n"
        "printf whole >> .new; mv .new step_2.bin; sleep 600"
    )
    with gate(tmp_path / "go") as go:
        node.launch(script, checkpoint_dir=str(saved))
        node.says(b"ready")
        assert "step_2.bin" not in node.checkpoints()
        # Time stamps of files lag behind by a tick.
        looked_at = time.time()
        eventually(lambda: time.time() > looked_at + 0.1, "some time has passed")
        go()
        found = eventually(
            lambda: (one := node.checkpoints()).get("step_2.bin", {}).get("complete") and one,
            "the second is complete",
        )
    assert found["step_2.bin"]["write_s"] > 0
    assert found["step_1.pt"]["write_s"] is None
    assert node.checkpoints()["step_2.bin"]["write_s"] == found["step_2.bin"]["write_s"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    spool = Spool(str(tmp_path / "spool"))
    spool.prepare()
    one = spool.run("j1.a1.n0")
    Path(one.dir).mkdir()
    return one


def entry(saved: Path, name: str = "step_1.pt", data: bytes = GOOD) -> checkpoints.Entry:
    (saved / name).write_bytes(data)
    return checkpoints.Entry(name, str(saved / name))


def test_what_was_judged_is_not_looked_into_again(
    run: Run, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = entry(saved), entry(saved, "step_2.pt", GOOD[:-1])
    memory = Memory(run)
    memory.judge([good, bad], 60, False)
    memory.keep([good, bad], [], 1000.0)
    again = Memory(run)
    assert (again.knows(good), again.is_complete(good)) == (True, True)
    assert (again.knows(bad), again.is_complete(bad)) == (True, False)
    assert "cut off" in again.problem(bad)
    again.keep([bad], [], 1000.0)
    assert not Memory(run).knows(good), "it is no longer there"


def test_what_cannot_be_read_now_is_tried_again(
    run: Run, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: str, is_dir: bool) -> str:
        raise OSError(5, "Input/output error")

    one = entry(saved)
    monkeypatch.setattr(whole, "problem", fails)
    memory = Memory(run)
    memory.judge([one], 60, False)
    assert (memory.knows(one), memory.problem(one)) == (False, "")
    memory.judge([one], 60, True)
    assert memory.problem(one) == "it cannot be read: Input/output error"


def test_what_there_is_no_time_for_waits_for_the_next_look(run: Run, saved: Path) -> None:
    one, memory = entry(saved), Memory(run)
    memory.judge([one], 0, False)
    assert not memory.knows(one)
    memory.judge([one], 0, True)
    assert memory.problem(one) == seen.NO_TIME


@pytest.mark.parametrize(
    "kept",
    [
        {"complete": 7, "bad": [], "since": None, "took": "x"},
        {"complete": {"step_1.pt": 7}, "bad": {"step_1.pt": 7}, "since": {"1": []}},
        {"bad": {"step_1.pt": []}, "took": {"step_1.pt": "soon"}},
    ],
)
def test_what_the_job_wrote_over_is_not_believed(
    run: Run, saved: Path, kept: dict[str, Any]
) -> None:
    one = entry(saved)
    run.write("seen.json", kept)
    memory = Memory(run)
    assert not memory.knows(one)
    memory.judge([one], 60, False)
    memory.keep([one], [one.inode], 1000.0)
    assert memory.is_complete(one)
    assert one.as_json("k", memory)["write_s"] is None


def test_what_makes_no_sense_is_told_in_few_words(
    run: Run, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confused(path: str, is_dir: bool) -> str:
        if path.endswith("1.pt"):
            raise RecursionError("maximum recursion depth exceeded")
        return "x" * 10_000

    found = [entry(saved), entry(saved, "step_2.pt")]
    monkeypatch.setattr(whole, "problem", confused)
    memory = Memory(run)
    memory.judge(found, 60, False)
    assert [memory.problem(one) for one in found] == [
        "it makes no sense: RecursionError",
        "x" * seen.LONGEST,
    ]
