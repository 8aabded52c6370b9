"""The supervisor's loop: carries the parts' lines, starts dead ones again, ends all in order."""

from __future__ import annotations

import json
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

from jobs.practice.removal import is_removed
from portal.supervisor import parts
from portal.supervisor.child import Child
from portal.supervisor.log import Log
from portal.supervisor.parts import Part, Place

_TICK_S = 0.1
# Each stage ends before the next is asked to: the practice machines go when nobody looks at them
# any more, and Redis last.
STOP_ORDER = (("setup", "web", "beat"), ("worker",), ("practice",), ("redis",))


class Failed(Exception):
    """Carrel cannot start; the log says why."""


class House:
    """Runs the parts until told to stop. One thread; `pump` is its heartbeat."""

    def __init__(self, where: Place, log: Log) -> None:
        self._where = where
        self._log = log
        self._children: dict[str, Child] = {}
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._signals = 0
        self._wake, ours = socket.socketpair()
        for end in (self._wake, ours):
            end.setblocking(False)
        self._waker = ours
        self._selector.register(ours, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    @property
    def told_to_stop(self) -> bool:
        return self._signals > 0

    def start(self, part: Part) -> None:
        child = Child(part, self._where.environment(), stdout=subprocess.STDOUT)
        self._children[part.name] = child
        self._begin(child)

    def prepare(self) -> dict[str, Any]:
        """Run the setup part to its end; returns what it found. Raises `Failed`."""
        child = Child(parts.setup(), self._where.environment(), stdout=subprocess.PIPE)
        self._children["setup"] = child
        self._begin(child)
        if not self.wait_for(lambda: child.process is None):
            return {}
        if child.exit_code != 0:
            raise Failed("the setup failed; what it said is above")
        found: dict[str, Any] = json.loads(child.told)
        return found

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Keep all running until the condition holds; False when told to stop before."""
        while not self.told_to_stop:
            if condition():
                return True
            self.pump()
        return False

    def run(self) -> None:
        """Keep all running until told to stop."""
        while not self.told_to_stop:
            self.pump()

    def pump(self) -> None:
        """Carry lines for a moment, and see who died and who is due."""
        for key, _ in self._selector.select(_TICK_S):
            if key.data is None:
                self._waker.recv(4096)
            else:
                self._carry(key.data)
        now = time.monotonic()
        for child in list(self._children.values()):
            self._look_after(child, now)

    def stop(self) -> None:
        """End all parts, in order. A second signal ends the politeness."""
        self._stopping = True
        asked = self._signals
        for stage in STOP_ORDER:
            running = [self._children[name] for name in stage if name in self._children]
            self._end([child for child in running if child.process], asked)

    def _end(self, children: list[Child], asked: int) -> None:
        for child in children:
            child.signal(signal.SIGTERM)
        began = time.monotonic()
        killed: set[str] = set()
        while running := [child for child in children if child.process]:
            for child in running:
                late = time.monotonic() - began > child.part.patience_s
                if (late or self._signals > asked) and child.part.name not in killed:
                    self._log.say(f"{child.part.name} does not end: killing it")
                    child.signal(signal.SIGKILL)
                    killed.add(child.part.name)
            self.pump()

    def _begin(self, child: Child) -> None:
        child.start()
        self._selector.register(child.log, selectors.EVENT_READ, child)

    def _carry(self, child: Child) -> None:
        for line in filter(None, child.read_lines()):
            self._log.line(child.part.name, line)

    def _look_after(self, child: Child, now: float) -> None:
        if child.restart_at is not None and now >= child.restart_at and not self._stopping:
            self._begin(child)
        if child.process is None or child.process.poll() is None:
            return
        self._let_go(child)
        code = child.exit_code
        if self._stopping or child.part.name == "setup":
            return
        if child.part.name == "practice" and is_removed(self._where.practice_dir):
            self._log.say("the practice lab was removed and is switched off")
            return
        pause = child.plan_restart(now)
        where = f" (see {child.part.own_log})" if child.part.own_log else ""
        self._log.say(f"{child.part.name} {_ending(code)}{where}; it starts again in {pause:g} s")

    def _let_go(self, child: Child) -> None:
        """Carry a dead child's last lines and close its pipes."""
        self._carry(child)
        self._selector.unregister(child.log)
        child.forget()

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
