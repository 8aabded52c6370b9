"""A directory is whole when everything is there that its manifest or index names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.shepherd import whole
from tests.jobs.shepherd.test_formats import tensors, zipped

WEIGHTS = tensors([b"weights"])


@pytest.fixture
def top(tmp_path: Path) -> Path:
    path = tmp_path / "step-500"
    path.mkdir()
    return path


def problem(top: Path) -> str:
    return whole.problem(str(top), True)


def sharded(top: Path) -> None:
    """As Hugging Face writes a large model."""
    names = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    for name in names:
        (top / name).write_bytes(WEIGHTS)
    index = {"weight_map": {f"layer.{n}": name for n, name in enumerate(names * 2)}}
    (top / "model.safetensors.index.json").write_text(json.dumps(index))
    (top / "optimizer.pt").write_bytes(zipped([b"moments"]))


def distributed(top: Path) -> None:
    """As PyTorch's distributed checkpoints lie there."""
    for rank in range(3):
        (top / f"__{rank}_0.distcp").write_bytes(b"tensors")
    inside = b"\x8c\x0c__0_0.distcp\x94K\x00\x8c\x0c__1_0.distcp\x94K\x00\x8c\x0c__2_0.distcp\x94"
    (top / ".metadata").write_bytes(b"\x80\x04\x95" + inside + b".")


def manifested(top: Path) -> None:
    (top / "parts").mkdir()
    (top / "state.json").write_bytes(b'{"step": 500}')
    (top / "parts" / "weights").write_bytes(b"weights")
    sums = hashlib.sha256(b"weights").hexdigest()
    files = {"state.json": {"size": 13}, "parts/weights": {"size": 7, "sha256": sums}}
    (top / "carrel-manifest.json").write_text(json.dumps({"files": files}))


def deepspeed(top: Path) -> None:
    (top / "global_step500").mkdir()
    states = top / "global_step500" / "mp_rank_00_model_states.pt"
    states.write_bytes(zipped([b"weights"]))
    (top / "latest").write_text("global_step500")


def orbax(top: Path) -> None:
    times = {"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}
    (top / "_CHECKPOINT_METADATA").write_text(json.dumps(times))
    (top / "state").mkdir()
    (top / "state" / "manifest.ocdbt").write_bytes(b"tensors")


@pytest.mark.parametrize("made", [sharded, distributed, manifested, deepspeed, orbax])
def test_what_is_all_there_is_whole(top: Path, made: Callable[[Path], None]) -> None:
    made(top)
    assert problem(top) == ""


def cut(top: Path, name: str) -> None:
    path = top / name
    path.write_bytes(path.read_bytes()[:-3])


def remove(top: Path, name: str) -> None:
    (top / name).unlink()


def empty(top: Path, name: str) -> None:
    (top / name).write_bytes(b"")


def same_size(top: Path, name: str) -> None:
    (top / name).write_bytes(b"w3ights")


SHARD = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("made", "harm", "name", "words"),
    [
        (sharded, remove, SHARD, f"{SHARD} is missing, which {INDEX} names"),
        (sharded, cut, SHARD, f"{SHARD} is cut off: 3 of its bytes are missing"),
        (sharded, cut, INDEX, f"{INDEX} is cut off or damaged"),
        (sharded, empty, "optimizer.pt", "optimizer.pt is empty"),
        (distributed, remove, ".metadata", ".metadata is missing, which PyTorch writes"),
        (distributed, cut, ".metadata", ".metadata is cut off or damaged"),
        (distributed, remove, "__1_0.distcp", "__1_0.distcp is missing, which .metadata names"),
        (distributed, empty, "__2_0.distcp", "__2_0.distcp is empty"),
        (manifested, remove, "state.json", "state.json is missing, which carrel-manifest.json"),
        (manifested, cut, "state.json", "state.json has 10 bytes, and carrel-manifest.json says"),
        (manifested, same_size, "parts/weights", "parts/weights differs from its checksum"),
        (manifested, cut, "carrel-manifest.json", "carrel-manifest.json is cut off or damaged"),
        (deepspeed, cut, "global_step500/mp_rank_00_model_states.pt", "states.pt is cut off"),
        (deepspeed, empty, "latest", "the file latest is empty"),
        (deepspeed, cut, "latest", "global_step is missing, which the file latest names"),
        (orbax, cut, "_CHECKPOINT_METADATA", "_CHECKPOINT_METADATA is cut off or damaged"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(
    top: Path,
    made: Callable[[Path], None],
    harm: Callable[[Path, str], None],
    name: str,
    words: str,
) -> None:
    made(top)
    harm(top, name)
    assert words in problem(top)


def test_orbax_commits_by_time_or_by_file(top: Path) -> None:
    orbax(top)
    times = {"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": None}
    (top / "_CHECKPOINT_METADATA").write_text(json.dumps(times))
    assert problem(top) == "Orbax has not committed it"
    (top / "commit_success.txt").write_text("Checkpoint commit was successful")
    assert problem(top) == ""


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", "", "a\0b", 7])
def test_a_manifest_names_only_what_is_inside(top: Path, name: object) -> None:
    if name == 7:
        (top / INDEX).write_text(json.dumps({"weight_map": {"a": "../secret"}}))
    else:
        manifest = {"files": {name: {"size": 1}}}
        (top / "carrel-manifest.json").write_text(json.dumps(manifest))
    assert "names what cannot be a part of it" in problem(top)


@pytest.mark.parametrize(
    "told", [[], {}, {"files": []}, {"files": {"a": 7}}, {"files": {"a": {"size": []}}}]
)
def test_a_manifest_of_another_form_proves_nothing(top: Path, told: object) -> None:
    (top / "a").write_bytes(b"")
    (top / "carrel-manifest.json").write_text(json.dumps(told))
    assert "carrel-manifest.json makes no sense" in problem(top)


def test_of_large_files_the_size_has_to_do(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifested(top)
    same_size(top, "parts/weights")
    monkeypatch.setattr(whole, "HASHED", 6)
    assert problem(top) == ""


def test_an_empty_directory_is_no_checkpoint(top: Path) -> None:
    (top / "inside").mkdir()
    assert problem(top) == "nothing is in it"


def test_links_pipes_and_strange_names_do_no_harm(top: Path) -> None:
    sharded(top)
    (top / "latest").symlink_to(".")
    os.mkfifo(top / "pipe.pt")
    (top / "link.pt").symlink_to(top / "optimizer.pt")
    (top / os.fsdecode(b"\xff.txt")).write_bytes(b"")
    (top / "other.index.json").write_text("[]")
    assert problem(top) == ""
