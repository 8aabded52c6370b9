"""What is started is exactly what was asked for, and is started once."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from jobs.shepherd.spool import Spool
from tests.jobs.shepherd.node import Node, eventually, gate, read_all, spec, tail

AWKWARD = {
    "QUOTES": 'it\'s "so" `id` $(touch /tmp/never) $HOME \\n',
    "LINES": "one\ntwo\r\nthree\ttab",
    "UNICODE": "Grüße, 世界 🐑",
    "EMPTY": "",
    "SPACES": "  a  b  ",
}


def test_the_answer_tells_when_it_started(node: Node) -> None:
    launched = node.launch("sleep 600")
    assert launched["accepted"]
    assert launched["started_at"] == node.observe()["started_at"] > 0


def test_a_script_ends_with_its_own_exit_code(node: Node) -> None:
    node.launch("echo out; echo err >&2; exit 7")
    run = node.ended()
    assert (run["cause"], run["exit_code"], run["signal"]) == ("exited", 7, None)
    assert tail(run) == b"out\nerr\n"
    assert run["log_bytes"] == 8
    assert run["ended_at"] >= run["started_at"]


def test_a_signal_is_told_as_one(node: Node) -> None:
    node.launch("kill -SEGV $$")
    run = node.ended()
    assert (run["cause"], run["exit_code"], run["signal"]) == ("exited", None, signal.SIGSEGV)


def test_environment_arrives_to_the_byte(node: Node, tmp_path: Path) -> None:
    dump = tmp_path / "environment"
    node.launch(
        f"#!/bin/sh\ncat /proc/self/environ > {dump}",
        environment=AWKWARD,
        tasks=[{"RANK": "0"}],
        workdir=str(tmp_path),
        checkpoint_dir=str(tmp_path / "saved"),
    )
    assert node.ended()["exit_code"] == 0
    seen = dict(one.split(b"=", 1) for one in dump.read_bytes().split(b"\0") if one)
    assert {name: seen[name.encode()].decode() for name in AWKWARD} == AWKWARD
    assert seen[b"RANK"] == b"0"
    assert seen[b"SLURM_SUBMIT_DIR"] == bytes(tmp_path)
    assert seen[b"CARREL_RUN"] == b"j1.a1.n0"
    assert seen[b"CARREL_CHECKPOINT_DIR"] == bytes(tmp_path / "saved")
    assert (tmp_path / "saved").is_dir()


def test_a_bare_login_gets_the_usual_variables_and_none_of_the_connection(node: Node) -> None:
    node.environment = {"SSH_CONNECTION": "1.2.3.4", "CARREL_SECRET_KEY": "secret"}
    node.launch("env")
    lines = tail(node.ended()).decode().splitlines()
    names = {line.split("=")[0] for line in lines}
    assert {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD"} <= names
    assert not names & {"SSH_CONNECTION", "CARREL_SECRET_KEY"}


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("printf '%s' \"$0\" | tail -c 6", b"script"),
        ("#!/usr/bin/env python3\nprint('Grüße')", "Grüße\n".encode()),
        ("printf a\r\n", b"a\r"),
        ("cat", b""),
        ("test -t 0 || ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && printf own", b"own"),
    ],
    ids=["bash", "its own program", "line ends stay", "no input", "its own session"],
)
def test_scripts_run_as_written(node: Node, script: str, printed: bytes) -> None:
    node.environment["LC_ALL"] = "C.UTF-8"
    node.launch(script)
    assert tail(node.ended()) == printed


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"workdir": "/no/such/place"}, "working directory /no/such/place: No such file"),
        ({"script": "#!/no/such/program\n"}, "has no program '/no/such/program'"),
        ({"script": "#!/bin/sh\r\necho"}, "has no program '/bin/sh\\r'"),
        ({"environment": {"A": "x\0y"}}, "variable A holds a NUL byte"),
        ({"environment": {"A=B": ""}}, "'A=B' cannot be the name"),
        ({"checkpoint_dir": "/proc/no"}, "cannot make the checkpoint directory /proc/no"),
        ({"stdout": "/no/such/file"}, "cannot open the output file /no/such/file"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_start_says_why(node: Node, fields: dict[str, object], words: str) -> None:
    launched = node.launch(**{"script": "echo never", **fields})  # type: ignore[arg-type]
    assert launched["started_at"] is None
    run = node.ended()
    assert run["cause"] == "launch_failed"
    assert words in run["message"]
    assert run["message"] in launched["message"]
    assert words.encode() in tail(run)
    assert b"never\n" not in tail(run)


def test_tasks_have_ranks_and_the_first_failure_ends_the_others(node: Node, tmp_path: Path) -> None:
    tasks = [{"RANK": str(rank)} for rank in range(3)]
    go = tmp_path / "go"
    script = f"echo rank $RANK; [ $RANK = 1 ] && read < {go} && exit 5; exec sleep 600"
    with gate(go) as let_go_on:
        node.launch(script, tasks=tasks)
        for rank in range(3):
            node.says(b"rank %d\n" % rank)
        let_go_on()
        run = node.ended()
    assert (run["cause"], run["exit_code"]) == ("exited", 5)
    assert run["message"] == "task 1 of 3 was the first to fail"


def test_a_second_launch_starts_nothing(node: Node, tmp_path: Path) -> None:
    script = f"echo ran >> {tmp_path / 'count'}; sleep 600"
    first = node.launch(script)
    eventually((tmp_path / "count").exists, "the first line")
    assert node.launch(script) == first
    node.stop(grace_s=0)
    node.ended()
    assert node.launch(script)["started_at"] == first["started_at"]
    assert (tmp_path / "count").read_text() == "ran\n"


def test_concurrent_launchers_start_each_run_once(node: Node, tmp_path: Path) -> None:
    count = tmp_path / "count"
    launches = [spec(f"echo {n} >> {count}", f"j{n}.a1.n0") for n in range(20)]
    callers = [node.start("launch", {"launches": launches}) for _ in range(4)]
    for caller in callers:
        caller.communicate(timeout=60)
    for launch in launches:
        assert node.ended(launch["key"])["exit_code"] == 0
    assert sorted(count.read_text().split(), key=int) == [str(n) for n in range(20)]


def test_a_launcher_killed_at_any_point_leaves_a_definite_state(node: Node, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.touch()
    keys = [f"j{n}.a1.n0" for n in range(60)]
    launches = [spec(f"echo {key} >> {count}", key) for key in keys]
    caller = node.start("launch", {"launches": launches})
    eventually(node.run_dir(keys[3]).exists, "the launch is on its way", every_s=0)
    caller.kill()
    caller.communicate(timeout=60)

    def settled() -> dict[str, dict[str, object]] | None:
        runs = {run["key"]: run for run in node.call("observe", keys=keys)["runs"]}
        going_on = {run["phase"] for run in runs.values()} & {"running", "unknown"}
        return None if going_on else runs

    runs = eventually(settled, "every run has a definite state")
    ran = count.read_text().split()
    for key, run in runs.items():
        if run["phase"] == "absent":
            assert key not in ran
        elif run["cause"] == "not_begun":
            assert key not in ran
            assert "nothing was started" in str(run["message"])
        else:
            assert (run["cause"], ran.count(key)) == ("exited", 1)
    # The repeat starts what was not reached, and nothing else.
    node.call("launch", launches=launches)
    for key in keys:
        node.ended(key)
    assert len(count.read_text().split()) == len(set(count.read_text().split()))
    absent = [key for key, run in runs.items() if run["phase"] == "absent"]
    assert set(count.read_text().split()) == set(ran) | set(absent)


def test_a_launcher_killed_right_after_the_guard_has_begun_nothing(node: Node) -> None:
    node.launch("true", key="j2.a1.n0")
    node.ended("j2.a1.n0")
    node.run_dir().mkdir()
    assert (node.observe()["phase"], node.observe()["cause"]) == ("exited", "not_begun")
    assert node.launch("true")["started_at"] is None


def test_a_late_launch_forestalls_one_that_has_only_made_the_directory(node: Node) -> None:
    spool = Spool(str(node.spool))
    spool.prepare()
    # We are that other launch, which is still at it.
    presence = spool.announce_launcher()
    node.run_dir().mkdir()
    assert not node.launch("true", late=True)["accepted"]
    assert not spool.run("j1.a1.n0").take("begun", spool.identity(1, 1))
    assert (node.observe()["phase"], node.observe()["cause"]) == ("exited", "not_begun")
    spool.leave(presence)


@pytest.mark.parametrize("late", [False, True])
def test_what_lives_without_its_directory_is_not_started_again_nor_said_not_to_have_begun(
    node: Node, tmp_path: Path, late: bool
) -> None:
    script = f"echo ran >> {tmp_path / 'count'}; sleep 600"
    node.launch(script)
    eventually((tmp_path / "count").exists, "the first line")
    shutil.rmtree(node.run_dir())
    assert node.launch(script, late=late)["accepted"]
    assert node.observe()["phase"] == "unknown"
    assert not node.run_dir().exists()
    assert (tmp_path / "count").read_text() == "ran\n"


def test_a_launch_answers_while_its_jobs_hold_nothing_of_the_connection(node: Node) -> None:
    caller = node.start("launch", {"launches": [spec("sleep 600", "j1.a1.n0")]})
    assert caller.stdout is not None
    assert b'"ok": true' in read_all(caller.stdout)  # Ends: nobody else holds the pipe.
    assert caller.wait(timeout=60) == 0


def test_bad_calls_are_answered_in_words(node: Node) -> None:
    assert "usage" in node.ask("dance")["error"]
    assert "BadKey" in node.ask("observe", keys=["../../etc"])["error"]
    launched = node.call("launch", launches=[spec("true", "a/b"), {"key": "j1.a1.n0"}])["launched"]
    assert [one["accepted"] for one in launched] == [False, False]
    assert "letters, digits" in launched[0]["message"]
    assert "lacks 'script'" in launched[1]["message"]
    assert node.observe()["phase"] == "absent"
    done = subprocess.run(
        node.argv("observe"), input=b"many\n{}", stdout=subprocess.PIPE, check=True
    )
    assert b"length in bytes" in done.stdout
