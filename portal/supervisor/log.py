"""One readable log of many parts: each line says whose it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

WIDTH = 8
_COLOURS = (36, 33, 35, 32, 34, 31)


class Log:
    """Writes to standard output; coloured on a terminal, unless NO_COLOR is set."""

    def __init__(self, names: Sequence[str]) -> None:
        self._coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}

    def line(self, name: str, text: str) -> None:
        prefix = f"{name:{WIDTH}} |"
        if self._coloured and name in self._colours:
            prefix = f"\x1b[{self._colours[name]}m{prefix}\x1b[0m"
        self._write(f"{prefix} {text}\n")

    def say(self, text: str = "") -> None:
        """The supervisor's own words."""
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            pass  # the terminal is gone; its hang-up signal stops us in order
