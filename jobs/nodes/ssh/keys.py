"""Host keys as people compare them, and the portal's own key file."""

from __future__ import annotations

import base64
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jobs.nodes.transport import NodeError

# Best first; a node that has several keys is asked for the first of these.
HOST_KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
MIN_RSA_BITS = 3072


class WeakKey(NodeError):
    """A host key that is too weak to tell machines apart by."""

    advice = "Give the node an ed25519 host key (`ssh-keygen -A`, then restart sshd)."


@dataclass(frozen=True)
class HostKey:
    """A node's public key: its type and the base64 of its blob, as in `known_hosts`."""

    kind: str
    base64: str

    FORM: ClassVar[str] = "TYPE BASE64, as in `ssh-ed25519 AAAAC3Nz…`"

    @classmethod
    def parse(cls, line: str) -> HostKey:
        """From `ssh-ed25519 AAAA… [comment]`. Raises ValueError, saying what would be right."""
        words = line.split()
        if len(words) < 2 or words[0] not in HOST_KEY_TYPES:
            raise ValueError(f"host key: {line[:60]!r} is not {cls.FORM}")
        key = cls(words[0], words[1])
        key.public()
        return key

    @classmethod
    def of(cls, key: paramiko.PKey) -> HostKey:
        """From a key that a server showed."""
        return cls(key.get_name(), base64.b64encode(key.asbytes()).decode())

    def public(self) -> paramiko.PKey:
        """Paramiko's form. Raises ValueError if the base64 is no key of this type."""
        try:
            blob = base64.b64decode(self.base64, validate=True)
            return paramiko.PKey.from_type_string(self.kind, blob)
        except Exception as error:  # Paramiko lets its crypto libraries' own errors out
            raise ValueError(f"host key: not a key of type {self.kind}; {self.FORM}") from error

    @property
    def line(self) -> str:
        """`ssh-ed25519 AAAA…`, what is stored as the pinned key."""
        return f"{self.kind} {self.base64}"

    @property
    def fingerprint(self) -> str:
        """`SHA256:…`, as `ssh-keygen -l` prints it."""
        return self.public().fingerprint


def check_strength(key: paramiko.PKey, place: str) -> None:
    """Raise `WeakKey` for DSA, for RSA under 3072 bits and for what we do not know."""
    kind = key.get_name()
    if kind not in HOST_KEY_TYPES:
        raise WeakKey(f"{place} shows a host key of type {kind}, which is not accepted.")
    if kind == "ssh-rsa" and key.get_bits() < MIN_RSA_BITS:
        raise WeakKey(
            f"{place} shows an RSA host key of {key.get_bits()} bits; "
            f"at least {MIN_RSA_BITS} are needed."
        )


def generate_key(path: str | os.PathLike[str], comment: str = "carrel") -> paramiko.PKey:
    """Make the portal's ed25519 key in a new file, mode 600.

    Raises FileExistsError if there is one already: a key that nodes trust is never overwritten.
    """
    private = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(private)
    key = load_key(target)
    target.with_name(target.name + ".pub").write_text(public_key_line(key, comment) + "\n")
    return key


def load_key(path: str | os.PathLike[str]) -> paramiko.PKey:
    """Read an ed25519 private key. Raises ValueError for another type, a file that others can
    read or a passphrase, and OSError when the file cannot be read.
    """
    target = Path(path)
    mode = stat.S_IMODE(target.stat().st_mode)
    if mode & 0o077:
        raise ValueError(f"{target}: mode {mode:03o} lets others at the private key; chmod 600 it.")
    try:
        return paramiko.Ed25519Key.from_private_key_file(str(target))
    except paramiko.PasswordRequiredException as error:
        raise ValueError(f"{target}: has a passphrase; the portal needs one without.") from error
    except (paramiko.SSHException, ValueError) as error:
        raise ValueError(f"{target}: is not an ed25519 private key in OpenSSH's form.") from error


def public_key_line(key: paramiko.PKey, comment: str = "carrel") -> str:
    """The line for `authorized_keys` on a node."""
    return f"{key.get_name()} {key.get_base64()} {comment}"
