"""GPU nodes as separate hosts on this machine: own address, name, processes, home, boot id.

Each host is a network, pid, mount and uts namespace with a real sshd as its first process. It
can be cut off, switched off and frozen. Needs root, Linux and OpenSSH.

    with Lab(nodes=3, gpus_per_node=4) as lab:
        lab.hosts[0].transport().run(["hostname"])
        lab.hosts[0].power_off()
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import paramiko

from jobs.nodes.ssh import HostKey, SshAddress, SshTransport, generate_key, public_key_line
from tests.lab.account import Account, test_account
from tests.lab.network import Network
from tests.lab.sshd import SSHD

STAND_IN = Path(__file__).parents[2] / "jobs/practice/nvidia_smi.py"
MODEL = {"name": "NVIDIA A100-SXM4-40GB (simulated)", "memory_mib": 40960, "power_limit_w": 400}

# $1 host name, $2 its home, $3 the account's home, $4 its boot id, then sshd and its arguments.
BOOT = """
set -e
hostname "$1"
mount --bind "$2" "$3"
mount --bind "$4" /proc/sys/kernel/random/boot_id
shift 4
exec "$@"
"""


def available() -> str:
    """Empty, or why the lab cannot be had on this machine."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    for program in ("ip", "unshare", "nsenter", SSHD):
        if shutil.which(program) is None:
            return f"needs {program}"
    return ""


class Host:
    """One machine of a `Lab`."""

    port = 22

    def __init__(
        self,
        number: int,
        directory: Path,
        network: Network,
        account: Account,
        client_key: paramiko.PKey,
        gpus: int,
    ) -> None:
        self.number = number
        self.name = f"gpu-{number}"
        self.address = network.address(number)
        self.account = account
        self.user = account.name
        self.client_key = client_key
        self.directory = directory
        self.home = directory / "home"
        """The account's home on this host, as seen from outside."""
        self.log = directory / "sshd.log"
        self.gpu_uuids = tuple(f"GPU-{uuid.uuid4()}" for _ in range(gpus))
        self._network = network
        self._process: subprocess.Popen[bytes] | None = None
        self._furnish()

    def ssh_address(
        self, *, user: str | None = None, jump: tuple[SshAddress, ...] = ()
    ) -> SshAddress:
        """Where and as whom to sign in; the account by default, `root` as well."""
        return SshAddress(self.address, self.port, user or self.user, self.host_key, jump)

    def transport(self, **limits: float) -> SshTransport:
        """A login of the account."""
        return SshTransport(self.ssh_address(), self.client_key, **limits)

    def power_on(self) -> None:
        """Boot: a new boot id, an empty process table; the disks are as they were."""
        assert self._process is None, f"{self.name} is on"
        (self.directory / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self._network.attach(self.number)
        sshd = [SSHD, "-D", "-e", "-f", str(self.directory / "sshd_config")]
        places = [str(self.home), str(self.account.home), str(self.directory / "boot_id")]
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--mount"]
        inside = ["sh", "-c", BOOT, "boot", self.name, *places, *sshd]
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", self._network.namespace(self.number), *unshare, *inside],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 20
        while b"Server listening" not in self.log.read_bytes()[before:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not boot:\n{self.log.read_text()}")
            time.sleep(0.01)

    def power_off(self) -> None:
        """Pull the plug: every process is gone at once and nobody is told."""
        if self._process is None:
            return
        self.cut()  # or else the kernel would say goodbye on every connection
        with contextlib.suppress(ProcessLookupError, StopIteration):
            os.kill(self._first_process(), signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None
        self._network.detach(self.number)

    def cut(self) -> None:
        """Pull the network cable; everything on the host goes on."""
        self._network.plug(self.number, up=False)

    def heal(self) -> None:
        """Put the cable back."""
        self._network.plug(self.number, up=True)

    def freeze(self) -> None:
        """Stop every process, as a host that hangs; its kernel still answers."""
        frozen: set[int] = set()
        while not (now := set(self.processes())) <= frozen:
            self._signal(now, signal.SIGSTOP)
            frozen |= now

    def thaw(self) -> None:
        """Let them go on."""
        self._signal(set(self.processes()), signal.SIGCONT)

    def processes(self) -> list[int]:
        """All of the host's processes, by their pids outside; the first one first."""
        first = self._first_process()
        space = Path(f"/proc/{first}/ns/pid").readlink()
        found = [first]
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (path / "ns/pid").readlink() == space and int(path.name) != first:
                    found.append(int(path.name))
        return found

    def command_lines(self) -> list[str]:
        """What runs on the host, zombies aside."""
        lines = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                lines.append(b" ".join(words).decode("utf-8", "replace").strip())
        return [line for line in lines if line]

    def execute(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run something on the host as root, without the network."""
        enter = ["nsenter", "--all", "--target", str(self._first_process())]
        return subprocess.run([*enter, *argv], capture_output=True, text=True)

    def _first_process(self) -> int:
        assert self._process is not None, f"{self.name} is off"
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def _signal(self, pids: set[int], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _furnish(self) -> None:
        """The host's disk: home, keys, sshd's configuration, GPUs."""
        self.home.mkdir(parents=True)
        os.chown(self.home, self.account.uid, self.account.gid)
        self.host_key = HostKey.of(generate_key(self.directory / "host_key")).line
        keys = self.directory / "authorized_keys"
        keys.write_text(public_key_line(self.client_key) + "\n")
        programs = self.directory / "bin"
        programs.mkdir()
        if self.gpu_uuids:
            self._install_gpus(programs)
        (self.directory / "sshd_config").write_text(
            f"ListenAddress {self.address}:{self.port}\n"
            f"HostKey {self.directory / 'host_key'}\n"
            f"AuthorizedKeysFile {keys}\n"
            f"SetEnv PATH={programs}:/usr/local/bin:/usr/bin:/bin\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            "MaxStartups 100\nUseDNS no\nLogLevel VERBOSE\n"
        )

    def _install_gpus(self, programs: Path) -> None:
        """A stand-in `nvidia-smi`, which tells use from the processes that really run."""
        target = programs / "nvidia-smi"
        shutil.copy(STAND_IN, target)
        target.chmod(0o755)
        os.chown(programs, self.account.uid, self.account.gid)
        gpus = [
            {"index": n, "uuid": u, "pci_bus_id": f"00000000:{7 + 8 * n:02X}:00.0", **MODEL}
            for n, u in enumerate(self.gpu_uuids)
        ]
        # Each host has its own process table: all processes it sees are its own.
        (programs / "nvidia-smi.json").write_text(json.dumps({"mark": "", "gpus": gpus}))


class Lab:
    """Hosts on a network of their own; this machine reaches all of them, and they each other."""

    def __init__(
        self, directory: Path | None = None, *, nodes: int = 3, gpus_per_node: int = 4
    ) -> None:
        """`directory` must be readable by everybody, up to the root; None makes one."""
        self._given = directory
        self._nodes, self._gpus = nodes, gpus_per_node
        self._stack = ExitStack()
        self.hosts: list[Host] = []

    def __enter__(self) -> Lab:
        reason = available()
        if reason:
            raise RuntimeError(f"the lab {reason}")
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _build(self) -> None:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        _remove_left_over_directories()
        self.directory = self._given or Path(tempfile.mkdtemp(prefix=f"carrel-lab-{os.getpid()}-"))
        if self._given is None:
            self._stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.directory.chmod(0o755)
        self.account = self._stack.enter_context(test_account())
        self.key_file = self.directory / "id_ed25519"
        self.client_key = generate_key(self.key_file)
        network = Network()
        self._stack.callback(network.remove)
        for number in range(1, self._nodes + 1):
            place = self.directory / f"gpu-{number}"
            host = Host(number, place, network, self.account, self.client_key, self._gpus)
            self._stack.callback(host.power_off)
            host.power_on()
            self.hosts.append(host)


def _remove_left_over_directories() -> None:
    """Those of test runs that were killed; their names carry the run's pid."""
    for path in Path(tempfile.gettempdir()).glob("carrel-lab-*-*"):
        if not Path(f"/proc/{path.name.split('-')[2]}").exists():
            shutil.rmtree(path, ignore_errors=True)
