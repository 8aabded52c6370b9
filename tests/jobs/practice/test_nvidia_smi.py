"""The stand-in speaks the real `nvidia-smi`'s query interface, of processes that really run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.practice import nvidia_smi
from tests.jobs.practice.conftest import until

GPUS = [
    {
        "index": index,
        "uuid": f"GPU-00000000-0000-0000-0000-00000000000{index}",
        "name": "NVIDIA Test (simulated)",
        "memory_mib": 40960,
        "pci_bus_id": f"00000000:0{index + 1}:00.0",
    }
    for index in range(2)
]
FIRST, SECOND = (str(gpu["uuid"]) for gpu in GPUS)
BUSY = "x = bytearray(64 << 20)\nwhile True: pass"
IDLE = "import time; time.sleep(600)"


class Machine:
    def __init__(self, directory: Path) -> None:
        self.program = directory / "nvidia-smi"
        self.mark = f"TEST_MACHINE={directory}"
        shutil.copy(nvidia_smi.__file__, self.program)
        self.program.chmod(0o755)
        settings = {"mark": self.mark, "gpus": GPUS}
        self.program.with_name("nvidia-smi.json").write_text(json.dumps(settings))
        self.started: list[subprocess.Popen[bytes]] = []

    def ask(self, *arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-IS", str(self.program), *arguments],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.stderr == ""
        return done.returncode, done.stdout

    def rows(self, fields: str, *more: str, query: str = "gpu") -> list[list[str]]:
        code, out = self.ask(f"--query-{query}={fields}", "--format=csv,noheader,nounits", *more)
        assert code == 0
        return [line.split(", ") for line in out.splitlines()]

    def start(self, code: str, gpus: str, *, marked: bool = True) -> int:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpus}
        if marked:
            name, _, value = self.mark.partition("=")
            environment[name] = value
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        self.started.append(process)
        return process.pid

    def apps(self) -> list[list[str]]:
        return self.rows("gpu_uuid,pid,used_gpu_memory", query="compute-apps")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for process in machine.started:
        process.kill()
        process.wait()


FIELDS = (
    "index,uuid,name,pci.bus_id,memory.total,memory.used,utilization.gpu,utilization.memory,"
    "temperature.gpu,power.draw,power.limit,clocks.current.sm,"
    "ecc.errors.uncorrected.volatile.total,mig.mode.current,driver_version"
)


def test_heads_and_units_are_the_real_ones(machine: Machine) -> None:
    code, out = machine.ask(f"--query-gpu={FIELDS}", "--format=csv")
    head, first, _second = out.splitlines()
    assert code == 0
    assert head == (
        "index, uuid, name, pci.bus_id, memory.total [MiB], memory.used [MiB], "
        "utilization.gpu [%], utilization.memory [%], temperature.gpu, power.draw [W], "
        "power.limit [W], clocks.current.sm [MHz], ecc.errors.uncorrected.volatile.total, "
        "mig.mode.current, driver_version"
    )
    assert first == (
        f"0, {FIRST}, NVIDIA Test (simulated), 00000000:01:00.0, 40960 MiB, 3 MiB, 0 %, 0 %, 30, "
        f"50.00 W, 400.00 W, 210 MHz, 0, Disabled, {nvidia_smi.DRIVER}"
    )


def test_without_heads_and_units(machine: Machine) -> None:
    assert machine.rows("index,memory.total") == [["0", "40960"], ["1", "40960"]]


def test_options_may_be_words_of_their_own(machine: Machine) -> None:
    code, out = machine.ask("--query-gpu", "uuid", "--format", "csv,noheader", "-i", "1")
    assert (code, out) == (0, f"{SECOND}\n")


def test_an_unknown_field_is_answered_as_by_the_real_one(machine: Machine) -> None:
    answer = machine.ask("--query-gpu=index,colour", "--format=csv")
    assert answer == (2, 'Field "colour" is not a valid field to query.\n\n')


def test_no_such_gpu(machine: Machine) -> None:
    assert machine.ask("-L", "-i", "7") == (6, "No devices were found\n")


def test_an_unknown_option_is_refused(machine: Machine) -> None:
    code, out = machine.ask("--colour")
    assert code == 1
    assert "--colour" in out


def test_the_list(machine: Machine) -> None:
    assert machine.ask("-L") == (
        0,
        f"GPU 0: NVIDIA Test (simulated) (UUID: {FIRST})\n"
        f"GPU 1: NVIDIA Test (simulated) (UUID: {SECOND})\n",
    )


def test_the_topology_is_a_table_of_tabs(machine: Machine) -> None:
    code, out = machine.ask("topo", "-m")
    rows = [line.split("\t") for line in out.splitlines()[:3]]
    assert code == 0
    assert rows[0][1:4] == ["\x1b[4mGPU0", "GPU1", "CPU Affinity"]
    assert [row[:3] for row in rows[1:]] == [["GPU0", " X ", "NV12"], ["GPU1", "NV12", " X "]]


def test_a_plain_call_names_gpus_and_processes(machine: Machine) -> None:
    pid = machine.start(IDLE, FIRST)
    until(lambda: machine.apps())
    code, out = machine.ask()
    assert code == 0
    assert "(simulated" in out
    assert str(pid) in out


def test_a_busy_process_uses_its_gpu_and_no_other(machine: Machine) -> None:
    pid = machine.start(BUSY, FIRST)
    # It is also busy while it still asks for its memory.
    until(lambda: machine.apps() and int(machine.apps()[0][2]) > 400 + 64)
    until(lambda: int(machine.rows("utilization.gpu")[0][0]) > 5)
    rows = machine.rows("utilization.gpu,utilization.memory,memory.used,temperature.gpu,power.draw")
    busy, idle = ([float(cell) for cell in row] for row in rows)
    assert 5 < busy[0] <= 100
    assert busy[1] <= busy[0]
    assert busy[2] > 400 + 64
    assert busy[3] > 30
    assert 50 < busy[4] < 400
    assert idle == [0, 0, 3, 32, 50]
    ((uuid, seen, memory),) = machine.apps()
    assert (uuid, int(seen)) == (FIRST, pid)
    assert int(memory) > 400 + 64


def test_an_idle_process_holds_memory_and_computes_nothing(machine: Machine) -> None:
    machine.start(IDLE, f"{FIRST},{SECOND}")
    until(lambda: len(machine.apps()) == 2)
    until(lambda: [row[0] for row in machine.rows("utilization.gpu")] == ["0", "0"])
    assert all(int(row[0]) > 400 for row in machine.rows("memory.used"))


def test_a_gpu_may_be_named_by_its_index(machine: Machine) -> None:
    pid = machine.start(IDLE, "1")
    until(lambda: [row[:2] for row in machine.apps()] == [[SECOND, str(pid)]])


def test_other_machines_processes_are_not_seen(machine: Machine) -> None:
    machine.start(IDLE, FIRST, marked=False)
    ours = machine.start(IDLE, FIRST)
    until(lambda: [row[1] for row in machine.apps()] == [str(ours)])


def test_a_process_counts_by_descent_when_its_environment_is_its_own(machine: Machine) -> None:
    clean = {"CUDA_VISIBLE_DEVICES": FIRST}
    argv = [sys.executable, "-c", IDLE]
    machine.start(
        f"import signal, subprocess\nchild = subprocess.Popen({argv!r}, env={clean!r})\n"
        "signal.signal(signal.SIGTERM, lambda *_: child.kill())\nchild.wait()",
        "",
    )
    until(lambda: [row[0] for row in machine.apps()] == [FIRST])
    machine.started[0].terminate()
    until(lambda: not machine.apps())


def test_a_shell_that_waits_for_its_program_is_not_counted(machine: Machine) -> None:
    script = f"{sys.executable} -c '{IDLE}' & trap 'kill $!' EXIT TERM; wait"
    shell = machine.start(f"import os; os.execvp('sh', ['sh', '-c', {script!r}])", FIRST)
    until(lambda: [row[1] for row in machine.apps()] not in ([], [str(shell)]))
    until(lambda: len(machine.apps()) == 1)
    assert machine.rows("process_name", query="compute-apps")[0][0].startswith("python")
    machine.started[0].terminate()
    until(lambda: not machine.apps())
