"""From an address to a login: dial or tunnel, agree on keys, verify, sign in.

Every way this can fail has its own error, because each asks a person to do something else.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from threading import Event

import paramiko
from paramiko.common import OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

from jobs.nodes.ssh.keys import HOST_KEY_TYPES, HostKey, check_strength
from jobs.nodes.ssh.wire import WIRE_LOG, Deadline, SshAddress, Wire
from jobs.nodes.transport import (
    ConnectionLost,
    DeadlineExceeded,
    HostKeyChanged,
    LoginRefused,
    NodeError,
    NoRoute,
    Refused,
    first_lines,
)

KEEPALIVE_S = 30
# The kernel gives up on a peer that acknowledges nothing for this long, so that no write hangs.
USER_TIMEOUT_MS = 30_000
# Paramiko's reader wakes this often to look around; its default of 0.1 s costs several per cent
# of a core with a hundred warm connections, and data wakes it at once in any case.
READER_WAKES_S = 5.0

# What sshd says in place of its version when too many logins are under way, or all are shut off.
_BUSY = ("Exceeded MaxStartups", "Not allowed at this time")
_RSA_SHA2 = ("rsa-sha2-512", "rsa-sha2-256")
_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
_DIGESTS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)


def connect(
    address: SshAddress, key: paramiko.PKey, *, connect_s: float, auth_s: float
) -> list[Wire]:
    """Sign in, through the bastions. Returns every hop's wire, the node's own last.

    Raises a `NodeError` that tells which of all the ways it failed; nothing is left open then.
    """
    wires: list[Wire] = []
    try:
        for hop in (*address.jump, address):
            deadline = Deadline(connect_s)
            pinned = HostKey.parse(hop.host_key)
            wire = open_wire(hop, wires[-1] if wires else None, deadline, pinned)
            wires.append(wire)
            _verify(wire, hop, pinned)
            _sign_in(wire, hop, key, Deadline(auth_s))
            wire.set_keepalive(KEEPALIVE_S)
    except BaseException:
        hang_up(wires)
        raise
    return wires


def hang_up(wires: Sequence[Wire]) -> None:
    """Close, the node's end first. Never raises."""
    for wire in reversed(wires):
        sock = wire.sock
        # Wakes paramiko's reader first, so that no thread reads a descriptor that is gone.
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            if isinstance(sock, socket.socket):
                sock.shutdown(socket.SHUT_RDWR)
            else:
                sock.close()
        if wire.is_alive():
            wire.join(1)
        wire.close()
        sock.close()


def open_wire(
    hop: SshAddress, through: Wire | None, deadline: Deadline, pinned: HostKey | None
) -> Wire:
    """Reach one server and agree on keys; it is not yet verified nor signed in."""
    sock = _dial(hop, deadline) if through is None else _tunnel(hop, through, deadline)
    wire = Wire(sock)
    try:
        return _shake_hands(wire, hop, deadline, pinned)
    except BaseException:
        hang_up([wire])
        raise


def _dial(hop: SshAddress, deadline: Deadline) -> socket.socket:
    try:
        sock = socket.create_connection((hop.host, hop.port), timeout=max(deadline.left, 0.001))
    except (socket.gaierror, UnicodeError) as error:
        raise NoRoute(f"The name {hop.host} does not resolve.") from error
    except ConnectionRefusedError as error:
        raise Refused(f"Nothing listens on {hop.place}.") from error
    except TimeoutError as error:
        raise NoRoute(f"No answer from {hop.place} within {deadline.seconds:g} s.") from error
    except OSError as error:
        raise NoRoute(f"No way to {hop.place}: {error.strerror or error}.") from error
    # Nagle's algorithm costs 40 ms for every exchange of small packets.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    return sock


def _tunnel(hop: SshAddress, through: Wire, deadline: Deadline) -> paramiko.Channel:
    bastion = f"the bastion {through.place}"
    try:
        return through.open_channel(
            "direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=deadline.left
        )
    except paramiko.ChannelException as error:
        code, text = through.refusal
        if code == OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
            raise Refused(
                f"{hop.place}: {bastion} does not forward there (AllowTcpForwarding, PermitOpen)."
            ) from error
        if "refused" in text.lower():
            raise Refused(f"Nothing listens on {hop.place}, says {bastion}.") from error
        raise NoRoute(f"No way from {bastion} to {hop.place}: {text or error.text}.") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        if not through.is_active():
            raise ConnectionLost(f"{bastion} closed the connection.") from error
        raise NoRoute(
            f"No answer from {hop.place} through {bastion} within {deadline.seconds:g} s."
        ) from error


def _shake_hands(wire: Wire, hop: SshAddress, deadline: Deadline, pinned: HostKey | None) -> Wire:
    wire.place = hop.place
    wire.set_log_channel(WIRE_LOG)
    wire.banner_timeout = wire.handshake_timeout = max(deadline.left, 0.001)
    options = wire.get_security_options()
    options.ciphers, options.digests = _CIPHERS, _DIGESTS
    options.key_types = _host_key_algorithms(pinned)
    done = Event()
    wire.start_client(event=done)
    # Half a second more, because paramiko's own limit comes first and knows more.
    if not done.wait(deadline.left + 0.5) or not wire.is_active():
        raise _handshake_error(wire, hop, deadline, pinned)
    wire.sock.settimeout(READER_WAKES_S)
    return wire


def _host_key_algorithms(pinned: HostKey | None) -> list[str]:
    """What to ask for: the pinned key's own type only, so that a node with several shows it."""
    kinds = HOST_KEY_TYPES if pinned is None else (pinned.kind,)
    names = [name for kind in kinds for name in (_RSA_SHA2 if kind == "ssh-rsa" else (kind,))]
    return list(names)


def _handshake_error(
    wire: Wire, hop: SshAddress, deadline: Deadline, pinned: HostKey | None
) -> NodeError:
    error = wire.get_exception()
    text = str(error or "")
    said = wire.greeting.strip()
    if said.startswith(_BUSY):
        return ConnectionLost(f"{hop.place} takes no more logins just now: {first_lines(said)}.")
    if said and "SSH-" not in said:
        return Refused(f"{hop.place} does not speak SSH; it says: {first_lines(said)}")
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        if "host key" in text and pinned is not None:
            return HostKeyChanged(
                f"{hop.place} has no {pinned.kind} host key any more; one was pinned."
            )
        return Refused(f"{hop.place} and Carrel share no safe algorithm: {text}.")
    if deadline.left <= 0:
        return DeadlineExceeded(
            f"{hop.place} accepted the connection but did not speak SSH "
            f"within {deadline.seconds:g} s."
        )
    reason = wire.farewell or text or "end of connection"
    return ConnectionLost(f"{hop.place} hung up before the login: {reason}.")


def _verify(wire: Wire, hop: SshAddress, pinned: HostKey) -> None:
    shown = _shown_key(wire, hop)
    if HostKey.of(shown) != pinned:
        raise HostKeyChanged(
            f"{hop.place} shows the key {HostKey.of(shown).fingerprint}; "
            f"pinned is {pinned.fingerprint}."
        )
    check_strength(shown, hop.place)


def _shown_key(wire: Wire, hop: SshAddress) -> paramiko.PKey:
    try:
        return wire.get_remote_server_key()
    except paramiko.SSHException as error:
        raise ConnectionLost(f"{hop.place} hung up before the login.") from error


def shown_key(wire: Wire, hop: SshAddress) -> HostKey:
    """The key that the server proved to have. Raises `WeakKey` for one not worth pinning."""
    key = _shown_key(wire, hop)
    check_strength(key, hop.place)
    return HostKey.of(key)


def _sign_in(wire: Wire, hop: SshAddress, key: paramiko.PKey, deadline: Deadline) -> None:
    done = Event()
    try:
        wire.auth_publickey(hop.user, key, event=done)
    except paramiko.SSHException as error:
        raise ConnectionLost(f"{hop.place} hung up during the login.") from error
    if not done.wait(deadline.left):
        raise DeadlineExceeded(
            f"{hop.place} did not answer the login of {hop.user} within {deadline.seconds:g} s."
        )
    if wire.is_authenticated():
        return
    raise _login_error(wire, hop, wire.get_exception())


def _login_error(wire: Wire, hop: SshAddress, error: Exception | None) -> NodeError:
    if isinstance(error, paramiko.ssh_exception.PartialAuthentication):
        more = ", ".join(error.allowed_types)
        return LoginRefused(f"{hop.login}: the key is accepted, but sshd asks for more ({more}).")
    if isinstance(error, paramiko.BadAuthenticationType):
        return LoginRefused(f"{hop.login}: sshd allows no login by key for this account.")
    if wire.is_active() or isinstance(error, paramiko.AuthenticationException):
        return LoginRefused(f"{hop.login}: sshd does not accept Carrel's key.")
    if isinstance(error, OSError) and not isinstance(error, EOFError):
        return ConnectionLost(f"{hop.place}: the connection broke during the login: {error}.")
    # sshd hangs up without a word on accounts that PAM or nologin keep out.
    reason = wire.farewell or "it hung up; often the account may not sign in (nologin, PAM)"
    return LoginRefused(f"{hop.login}: {reason}.")
