"""Logs: whole, capped where asked, readable in parts."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

from tests.jobs.shepherd.node import Node, eventually, tail

MIB = 1024 * 1024


def _read(node: Node, offset: int, length: int) -> tuple[int, bytes, int]:
    part = node.call("read", ranges=[{"key": "j1.a1.n0", "offset": offset, "length": length}])
    one = part["ranges"][0]
    return one["offset"], base64.b64decode(one["data"]), one["size"]


def test_binary_output_is_kept_to_the_byte(node: Node, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "data").write_bytes(data)
    node.launch(f"cat {tmp_path / 'data'}; (sleep 0.1; printf end) & wait")
    run = node.ended()
    assert node.log() == data + b"end"
    assert run["log_bytes"] == 300_003
    assert run["log_tail"] is None  # It is not small.


def test_parts_of_a_log(node: Node) -> None:
    node.launch("seq 1 200000")
    node.ended()
    whole = node.log()
    size = len(whole)
    assert _read(node, 0, 10) == (0, whole[:10], size)
    assert _read(node, 1000, 77) == (1000, whole[1000:1077], size)
    assert _read(node, -5, 100) == (size - 5, whole[-5:], size)
    assert _read(node, -10 * size, 4) == (0, whole[:4], size)
    assert _read(node, size + 9, 4) == (size, b"", size)
    assert len(_read(node, 0, 10 * MIB)[1]) == MIB
    assert node.call("read", ranges=[{"key": "j9.a1.n0", "offset": 3, "length": 9}])["ranges"] == [
        {"key": "j9.a1.n0", "offset": 0, "data": "", "size": 0}
    ]


def test_a_flood_is_cut_at_the_cap_and_keeps_its_end(node: Node) -> None:
    node.launch("head -c 200000000 /dev/zero | tr '\\0' x; printf '\\nlast words\\n'",
                log_cap_bytes=MIB)  # fmt: skip
    run = node.ended()
    log = node.log()
    assert run["exit_code"] == 0
    assert run["log_bytes"] == len(log) < MIB + 256 * 1024 + 1000
    assert log[:MIB] == b"x" * MIB
    assert log.endswith(b"\nlast words\n")
    said = re.findall(rb"\[carrel\] log cap of 1 MiB reached: (.*)\n", log)
    assert said[0].startswith(b"from here on output is left out")
    assert said[1] == b"189.5 MiB left out here; the last 256 KiB follow"
    assert len(log.partition(said[1] + b"\n")[2]) == 256 * 1024


def test_a_log_just_over_the_cap_loses_nothing(node: Node) -> None:
    node.launch("printf 'abcdefghij'", log_cap_bytes=4)
    log = tail(node.ended())
    assert log.startswith(b"abcd\n[carrel] log cap of 4 bytes reached")
    assert log.endswith(b"0 bytes left out here; the last 6 bytes follow\nefghij")


def test_the_users_own_files_get_everything_too(node: Node, tmp_path: Path) -> None:
    (tmp_path / "err.txt").write_text("before\n")
    node.launch(
        "echo out; echo err >&2",
        workdir=str(tmp_path),
        stdout="Ausgabe 1.txt",
        stderr=str(tmp_path / "err.txt"),
    )
    assert sorted(tail(node.ended()).splitlines()) == [b"err", b"out"]
    assert (tmp_path / "Ausgabe 1.txt").read_text() == "out\n"
    assert (tmp_path / "err.txt").read_text() == "before\nerr\n"


def test_one_file_takes_both_in_order(node: Node, tmp_path: Path) -> None:
    node.launch("echo 1; echo 2 >&2; echo 3", workdir=str(tmp_path), stdout="both")
    node.ended()
    assert (tmp_path / "both").read_text() == "1\n2\n3\n"


def test_a_full_disk_stops_neither_the_job_nor_the_log(node: Node) -> None:
    node.launch("for i in 1 2 3; do echo $i; sleep 0.1; done", stdout="/dev/full")
    run = node.ended()
    assert (run["exit_code"], tail(run)) == (0, b"1\n2\n3\n")
    assert run["message"] == "part of /dev/full could not be written: No space left on device"


def test_the_log_is_there_while_it_runs(node: Node) -> None:
    node.launch("echo one; sleep 600")
    node.says(b"one\n")
    assert node.observe()["log_bytes"] == 4
    assert node.observe()["log_tail"] is None


def test_output_of_a_job_that_closes_its_streams_does_not_end_it(node: Node) -> None:
    node.launch("echo one; exec >&- 2>&-; sleep 1; exit 6")
    assert node.ended()["exit_code"] == 6
    eventually(lambda: node.log() == b"one\n", "its log")


def test_a_pipe_without_a_reader_is_no_file_for_the_output(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    node.launch("echo hello; sleep 600", stdout=str(tmp_path / "pipe"))
    run = node.ended()
    assert run["cause"] == "launch_failed"
    assert "No such device or address" in run["message"]


def test_a_pipe_that_is_not_read_keeps_no_job_from_its_end(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        node.launch("head -c 1000000 /dev/zero", stdout=str(tmp_path / "pipe"))
        run = node.ended()
    finally:
        os.close(reader)
    assert (run["exit_code"], run["log_bytes"]) == (0, 1_000_000)
    assert "pipe could not be written" in run["message"]


def test_a_pipe_in_place_of_the_log_holds_nobody_up(node: Node) -> None:
    node.launch('rm "$CARREL_RUN_DIR/log"; mkfifo "$CARREL_RUN_DIR/log"')
    node.ended()
    answer = node.ask("read", ranges=[{"key": "j1.a1.n0", "offset": 0, "length": 9}])
    assert not answer["ok"]
