"""A real OpenSSH server on loopback, with its own keys, port, configuration and log.

Needs no root: an ordinary user's sshd lets that user in. Root's lets `account` in, and then
`directory` and all above it must be readable by everybody, as sshd reads the key as that user.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import paramiko

from jobs.nodes.ssh import HostKey, SshAddress, SshTransport, generate_key, public_key_line
from tests.lab.account import Account, own_account
from tests.lab.processes import ENDS_WITH_US

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


def available() -> bool:
    """Whether this machine has an OpenSSH server to start."""
    return Path(SSHD).exists()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


class Sshd:
    """One server; `directory` gets its files, `options` are more lines for its sshd_config."""

    def __init__(
        self,
        directory: Path,
        *,
        options: tuple[str, ...] = (),
        client_key: paramiko.PKey | None = None,
        host: str = "127.0.0.1",
        account: Account | None = None,
    ) -> None:
        self.directory = directory
        self.host = host
        self.port = 0
        self.user = (account or own_account()).name
        self.log = directory / "sshd.log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.client_key = client_key or generate_key(directory / "id_ed25519")
        self.new_host_key()
        line = public_key_line(self.client_key)
        (directory / "authorized_keys").write_text(line + "\n")
        directory.chmod(0o755)

    def new_host_key(self) -> None:
        """As a reinstalled machine would have; takes effect at the next start."""
        path = self.directory / "host_key"
        path.unlink(missing_ok=True)
        self.host_key = HostKey.of(generate_key(path)).line

    def start(self) -> Sshd:
        """Start on a free port (the same one again after a stop) and wait until it listens."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for _ in range(5):
            port = self.port or free_port(self.host)
            if self._try(port):
                self.port = port
                return self
        raise RuntimeError(f"sshd did not start:\n{self.log.read_text()}")

    def stop(self) -> None:
        """End it with all its connections."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def kill_connections(self) -> None:
        """kill -9 every process that serves a connection; the listener stays."""
        assert self._process is not None
        for pid in self.processes():
            if pid != self._process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP the listener and every connection: the kernel answers, nobody else does."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT them."""
        self._signal(signal.SIGCONT)

    def processes(self) -> list[int]:
        """The listener's pid and those of its sshd children."""
        if self._process is None:
            return []
        found = [self._process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                found += [int(c) for c in children if _comm(int(c)).startswith("sshd")]
        return found

    def address(self, *, jump: tuple[SshAddress, ...] = ()) -> SshAddress:
        """Where and as whom to sign in."""
        return SshAddress(self.host, self.port, self.user, self.host_key, jump)

    def transport(self, **limits: float) -> SshTransport:
        """A login here with the client's key."""
        return SshTransport(self.address(), self.client_key, **limits)

    def connections_served(self) -> int:
        """How many logins its log tells of."""
        return self.log.read_text().count("Accepted publickey")

    def __enter__(self) -> Sshd:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _signal(self, number: int) -> None:
        for pid in self.processes():
            os.kill(pid, number)

    def _try(self, port: int) -> bool:
        config = self.directory / "sshd_config"
        config.write_text("\n".join(self._config(port)) + "\n")
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*ENDS_WITH_US, SSHD, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        deadline = time.monotonic() + 10
        while self._process.poll() is None and time.monotonic() < deadline:
            if b"Server listening" in self.log.read_bytes()[before:]:
                return True
            time.sleep(0.01)
        self.stop()
        return False

    def _config(self, port: int) -> list[str]:
        return [
            f"ListenAddress {self.host}:{port}",
            f"HostKey {self.directory / 'host_key'}",
            f"AuthorizedKeysFile {self.directory / 'authorized_keys'}",
            f"PidFile {self.directory / 'sshd.pid'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "MaxStartups 100",
            "UseDNS no",
            "LogLevel VERBOSE",
            *self._options,
        ]


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
