"""`Transport` over SSH: one login on one node."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

import paramiko

from jobs.nodes.ssh.connect import connect, hang_up, open_wire, shown_key
from jobs.nodes.ssh.keys import HostKey, load_key
from jobs.nodes.ssh.pool import Pool
from jobs.nodes.ssh.program import Program, command_line
from jobs.nodes.ssh.wire import Deadline, SshAddress
from jobs.nodes.transport import CommandFailed, Completed, Hold, check_path, first_lines

CONNECT_S = 10.0
AUTH_S = 15.0

# $1 path, $2 size in bytes, $3 octal mode. The size is sent first, as the input's end never is.
PUT = """
set -e
umask 077
[ ! -d "$1" ] || { echo "is a directory" >&2; exit 1; }
mkdir -p -m 700 -- "${1%/*}/"
part=$(mktemp "$1.XXXXXXXX")
trap 'rm -f -- "$part"' EXIT
head -c "$2" > "$part"
[ "$(wc -c < "$part")" -eq "$2" ] || { echo "cut short" >&2; exit 1; }
chmod "$3" "$part"
sync -- "$part" 2>/dev/null || :
mv -f -- "$part" "$1"
"""


class SshTransport:
    """A login on one node by SSH, with one warm connection that is opened when first needed.

    While a failed connection backs off (1 s, doubling, at most 60 s), calls raise its error at
    once; `retry_now` ends that. `timeout_s` of a call counts from the moment the program may
    start; connecting has limits of its own, `connect_s` for each hop and `auth_s` for its login.
    """

    def __init__(
        self,
        address: SshAddress,
        key: paramiko.PKey | str | os.PathLike[str],
        *,
        connect_s: float = CONNECT_S,
        auth_s: float = AUTH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`key` is a loaded key or the path of one. Raises as `load_key` and `HostKey.parse`."""
        self.address = address
        for hop in (*address.jump, address):
            HostKey.parse(hop.host_key)
        self._key = key if isinstance(key, paramiko.PKey) else load_key(key)
        self._pool = Pool(
            lambda: connect(address, self._key, connect_s=connect_s, auth_s=auth_s),
            address.place,
            clock,
        )

    def __repr__(self) -> str:
        return f"SshTransport({self.address.login})"

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30) -> Completed:
        """As in `Transport`. A program that outlives its deadline is sent SIGTERM."""
        command = command_line(argv)
        with self._pool.session(timeout_s) as channel:
            return Program(channel, self.address.place).complete(command, stdin, timeout_s)

    def follow(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        silence_s: float = 30,
        hold: Hold | None = None,
    ) -> Iterator[bytes]:
        """As in `Transport`."""
        command = command_line(argv)
        with self._pool.session(silence_s) as channel:
            program = Program(channel, self.address.place)
            yield from program.lines(command, stdin, silence_s, hold or Hold())

    def put(self, path: str, data: bytes, *, mode: int = 0o600) -> None:
        """As in `Transport`; `path` is absolute."""
        check_path(path)
        argv = ["sh", "-c", PUT, "put", path, str(len(data)), f"{mode:o}"]
        done = self.run(argv, stdin=data, timeout_s=60)
        if done.exit_code:
            raise CommandFailed(
                f"{self.address.place}: {path} could not be written: {first_lines(done.stderr)}"
            )

    def retry_now(self) -> None:
        """As in `Transport`: ends the back-off."""
        self._pool.retry_now()

    def close(self) -> None:
        """As in `Transport`."""
        self._pool.close()


def scan_host_key(
    host: str,
    port: int = 22,
    *,
    jump: tuple[SshAddress, ...] = (),
    key: paramiko.PKey | None = None,
    timeout_s: float = CONNECT_S,
) -> HostKey:
    """The key that a server shows, for a person to compare before it is pinned.

    Nothing is sent to `host` but the key exchange. Bastions in `jump` are signed in to with
    `key`. Raises a `NodeError`; `WeakKey` if its best key is not worth pinning.
    """
    target = SshAddress(host, port, "", "", jump)
    wires = []
    if jump:
        if key is None:
            raise ValueError("key: bastions are signed in to with the portal's key")
        bastion = SshAddress(
            jump[-1].host, jump[-1].port, jump[-1].user, jump[-1].host_key, jump[:-1]
        )
        wires = connect(bastion, key, connect_s=timeout_s, auth_s=AUTH_S)
    try:
        wires.append(open_wire(target, wires[-1] if wires else None, Deadline(timeout_s), None))
        return shown_key(wires[-1], target)
    finally:
        hang_up(wires)
