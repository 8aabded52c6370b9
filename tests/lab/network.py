"""Bridges and network namespaces for the lab, removed again even after a crash.

Everything carries the pid of the test run in its name: `cl<pid><letter>` the bridge,
`cl<pid><letter>-<n>` a host's namespace and the near end of its cable. What belongs to no living
process is removed by the next lab.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_OWN = re.compile(r"cl(\d+)[a-z]")
_labs = count()
_LOCK = Path("/run/lock/carrel-lab")


def ip(*words: str) -> str:
    """Run `ip`; raises with what it said when it fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def locked() -> Iterator[None]:
    """One lab at a time takes a network and cleans up."""
    _LOCK.parent.mkdir(parents=True, exist_ok=True)
    with _LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Network:
    """A bridge with a /24 of its own, on which this machine is `.1`."""

    def __init__(self) -> None:
        self.name = f"cl{os.getpid()}{'abcdefghijklmnopqrstuvwxyz'[next(_labs) % 26]}"
        with locked():
            remove_left_over()
            self.prefix = _free_prefix()
            ip("link", "add", self.name, "type", "bridge")
            ip("addr", "add", f"{self.prefix}.1/24", "dev", self.name)
            ip("link", "set", self.name, "up")

    def namespace(self, number: int) -> str:
        """The name of a host's network namespace, also of the near end of its cable."""
        return f"{self.name}-{number}"

    def address(self, number: int) -> str:
        """A host's IPv4 address."""
        return f"{self.prefix}.{10 + number}"

    def attach(self, number: int) -> None:
        """Make a host's namespace and plug its cable in."""
        name, far = self.namespace(number), f"{self.name}x{number}"
        ip("netns", "add", name)
        # A machine keeps its hardware address over a power cut, or its neighbours miss it.
        octets = [int(part) for part in self.address(number).split(".")]
        mac = "02:00:" + ":".join(f"{octet:02x}" for octet in octets)
        ip("link", "add", name, "type", "veth", "peer", "name", far, "address", mac)
        ip("link", "set", far, "netns", name, "name", "eth0")
        ip("link", "set", name, "master", self.name, "up")
        for words in (
            ("addr", "add", f"{self.address(number)}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
            ("route", "add", "default", "via", f"{self.prefix}.1"),
        ):
            ip("-n", name, *words)

    def plug(self, number: int, *, up: bool) -> None:
        """Pull a host's cable, or put it back."""
        ip("link", "set", self.namespace(number), "up" if up else "down")

    def detach(self, number: int) -> None:
        """Take a host's namespace away, with all that its kernel remembers of connections."""
        for words in (
            ("link", "del", self.namespace(number)),
            ("netns", "del", self.namespace(number)),
        ):
            with contextlib.suppress(RuntimeError):
                ip(*words)

    def remove(self) -> None:
        """Take the bridge away; hosts are detached before."""
        with contextlib.suppress(RuntimeError):
            ip("link", "del", self.name)


def remove_left_over() -> None:
    """Remove hosts, cables and bridges of test runs that were killed."""
    spaces = [line.split()[0] for line in ip("netns", "list").splitlines() if line]
    for name in filter(_is_left_over, spaces):
        with contextlib.suppress(RuntimeError):
            for pid in ip("netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip("netns", "del", name)
    names = [link["ifname"] for link in json.loads(ip("-j", "link"))]
    for name in filter(_is_left_over, names):
        with contextlib.suppress(RuntimeError):
            ip("link", "del", name)


def _is_left_over(name: str) -> bool:
    match = _OWN.match(name)
    return match is not None and not Path(f"/proc/{match[1]}").exists()


def _free_prefix() -> str:
    used = {
        address["local"].rpartition(".")[0]
        for link in json.loads(ip("-j", "-4", "addr"))
        for address in link["addr_info"]
    }
    return next(p for p in (f"10.213.{n}" for n in range(1, 255)) if p not in used)
