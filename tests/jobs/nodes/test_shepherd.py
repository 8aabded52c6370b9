"""How the shepherd gets to a node, and what is made of whatever a node answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.engines.ssh import ShepherdEngine
from jobs.nodes.local import LocalTransport
from jobs.nodes.memory import Call, MemoryTransport
from jobs.nodes.probe import probe
from jobs.nodes.shepherd import Shepherd
from jobs.nodes.transport import CommandFailed, Completed, NoPython, NoRoute
from jobs.shepherd import FILENAME, PROGRAM

SEEN = {"boot_id": "b", "at": 1, "runs": [], "ok": True}


def node(stdout: bytes, *, code: int = 0, stderr: bytes = b"") -> MemoryTransport:
    return MemoryTransport({"python3": lambda call: Completed(code, stdout, stderr)})


def answering(answer: object) -> Shepherd:
    return Shepherd(node(json.dumps(answer).encode() + b"\n"), "/spool")


def test_a_request_says_its_length() -> None:
    transport = node(b'{"ok": true}\n')
    assert Shepherd(transport, "/spool").ask("observe", {"keys": ["ü"]}, timeout_s=5) == {}
    (call,) = transport.calls
    assert call.argv == ("python3", "-I", "-S", f"/spool/{FILENAME}", "observe", "/spool")
    length, _, body = call.stdin.partition(b"\n")
    assert int(length) == len(body)
    assert json.loads(body) == {"keys": ["ü"]}


@pytest.mark.parametrize(
    "noise",
    [
        b"Welcome to node7!\n\n",
        b'Welcome {"not": json}\n',
        b"No newline at its end ",
        b'{"ok": "a greeting in JSON"}\n',
        b"\x1b[1m\xff\xfe\n",
    ],
)
def test_a_greeting_before_the_answer(noise: bytes) -> None:
    shepherd = Shepherd(node(noise + b'{"boot_id": "x {\\"y\\": 1}", "ok": true}\n'), "/spool")
    assert shepherd.ask("observe", {}, timeout_s=5) == {"boot_id": 'x {"y": 1}'}


@pytest.mark.parametrize(
    "rubbish",
    [
        b"This account is currently not available.\n",
        b'{"boot_id": "x", "runs": [{"key"',
        b"[1, 2]\n",
        b'{"no": "ok"}\n',
        b'{"at": NaN, "ok": true}\n',
        b"{" * 50_000,
        bytes(range(256)) * 20,
    ],
)
def test_rubbish(rubbish: bytes) -> None:
    with pytest.raises(CommandFailed) as caught:
        Shepherd(node(rubbish), "/spool").ask("observe", {}, timeout_s=5)
    assert "no answer but this" in caught.value.message
    assert len(caught.value.message) < 500
    assert caught.value.message.isprintable()


def test_what_a_shell_said_is_told() -> None:
    with pytest.raises(CommandFailed, match="not available / no really"):
        Shepherd(node(b"not available\n", stderr=b"no really"), "/spool").ask(
            "observe", {}, timeout_s=5
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"boot_id": 5}, "observe.boot_id is a int, not a str"),
        ({"runs": {}}, "observe.runs is a dict, not a list"),
        ({"runs": [{"key": "k"}]}, "runs\\[0\\] has no phase"),
        ({"runs": [{"key": "k", "phase": "dancing"}]}, "phase is 'dancing', not one of running"),
        ({"runs": [{"key": "k", "phase": "running", "log_tail": "%"}]}, "log_tail is not base64"),
        ({"at": True}, "observe.at is a bool"),
        ({"runs": [{"key": "other", "phase": "running"}]}, "other runs"),
    ],
)
def test_answers_of_the_wrong_type(change: dict[str, object], words: str) -> None:
    engine = ShepherdEngine(node(json.dumps({**SEEN, **change}).encode()), "/spool")
    with pytest.raises(CommandFailed, match=words):
        engine.observe([])


def test_text_that_no_database_takes() -> None:
    problems = ["a\0b", "\udcff"]
    engine = ShepherdEngine(node(json.dumps({**SEEN, "problems": problems}).encode()), "/spool")
    for text in engine.observe([]).problems:
        assert "\0" not in text
        text.encode()


def test_fields_of_a_newer_version_are_passed_over() -> None:
    answer = {**SEEN, "colour": "red", "runs": [{"key": "k", "phase": "absent", "mood": 1}]}
    engine = ShepherdEngine(node(json.dumps(answer).encode()), "/spool")
    assert engine.observe(["k"]).runs[0].key == "k"


def test_its_own_error() -> None:
    with pytest.raises(CommandFailed, match="observe: disk on fire"):
        answering({"ok": False, "error": "disk on fire"}).ask("observe", {}, timeout_s=5)


def test_no_python() -> None:
    with pytest.raises(NoPython, match="not found"):
        Shepherd(MemoryTransport(), "/spool").ask("probe", {}, timeout_s=5)


def test_a_python_too_old_is_told_after_the_program_was_sent_again() -> None:
    transport = node(b"", code=1, stderr=b"  File x\nSyntaxError: invalid syntax\n")
    with pytest.raises(NoPython, match="too old") as caught:
        Shepherd(transport, "/spool").ask("probe", {}, timeout_s=5)
    assert "3.6" in caught.value.advice
    assert transport.files == {f"/spool/{FILENAME}": (PROGRAM, 0o600)}


def test_errors_of_the_way_there_stay_what_they_are() -> None:
    transport = node(b"")
    transport.fail_with(NoRoute("cut off"))
    with pytest.raises(NoRoute):
        probe(transport, "/spool")


@pytest.mark.parametrize("spool", ["relative", "", "/", "~/", "~user/x", "/a\0b"])
def test_spools_that_are_none(spool: str) -> None:
    with pytest.raises(ValueError, match="spool"):
        Shepherd(MemoryTransport(), spool)


def test_sent_once_and_again_when_it_is_torn(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    shepherd = Shepherd(LocalTransport(home), "~/.carrel/spool")
    program = tmp_path / ".carrel/spool" / FILENAME
    assert shepherd.directory() == str(tmp_path / ".carrel/spool")
    shepherd.ask("observe", {"keys": []}, timeout_s=30)
    first = program.stat()
    Shepherd(LocalTransport(home), "~/.carrel/spool").ask("observe", {"keys": []}, timeout_s=30)
    assert program.stat().st_ino == first.st_ino
    for torn in (b"", PROGRAM[: len(PROGRAM) // 2]):
        program.write_bytes(torn)
        shepherd.ask("observe", {"keys": []}, timeout_s=30)
        assert program.read_bytes() == PROGRAM


def test_watch_sends_the_program_too(tmp_path: Path) -> None:
    changes = Shepherd(LocalTransport(), str(tmp_path / "spool")).watch()
    assert next(changes) == ""
    changes.close()  # type: ignore[attr-defined]


def test_watch_over_a_greeting_and_to_an_error() -> None:
    def lines(call: Call):  # type: ignore[no-untyped-def]
        yield b'Welcome\n{}\n{"key": "j1.a1.n0"}\n{"ok": false, "error": "no more"}\n'

    changes = Shepherd(MemoryTransport({}, {"python3": lines}), "/spool").watch()
    assert [next(changes), next(changes)] == ["", "j1.a1.n0"]
    with pytest.raises(CommandFailed, match="no more"):
        next(changes)


def test_home_behind_a_greeting() -> None:
    def sh(call: Call) -> Completed:
        return Completed(0, b"Welcome\n\nCARREL_HOME=/home/a b=c=\n", b"")

    assert Shepherd(MemoryTransport({"sh": sh}), "~/x/").directory() == "/home/a b=c/x"
    with pytest.raises(CommandFailed, match="no home"):
        Shepherd(MemoryTransport(), "~/x").directory()


def test_probe_of_this_machine(tmp_path: Path) -> None:
    facts = probe(LocalTransport(), str(tmp_path / "spool"))
    assert facts.cpus >= 1
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.gpus or any("nvidia-smi" in problem for problem in facts.problems)
