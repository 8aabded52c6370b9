"""What is cut off or damaged is never taken for whole, whatever is left of it."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.shepherd import formats, whole

PLAIN = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
INSIDE = st.lists(st.binary(max_size=300), min_size=1, max_size=6)


def zipped(members: list[bytes], *, large: bool = False) -> bytes:
    """As `torch.save` writes it: members stored one after the other."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for number, data in enumerate(members):
            with archive.open(f"archive/data/{number}", "w", force_zip64=large) as member:
                member.write(data)
    return stream.getvalue()


def with_large_end(archive: bytes) -> bytes:
    """The same with a zip64 end record before the usual one, as PyTorch adds it to all."""
    end = archive.rindex(b"PK\5\6")
    count, length, start = struct.unpack_from("<HII", archive, end + 10)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, length, start)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    return archive[:end] + record + locator + archive[end:]


def tensors(parts: list[bytes]) -> bytes:
    at, header = 0, {"__metadata__": {"format": "pt"}}
    for number, data in enumerate(parts):
        shape = [len(data)]
        facts = {"dtype": "U8", "shape": shape, "data_offsets": [at, at + len(data)]}
        header[f"layer.{number}"] = facts  # type: ignore[assignment]
        at += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def problem(directory: Path, name: str, data: bytes) -> str:
    path = directory / name
    path.write_bytes(data)
    return whole.problem(str(path), False)


@PLAIN
@given(members=INSIDE, large=st.booleans(), record=st.booleans(), cut=st.data())
def test_every_cut_of_a_zip_is_found(
    tmp_path: Path, members: list[bytes], large: bool, record: bool, cut: st.DataObject
) -> None:
    archive = zipped(members, large=large)
    archive = with_large_end(archive) if record else archive
    assert problem(tmp_path, "a.pt", archive) == ""
    length = cut.draw(st.integers(0, len(archive) - 1))
    assert problem(tmp_path, "a.pt", archive[:length]).startswith("the file ")


def test_an_archive_inside_does_not_end_the_outer_one(tmp_path: Path) -> None:
    inner = zipped([b"weights"])
    outer = zipped([b"before", inner, b"after" * 100])
    assert problem(tmp_path, "a.ckpt", outer) == ""
    assert "is cut off" in problem(tmp_path, "a.ckpt", outer[: outer.index(inner) + len(inner)])


@PLAIN
@given(parts=st.lists(st.binary(max_size=100), max_size=6), cut=st.data())
def test_every_cut_of_a_safetensors_file_is_found(
    tmp_path: Path, parts: list[bytes], cut: st.DataObject
) -> None:
    data = tensors(parts)
    assert problem(tmp_path, "a.safetensors", data) == ""
    length = cut.draw(st.integers(0, len(data) - 1))
    assert problem(tmp_path, "a.safetensors", data[:length])
    assert "longer" in problem(tmp_path, "a.safetensors", data + b"\0")


def test_what_python_and_numpy_write_is_whole(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weights=np.zeros(1000), bias=np.ones(3))
    np.savez_compressed(tmp_path / "b.npz", weights=np.zeros(1000))
    assert [whole.problem(str(tmp_path / name), False) for name in ("a.npz", "b.npz")] == ["", ""]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.pt", b"", "the file is empty"),
        ("a.safetensors", b"", "the file is empty"),
        ("A.PTH", b"\0" * 5000, "the file begins with zeros"),
        ("a.bin", b"\0" * 3, "the file begins with zeros"),
        ("a.safetensors", b"\0" * 5000, "the file begins with zeros"),
        ("a.safetensors", struct.pack("<Q", 9) + b"no header", "its header makes no sense"),
        ("a.safetensors", struct.pack("<Q", 1 << 62) + b"{}", "its header is not all there"),
        ("a.safetensors", struct.pack("<Q", 200000) + b"[" * 200000, "makes no sense"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    assert words in problem(tmp_path, name, data)


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ([[0, 4], [3, 7]], "one after the other"),
        ([[0, 4], [5, 9]], "one after the other"),
        ([[4, 0]], "one after the other"),
        ([[0, "4"]], "makes no sense"),
        ([7], "makes no sense"),
    ],
)
def test_tensors_that_overlap_or_leave_gaps(
    tmp_path: Path, offsets: list[object], words: str
) -> None:
    header = {str(number): {"data_offsets": pair} for number, pair in enumerate(offsets)}
    text = json.dumps(header).encode()
    data = struct.pack("<Q", len(text)) + text + bytes(9)
    assert words in problem(tmp_path, "a.safetensors", data)


def test_a_member_that_was_never_written_out_is_found(tmp_path: Path) -> None:
    archive = bytearray(zipped([b"first", b"second" * 100]))
    second = archive.index(b"PK\3\4", 4)
    archive[second : second + 600] = bytes(600)
    assert "does not begin where it should" in problem(tmp_path, "a.pt", bytes(archive))


def test_of_what_cannot_be_proven_nothing_is_said(tmp_path: Path) -> None:
    old = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2) + b"storages follow"
    assert problem(tmp_path, "a.pt", old) == ""
    assert problem(tmp_path, "a.pt", b"weights\n") == ""
    assert problem(tmp_path, "a.h5", b"") == ""


def test_a_header_too_long_to_read_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "MAX_DIRECTORY", 16)
    data, archive = tensors([b"weights"]), zipped([b"weights"])
    assert problem(tmp_path, "a.safetensors", data) == ""
    assert problem(tmp_path, "a.safetensors", data[:20])
    assert problem(tmp_path, "a.pt", archive) == ""
    assert problem(tmp_path, "a.pt", archive[:-1])
