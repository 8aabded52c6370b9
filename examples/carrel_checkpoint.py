"""Checkpoints under Carrel, for training scripts: copy this file beside yours. It needs Python 3.8
and nothing else.

    saver = Saver()
    if found := resume_from():
        ...                                      # go on from what is in that directory
    for step in range(first, last):
        ...
        if saver.due():
            saver.save(step, write)              # write(directory) puts its files there
        if saver.told_to_stop:
            sys.exit(saver.exit_code)

A checkpoint is written under a temporary name, with a manifest of its files, and renamed when all
of it is on the disk: nobody ever sees half of one. With several processes let one of them save.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

MANIFEST = "carrel-manifest.json"
HASHED = 256 * 1024 * 1024
"""Bytes of a checkpoint that get checksums, the smallest files first: Carrel compares no more."""


def checkpoint_dir() -> Path | None:
    """Where to save; None outside of Carrel."""
    place = os.environ.get("CARREL_CHECKPOINT_DIR")
    return Path(place) if place else None


def resume_from() -> Path | None:
    """The checkpoint to go on from; None when there is none."""
    place = os.environ.get("CARREL_RESUME_FROM")
    return Path(place) if place else None


class Saver:
    """Says when it is time to save, and saves."""

    def __init__(
        self,
        every_s: float = 1800.0,
        directory: Path | None = None,
        signals: tuple[int, ...] = (signal.SIGTERM, signal.SIGUSR1),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`every_s` is used where Carrel does not know yet what is best. `signals` are those that
        announce the end; make this in the main thread."""
        told = os.environ.get("CARREL_CHECKPOINT_INTERVAL")
        self.every_s = float(told) if told else every_s
        self.directory = directory or checkpoint_dir()
        self.told_to_stop: int | None = None
        """The signal that announced the end."""
        self._clock = clock
        self._saved_at = clock()
        for number in signals:
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: object) -> None:
        self.told_to_stop = number

    @property
    def exit_code(self) -> int:
        """128 + the signal's number: Carrel takes 0 for "nothing more to do"."""
        return 128 + (self.told_to_stop or 0)

    def due(self) -> bool:
        """Whether the interval is over, or the end was announced."""
        late = self._clock() - self._saved_at >= self.every_s
        return self.directory is not None and (late or self.told_to_stop is not None)

    def saved(self) -> None:
        """Something else has just saved: the interval begins anew."""
        self._saved_at = self._clock()

    def save(self, step: int, write: Callable[[Path], None]) -> Path | None:
        """Have `write` put files into a directory, and make it the checkpoint of that step; its
        path, or None outside of Carrel. Raises what `write` raises, and leaves nothing then."""
        if self.directory is None:
            return None
        final = self.directory / f"step-{step}"
        fresh = self.directory / f".step-{step}.{os.getpid()}.tmp"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            write(fresh)
            write_manifest(fresh)
            _sync(fresh)
            _put_in_place(fresh, final)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        self.saved()
        return final


def write_manifest(directory: Path) -> None:
    """Note which files are in there, how long each is, and the checksums of the smaller ones."""
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != MANIFEST]
    files: dict[str, dict[str, int | str]] = {}
    left = HASHED
    for path in sorted(found, key=lambda path: (path.stat().st_size, str(path))):
        size = path.stat().st_size
        facts: dict[str, int | str] = {"size": size}
        left -= size
        if left >= 0:
            facts["sha256"] = _sha256(path)
        files[path.relative_to(directory).as_posix()] = facts
    (directory / MANIFEST).write_text(json.dumps({"files": files}, indent=1), encoding="utf-8")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _sync(directory: Path) -> None:
    """Have it all on the disk before anybody can see it."""
    for path in [*directory.rglob("*"), directory]:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _put_in_place(fresh: Path, final: Path) -> None:
    """An older one of the same step makes room only when the new one is ready."""
    old = fresh.with_suffix(".old.tmp")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    fresh.rename(final)
    shutil.rmtree(old, ignore_errors=True)
    fd = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
