"""The practice lab's SSH server, driven by a real client over loopback."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import paramiko
import pytest

from jobs.practice import machines, processes
from tests.jobs.practice.conftest import ROOT, Lab, alive, execute, new_key, until


def background(connection: paramiko.Transport, start: str) -> int:
    """The pid of what `start` leaves behind, in a session of its own."""
    # Only once it has left the command's session does it outlive the command.
    command = (
        f"{start} sleep 600 </dev/null >/dev/null 2>&1 & pid=$!; "
        'while [ "$(cut -d" " -f6 /proc/$pid/stat)" = "$(cut -d" " -f6 /proc/$$/stat)" ]; '
        "do :; done; echo $pid"
    )
    code, out, _ = execute(connection, command)
    assert code == 0
    return int(out)


def test_the_three_streams_and_the_exit_code_are_the_commands_own(
    connection: paramiko.Transport,
) -> None:
    answer = execute(connection, "head -c 5; echo; echo oh >&2; exit 7", b"hello world")
    assert answer == (7, b"hello\n", b"oh\n")


def test_a_death_by_signal_reads_as_in_a_shell(connection: paramiko.Transport) -> None:
    assert execute(connection, "kill -TERM $$")[0] == 128 + signal.SIGTERM


def test_a_short_commands_end_never_overtakes_its_beginning(
    connection: paramiko.Transport,
) -> None:
    assert {execute(connection, "exit 3")[0] for _ in range(300)} == {3}


def test_a_command_that_cannot_start_says_why(connection: paramiko.Transport) -> None:
    code, _, err = execute(connection, b"echo \0")
    assert code == 127
    assert b"null byte" in err


def test_megabytes_come_back_whole(connection: paramiko.Transport) -> None:
    code, out, _ = execute(connection, "head -c 5000000 /dev/zero")
    assert (code, len(out)) == (0, 5_000_000)


def test_megabytes_arrive_whole(lab: Lab, connection: paramiko.Transport) -> None:
    sent = bytes(range(256)) * 8000
    code, _, _ = execute(connection, f"head -c {len(sent)} > got", sent)
    assert code == 0
    home = lab.directory / lab.node.name / "home"
    assert (home / "got").read_bytes() == sent


def test_each_machine_has_an_environment_of_its_own(
    lab: Lab, connection: paramiko.Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = execute(connection, "env")
    seen = dict(line.split("=", 1) for line in out.decode().splitlines())
    machine = lab.directory / lab.node.name
    assert seen["HOME"] == str(machine / "home")
    assert seen["PATH"].split(":")[:2] == [str(machine / "bin"), str(Path(sys.executable).parent)]
    assert seen["PRACTICE_NODE"] == str(machine)
    assert not [name for name in seen if name.startswith(("DJANGO", "PYTEST", "CARREL_DATA"))]


def test_all_machines_see_the_shared_directory(lab: Lab, connection: paramiko.Transport) -> None:
    execute(connection, "echo here > ~/shared/note")
    assert (machines.shared(lab.directory) / "note").read_text() == "here\n"


def test_an_unknown_key_is_refused(lab: Lab) -> None:
    with pytest.raises(paramiko.AuthenticationException):
        lab.connect(key=new_key())


def test_another_account_is_refused(lab: Lab) -> None:
    with pytest.raises(paramiko.AuthenticationException):
        lab.connect(user="somebody-else")


def test_a_key_written_later_is_let_in(own_lab: Lab) -> None:
    key = new_key()
    machines.authorize(own_lab.directory, f"ssh-ed25519 {key.get_base64()}")
    own_lab.connect(key=key).close()


def test_the_host_key_is_the_described_one(lab: Lab, connection: paramiko.Transport) -> None:
    shown = connection.get_remote_server_key()
    assert lab.node.host_key == f"{shown.get_name()} {shown.get_base64()}"


def test_tunnels_and_shells_are_refused(connection: paramiko.Transport) -> None:
    with pytest.raises(paramiko.ChannelException):
        connection.open_channel("direct-tcpip", ("127.0.0.1", 22), ("127.0.0.1", 0))
    with pytest.raises(paramiko.SSHException):
        connection.open_session().invoke_shell()


def test_many_watchers_stay_open_side_by_side(connection: paramiko.Transport) -> None:
    watchers = []
    for number in range(20):
        channel = connection.open_session()
        channel.settimeout(30)
        channel.exec_command(f"echo {number}; exec cat")
        watchers.append(channel)
    assert [int(channel.recv(10)) for channel in watchers] == list(range(20))
    for channel in watchers:
        channel.sendall(b"ping")
    assert [channel.recv(10) for channel in watchers] == [b"ping"] * 20


def test_a_closed_channel_ends_its_command(connection: paramiko.Transport) -> None:
    channel = connection.open_session()
    channel.exec_command("echo $$; exec sleep 600")
    pid = int(channel.recv(20))
    channel.close()
    until(lambda: not alive(pid))


def test_a_command_that_ignores_the_hangup_is_killed(connection: paramiko.Transport) -> None:
    channel = connection.open_session()
    channel.exec_command("trap '' HUP; echo $$; while :; do sleep 1; done")
    pid = int(channel.recv(20))
    channel.close()
    until(lambda: not alive(pid))


def test_a_broken_connection_ends_what_it_ran_and_nothing_else(own_lab: Lab) -> None:
    transport = own_lab.connect()
    daemon = background(transport, "setsid")
    channel = transport.open_session()
    channel.exec_command("echo $$; exec sleep 600")
    pid = int(channel.recv(20))
    transport.sock.close()
    until(lambda: not alive(pid))
    assert alive(daemon)


def test_killing_the_server_leaves_daemons_and_the_boot_id(own_lab: Lab) -> None:
    daemon, boot_id, port = (
        background(own_lab.connect(), "setsid"),
        own_lab.boot_id(),
        own_lab.node.port,
    )
    own_lab.end(signal.SIGKILL)
    assert alive(daemon)
    own_lab.start()
    assert own_lab.boot_id() == boot_id
    assert own_lab.node.port == port
    assert alive(daemon)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_clean_stop_switches_the_machines_off(own_lab: Lab, number: signal.Signals) -> None:
    connection = own_lab.connect()
    daemons = [background(connection, "setsid"), background(connection, "setsid nohup")]
    boot_id = own_lab.boot_id()
    assert own_lab.end(number) == 0
    assert not [pid for pid in daemons if alive(pid)]
    assert own_lab.boot_id() != boot_id


def test_switching_off_finds_those_that_changed_their_environment(own_lab: Lab) -> None:
    """As a job's program may, whose keeper, an ancestor, still runs."""
    execute(
        own_lab.connect(),
        "setsid sh -c 'env -i sleep 600 & echo $! > hidden; exec sleep 600' "
        "</dev/null >/dev/null 2>&1 & while [ ! -s hidden ]; do :; done",
    )
    note = own_lab.directory / own_lab.node.name / "home" / "hidden"
    until(lambda: note.exists() and note.read_text().endswith("\n"))
    hidden = int(note.read_text())
    until(lambda: Path(f"/proc/{hidden}/environ").read_bytes() == b"")
    assert alive(hidden)
    own_lab.end(signal.SIGTERM)
    assert not alive(hidden)


def test_switching_one_machine_off_spares_the_others(own_lab: Lab) -> None:
    ours = background(own_lab.connect(), "setsid")
    assert processes.switch_off(machines.prepare(own_lab.directory)[1].mark)
    assert alive(ours)


def test_a_removed_lab_switches_itself_off(own_lab: Lab) -> None:
    daemon = background(own_lab.connect(), "setsid")
    machines.remove(own_lab.directory)
    assert own_lab.server is not None
    assert own_lab.server.wait(timeout=30) == 0
    assert not alive(daemon)
    assert machines.is_removed(own_lab.directory)
    machines.restore(own_lab.directory)
    assert not machines.is_removed(own_lab.directory)


def test_only_one_server_runs_a_lab(own_lab: Lab) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "jobs.practice", str(own_lab.directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert second.returncode == 1
    assert "running already" in second.stderr


def test_a_stranger_on_its_port_makes_a_machine_move(own_lab: Lab) -> None:
    old = own_lab.node.port
    own_lab.end(signal.SIGTERM)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", old))
        stranger.listen()
        own_lab.start()
        assert own_lab.node.port != old
        assert execute(own_lab.connect(), "true")[0] == 0


def test_a_restart_of_the_computer_renews_the_boot_ids(own_lab: Lab) -> None:
    own_lab.end(signal.SIGKILL)
    boot_id = own_lab.boot_id()
    file = own_lab.directory / "lab.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"kernel_boot_id": "another"}))
    own_lab.start()
    assert own_lab.boot_id() != boot_id
