"""An ordinary account on this machine for the length of a test run, when the tests run as root.

Researchers are not root, and sshd treats root differently (it takes no signals for its programs).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

_NAME = re.compile(r"carrel-t(\d+)-\d+\Z")
_made = count()


@dataclass(frozen=True)
class Account:
    """A Unix account that may sign in by key."""

    name: str
    uid: int
    gid: int
    home: Path


def own_account() -> Account:
    """The account that the tests run as."""
    entry = pwd.getpwuid(os.geteuid())
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))


@contextmanager
def test_account() -> Iterator[Account]:
    """As root an account of its own, removed at the end; otherwise the one we run as."""
    if os.geteuid() != 0:
        yield own_account()
        return
    remove_left_over()
    name = f"carrel-t{os.getpid()}-{next(_made)}"
    # `*` and not `!`: sshd without PAM takes an account locked with `!` for closed.
    subprocess.run(
        ["useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", name], check=True
    )
    try:
        entry = pwd.getpwnam(name)
        yield Account(name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))
    finally:
        _remove(name)


test_account.__test__ = False  # type: ignore[attr-defined]


def remove_left_over() -> None:
    """Remove accounts of test runs that were killed; their names carry the run's pid."""
    for entry in pwd.getpwall():
        match = _NAME.match(entry.pw_name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _remove(entry.pw_name)


def _remove(name: str) -> None:
    with contextlib.suppress(KeyError):
        uid, home = pwd.getpwnam(name).pw_uid, Path(pwd.getpwnam(name).pw_dir)
        _end_processes(uid)
        subprocess.run(["userdel", "--force", name], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


def _end_processes(uid: int) -> None:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == uid:
                os.kill(int(process.name), 9)
