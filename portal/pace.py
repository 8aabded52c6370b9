"""How often at most: at once after a rest, gathered into few in a rush.

A pass or a look costs much the same for one job as for a hundred. When a thousand jobs begin and
end within seconds, doing each at every hint would cost more than the jobs; a short wait gathers
what comes meanwhile. Whoever comes alone does not wait.
"""

from __future__ import annotations

import threading
import time


class Pace:
    """A token bucket: `burst` at once, then `per_s` a second. Safe to use from several threads."""

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at = time.monotonic()
        self._lock = threading.Lock()

    @property
    def ready(self) -> bool:
        """Whether one may be now; none is taken."""
        with self._lock:
            self._refill()
            return self._left >= 1

    def delay(self) -> float:
        """0, and one is taken; else the seconds until the next one may be."""
        with self._lock:
            self._refill()
            if self._left >= 1:
                self._left -= 1
                return 0.0
            return (1 - self._left) / self._per_s

    def later(self, seconds: float) -> None:
        """Those to come may be so much later, as what was done has cost that much."""
        with self._lock:
            self._left -= seconds * self._per_s

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now

    def wait(self) -> None:
        """Until it is one's turn."""
        while delay := self.delay():
            time.sleep(delay)
