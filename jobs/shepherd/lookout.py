"""Notices when a run writes checkpoints, so that somebody looks at them soon."""

import os

from . import processes, watch
from .writing import Witness

LOOK_S = 1.0
SETTLED_AFTER_S = 2.2
_NEVER = float("inf")


class Lookout:
    """Watches a run's checkpoint directory, and who writes into it once the run is ending."""

    def __init__(self, notifier: watch.Notifier) -> None:
        self.witness = Witness(None)
        self._notifier = notifier
        self._changed_ns = 0
        self._settled_at = _NEVER
        self._look_at = _NEVER

    def watch(self, directory: str) -> None:
        """From now on."""
        self.witness = Witness(directory)
        self._look_at = 0.0

    def look(self, now: float) -> None:
        """Notice new checkpoints; see who closes what he wrote before he dies."""
        if self.witness.active:
            self.witness.look(processes.descendants(os.getpid()))
        if now >= self._look_at and self.witness.directory:
            self._look_at = now + LOOK_S
            try:
                changed = os.stat(self.witness.directory).st_mtime_ns
            except OSError:
                changed = 0
            if changed != self._changed_ns:
                self._changed_ns = changed
                self._notifier.changed(now)
                self._settled_at = now + SETTLED_AFTER_S
        if now >= self._settled_at:
            self._settled_at = _NEVER
            self._notifier.changed(now)
        self._notifier.tick(now)

    @property
    def due(self) -> float:
        """When to look again."""
        told = self._notifier.due
        return min(self._look_at, self._settled_at, _NEVER if told is None else told)
