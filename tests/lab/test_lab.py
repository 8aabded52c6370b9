"""The lab is what it says: hosts of their own that can be cut off, switched off and frozen."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.engines.contract import Launch
from jobs.engines.ssh import ShepherdEngine
from jobs.events import Cause, Phase
from jobs.nodes.probe import probe
from jobs.nodes.ssh import SshTransport
from jobs.nodes.transport import DeadlineExceeded, NodeError, NoRoute
from tests.lab.hosts import Host, Lab, available
from tests.lab.network import ip

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(bool(available()), reason=f"the lab {available()}"),
]
SPOOL = "~/.carrel/spool"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(nodes=2, gpus_per_node=2) as made:
        yield made


@pytest.fixture
def host(lab: Lab) -> Host:
    return lab.hosts[0]


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.05)


def a_launch(key: str, script: str) -> Launch:
    return Launch(key, script, {}, ({},), "", 600, "")


def test_hosts_are_separate(lab: Lab) -> None:
    seen = []
    for host in lab.hosts:
        transport = host.transport()
        facts = probe(transport, SPOOL)
        assert facts.hostname == host.name
        assert facts.user == lab.account.name
        assert [gpu.uuid for gpu in facts.gpus] == list(host.gpu_uuids)
        assert facts.driver and facts.topology and "NV12" in facts.topology
        assert not facts.problems
        ps = transport.run(["ps", "-e", "-o", "pid=,comm="]).stdout.decode().split("\n")
        assert ps[0].split() == ["1", "sshd"] and len(ps) < 15
        transport.put(f"{lab.account.home}/mine", host.name.encode())
        seen.append((facts.boot_id, (host.home / "mine").read_text()))
        transport.close()
    assert len({boot for boot, _ in seen}) == 2
    assert [name for _, name in seen] == ["gpu-1", "gpu-2"]


def test_hosts_reach_each_other(lab: Lab) -> None:
    first, second = lab.hosts
    jump = SshTransport(second.ssh_address(jump=(first.ssh_address(),)), lab.client_key)
    assert jump.run(["hostname"]).stdout == b"gpu-2\n"
    jump.close()


def test_a_cable_pulled_and_put_back(host: Host) -> None:
    transport = host.transport(connect_s=2)
    engine = ShepherdEngine(transport, SPOOL)
    engine.launch([a_launch("cut", "#!/bin/sh\nsleep 1; echo done\n")])
    host.cut()
    with pytest.raises(NodeError) as caught:
        transport.run(["true"], timeout_s=2)
    assert isinstance(caught.value, (NoRoute, DeadlineExceeded))
    host.heal()
    transport.retry_now()
    until(lambda: engine.observe(["cut"]).runs[0].phase == Phase.EXITED)
    assert engine.observe(["cut"]).runs[0].log_tail == b"done\n"
    transport.close()


def test_power_cut_and_boot(host: Host) -> None:
    transport = host.transport(connect_s=2)
    engine = ShepherdEngine(transport, SPOOL)
    engine.launch([a_launch("power", "#!/bin/sh\nsleep 4711\n")])
    before = engine.observe(["power"])
    assert before.runs[0].phase == Phase.RUNNING
    until(lambda: any("sleep 4711" in line for line in host.command_lines()))
    host.power_off()
    with pytest.raises(NoRoute):
        host.transport(connect_s=2).run(["true"])
    host.power_on()
    transport.retry_now()
    after = engine.observe(["power"])
    assert after.boot_id != before.boot_id
    assert (after.runs[0].phase, after.runs[0].cause) == (Phase.EXITED, Cause.NODE_RESTARTED)
    assert not any("sleep" in line for line in host.command_lines())
    transport.close()


def test_frozen_and_thawed(host: Host) -> None:
    transport = host.transport(connect_s=2)
    transport.run(["true"])
    host.freeze()
    with pytest.raises(DeadlineExceeded):
        transport.run(["true"], timeout_s=10)
    host.thaw()
    transport.retry_now()
    assert transport.run(["hostname"]).stdout == b"gpu-1\n"
    transport.close()


def test_gpu_processes_are_the_hosts_own(lab: Lab) -> None:
    host, other = lab.hosts
    engine = ShepherdEngine(host.transport(), SPOOL)
    launch = a_launch("gpu", "#!/bin/sh\nexec sleep 600\n")
    launch.environment["CUDA_VISIBLE_DEVICES"] = host.gpu_uuids[1]
    engine.launch([launch])
    until(lambda: any(gpu.processes for gpu in engine.observe([], gpus=True).gpus or ()))
    gpus = engine.observe(["gpu"], gpus=True).gpus or ()
    assert [[p.run_key for p in gpu.processes] for gpu in gpus] == [[], ["gpu"]]
    elsewhere = ShepherdEngine(other.transport(), SPOOL)
    assert not any(gpu.processes for gpu in elsewhere.observe([], gpus=True).gpus or ())
    engine.close()
    elsewhere.close()


def test_a_crashed_run_is_cleaned_up() -> None:
    """A run that is killed leaves its hosts; the next lab removes them."""
    program = (
        "import os, signal; from tests.lab.hosts import Lab; lab = Lab(nodes=1).__enter__(); "
        "print(lab.hosts[0]._network.name, lab.account.name, flush=True); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    crashed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=root
    )
    name, account = crashed.stdout.split()
    assert name in ip("link")
    with Lab(nodes=1) as lab:
        names = [link["ifname"] for link in json.loads(ip("-j", "link"))]
        assert not [n for n in names if n.startswith(name)]
        assert name not in ip("netns", "list")
        assert account not in Path("/etc/passwd").read_text()
        assert lab.hosts[0].transport().run(["hostname"]).stdout == b"gpu-1\n"
