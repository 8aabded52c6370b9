"""Whether the practice lab was removed in the portal. Light: each start of Carrel asks this."""

from __future__ import annotations

from pathlib import Path

_MARK = "removed"


def remove(directory: Path) -> None:
    """Mark the lab as removed: a running one switches itself off, a later start leaves it off."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    (directory / _MARK).touch()


def restore(directory: Path) -> None:
    """Take `remove` back."""
    (directory / _MARK).unlink(missing_ok=True)


def is_removed(directory: Path) -> bool:
    """Whether the lab was removed in the portal."""
    return (directory / _MARK).exists()
