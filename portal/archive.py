"""Logs of ended runs, kept on the portal's disk, so that they outlive their node."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from jobs.engines.contract import LogRange


def path(key: str) -> Path:
    """Where a run's log lies; a thousand jobs to a directory."""
    job = int(key[1:].partition(".")[0])
    return Path(settings.LOG_ARCHIVE) / f"{job // 1000:06d}" / f"{key}.log"


def partial_path(key: str, writer: str) -> Path:
    """Where one lies that is being brought: apart, as this directory is searched each time."""
    return Path(settings.LOG_ARCHIVE) / "partial" / f"{key}.{writer}"


def write(key: str, data: bytes) -> None:
    """Keep a whole small log."""
    with writer(key) as file:
        file.write(data)


class writer:
    """A log being brought here: it appears under its name whole or not at all."""

    def __init__(self, key: str) -> None:
        self._path = path(key)
        self._partial = partial_path(key, secrets.token_hex(4))

    def __enter__(self) -> BinaryIO:
        for directory in (self._path.parent, self._partial.parent):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = self._partial.open("wb")
        return self._file

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()
        if kind is None:
            self._partial.replace(self._path)
            for left in self._partial.parent.glob(f"{self._path.stem}.*"):
                # Of a worker that was killed at it.
                left.unlink(missing_ok=True)
        else:
            self._partial.unlink(missing_ok=True)


def read(key: str, *, offset: int, length: int) -> LogRange:
    """Part of a kept log; a negative offset counts from the end. Raises FileNotFoundError."""
    with path(key).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        file.seek(start)
        return LogRange(offset=start, data=file.read(length), size=size)
