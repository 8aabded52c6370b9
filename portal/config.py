"""Settings from the environment, typed, with a clear word when one is wrong."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

MOST_CONNECTIONS = 20
"""Of one process to PostgreSQL. A worker's threads hold one each while they wait for a node: with
fewer than threads, a few nodes that do not answer would keep all others waiting."""
POOL_S = 4
"""The longest wait for a connection; a monitor that waits 5 s still hears who is missing."""
RECONNECT_S = 2
"""The pool pauses ever longer between its attempts; given up early, the next request asks anew."""


def text(name: str, default: str = "") -> str:
    """The variable's value, or the default when it is unset or empty."""
    return os.environ.get(name) or default


def flag(name: str, default: bool) -> bool:
    """A yes or no; anything else is an error that names the variable."""
    value = text(name, "1" if default else "0").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise ImproperlyConfigured(f"{name} is {value!r}; it should be 1 or 0")


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def integer(name: str, default: int, *, least: int = 0) -> int:
    """A whole number of at least `least`."""
    value = text(name, str(default))
    if not value.isdigit() or int(value) < least:
        raise ImproperlyConfigured(f"{name} is {value!r}; it should be a number from {least} up")
    return int(value)


def running_port(data: Path) -> int | None:
    """Where the Carrel that was started last on `data` answers, for commands beside it."""
    try:
        found = re.match(r"http://[^:/]+:(\d+)", (data / "run.lock").read_text())
    except OSError:
        return None
    return int(found[1]) if found else None


def secret(name: str, file: Path) -> str:
    """The variable, else the file's content, made on first use and readable by us alone."""
    if given := os.environ.get(name):
        return given
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        if kept := file.read_text().strip():
            return kept
        raise ImproperlyConfigured(f"{file} is empty; remove it or set {name}") from None
    value = secrets.token_urlsafe(50)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(value)
    return value


def database(url: str, data: Path) -> dict[str, Any]:
    """Django's description of the database at `url`; empty: SQLite under `data`."""
    if not url:
        return _sqlite(data / "carrel.sqlite3")
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(Path(unquote(parts.path)))
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {parts.scheme!r}; it should begin with postgresql:// "
            "or sqlite:///"
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        # Else the first to ask after a restart of the server would get a dead connection.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "pool": {
                "min_size": 1,
                "max_size": MOST_CONNECTIONS,
                "reconnect_timeout": RECONNECT_S,
                "timeout": POOL_S,
            },
            **dict(parse_qsl(parts.query)),
        },
    }


def _sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "portal.sqlite",
        "NAME": str(path),
        # Immediate transactions queue up for the write lock in place of failing on it.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
