"""The inner guard of a run: starts its tasks, takes in their output, keeps time and limits,
ends what has to be ended and writes down how it ended."""

import os
import select
import time

from . import guard, lease, output, processes, signals, tasks, watch
from .beginning import Beginning
from .crew import Crew
from .ending import UNSEEN_S, Ending, Limits, demands, record
from .lookout import Lookout
from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FINISH_PATIENCE_S = 600
_NEVER = float("inf")


def _nothing(number: int, frame: object) -> None:
    """Only to be woken up."""


def mind(beginning: Beginning, keeper: int) -> None:
    """Be the minder; never returns."""
    run = beginning.run
    os.setsid()
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signals.set_wakeup_fd(woken)
    signals.handle(signals.SIGCHLD, _nothing)
    signals.handle(signals.SIGUSR1, _nothing)
    adopts = guard.adopt_orphans()
    # Only now, with the lease's present term in hand: of a later one we shall not hear.
    if beginning.term is not None and lease.clock() >= beginning.spec["begin_by"]:
        run.never("not_begun", lease.TOO_LATE)
    if not run.take("begun", run.spool.identity(os.getpid(), keeper)):
        os._exit(0)  # Somebody decided that it shall not begin.
    try:
        me = Minder(run, beginning.spec, wake, adopts, keeper)
    except OSError as error:
        run.finish("launch_failed", "cannot write its log: %s" % tasks.why(error))
        os._exit(0)
    try:
        started_at = me.start(beginning)
    except tasks.CannotStart as error:
        me.give_up(str(error))
        os._exit(0)
    beginning.tell(started_at)
    beginning.hang_up()
    os.close(beginning.null)
    me.watch_over()
    me.finish()
    os._exit(0)


class Minder:
    """One run's tasks and their fate."""

    def __init__(
        self, run: Run, spec: "dict[str, Any]", wake: int, adopts: bool, keeper: int
    ) -> None:
        self.run = run
        self.spec = spec
        self.wake = wake
        self.adopts = adopts
        self.keeper = keeper
        self.log = output.Log(run.log, spec["log_cap_bytes"])
        self.copies: "list[output.Copy]" = []
        self.streams: "list[output.Stream]" = []
        self.crew = Crew(run, adopts)
        self.ending: "Ending | None" = None
        self.notifier = watch.Notifier(run.spool, run.key)
        self.lookout = Lookout(self.notifier)
        self.fence = lease.Fence(self._kill_all)
        self.poll = select.poll()
        self.poll.register(wake, select.POLLIN)
        self._is_woken = True

    def start(self, beginning: Beginning) -> float:
        """Start every task; when they run. Raises CannotStart."""
        spec = self.spec
        tasks.enter_workdir(spec["workdir"])
        checkpoints = None
        if spec["checkpoint_dir"]:
            checkpoints = tasks.make_checkpoint_dir(spec["checkpoint_dir"])
            self.lookout.watch(os.fsdecode(checkpoints))
        environments = tasks.environments(beginning, checkpoints)
        out, err = self._open_streams()
        argv = tasks.command(self.run)
        failed, failures = os.pipe()
        try:
            for environment in environments:
                pid = tasks.start(argv, environment, (beginning.null, out, err), failures)
                self.crew.add(pid)
        except OSError as error:
            raise tasks.CannotStart("cannot start a process: %s" % tasks.why(error)) from None
        finally:
            os.close(failures)
            for fd in {out, err}:
                os.close(fd)
        problem = os.read(failed, 32).split()
        os.close(failed)
        if problem:
            raise tasks.CannotStart(tasks.cannot_run(argv, int(problem[0])))
        started_at = time.time()
        self.limits = Limits(spec, lease.clock())
        if beginning.term is not None:
            self.fence.put_up(beginning.term)
        facts = {
            "started_at": started_at,
            "tasks": self.crew.groups,
            "checkpoint_dir": self.lookout.witness.directory,
        }
        try:
            self.run.write("started.json", facts)
        except OSError as error:
            raise tasks.CannotStart(
                "cannot write into the spool directory: %s" % tasks.why(error)
            ) from None
        self.notifier.changed(lease.clock())
        return started_at

    def _open_streams(self) -> "tuple[int, int]":
        """Pipes for stdout and stderr, one for both unless they go to different files."""
        names = [self.spec["stdout"], self.spec["stderr"]]
        if names[1] is None or names[0] == names[1]:
            names = names[:1]
        ends = []
        for name, what in zip(names, ("the output file", "the error file")):
            sinks: "list[Any]" = [self.log]
            if name is not None:
                sinks.append(tasks.open_copy(name, what))
                self.copies.append(sinks[1])
            reading, writing = os.pipe()
            self.streams.append(output.Stream(reading, sinks))
            self.poll.register(reading, select.POLLIN)
            ends.append(writing)
        return ends[0], ends[-1]

    def watch_over(self) -> None:
        """Until the run is over or what is left of it has to be killed."""
        while True:
            self._reap()
            self._heed_fence()
            self._hear()
            now = lease.clock()
            self._keep_limits(now)
            self.lookout.look(now)
            if self._is_over(now):
                return
            self._wait(now)

    def _reap(self) -> bool:
        return self.crew.reap(self.lookout.witness)

    def _hear(self) -> None:
        if not self._is_woken:
            return
        self._is_woken = False
        if self.run.link(lease.WANTED) is not None:
            self._put_up_fence()
        for number, grace_s, why in demands(self.run):
            self._end("stopped", why, number, grace_s)

    def _put_up_fence(self) -> None:
        """In both guards; the outer one, if it lives, says when that is done."""
        if not self.fence.is_up:
            try:
                self.fence.put_up(lease.Lease(self.run.spool).term())
            except OSError:
                return  # It stays unfenced, and nobody is told otherwise.
        if os.getppid() == self.keeper:
            processes.send(self.keeper, signals.SIGUSR1)
        else:
            self.run.note(lease.UP, "1")

    def _kill_all(self) -> None:
        if self.adopts:
            lease.kill_below(set)
        else:
            processes.end_marked(self.run.dir, patience_s=_NEVER)

    def _keep_limits(self, now: float) -> None:
        if self.limits.warning_is_due(now):
            number = self.spec["warning_signal"]
            left = round(self.limits.ends_at - now)
            name = signals.name_of(number)
            self.log.say("%d s before the time limit: sending %s, as --signal asks" % (left, name))
            self._signal(number, "warned")
        if self.limits.walltime_is_over(now):
            message = "its walltime of %d s is over" % self.spec["walltime_s"]
            self._end("walltime", message, signals.SIGTERM, self.spec["grace_s"])
        if self.limits.memory_is_due(now) and (
            self.ending is None or self.ending.cause != "memory"
        ):
            used = self.limits.measure_memory(now, processes.descendants(os.getpid()))
            if used is not None:
                self.ending = None
                limit = self.spec["memory_mib"]
                message = "it used %d MiB of memory; its limit is %d MiB" % (used, limit)
                self._end("memory", message, signals.SIGKILL, 0)

    def _end(self, cause: str, message: str, number: int, grace_s: float) -> None:
        """Begin to end the run, or hurry it up when that has begun. A repeat changes nothing."""
        if self.ending is None:
            left = "; killed after %g s" % grace_s if number != signals.SIGKILL else ""
            self.log.say("%s: sending %s%s" % (message, signals.name_of(number), left))
            self.ending = Ending(cause, message)
        if self.ending.hears(number, lease.clock() + grace_s) and number != signals.SIGKILL:
            self._signal(number, cause)

    def _signal(self, number: int, why: str) -> None:
        """Signal all tasks, in sight of the witness."""
        if not self.lookout.witness.active:
            self.run.note("closing", why)
        self.lookout.witness.look(processes.descendants(os.getpid()))
        self.lookout.witness.active = True
        for group in self.crew.present():
            if processes.send_group(group, number):
                processes.send_group(group, signals.SIGCONT)

    def _heed_fence(self) -> None:
        """The lease has ended, and what ran has been killed for it."""
        if not self.fence.lapsed or self.crew.left_by_itself:
            return
        if self.ending is not None:
            self.ending.kill_at = 0.0
            return
        self._end("fenced", lease.WHY, signals.SIGKILL, 0)
        # Nobody saw who wrote what when it was killed.
        self.lookout.witness.doubts.append([self.fence.lapsed_at - UNSEEN_S, time.time()])

    def _is_over(self, now: float) -> bool:
        if self.ending is not None and now >= self.ending.kill_at:
            return True
        if self.crew.living:
            if self.ending is None and self.crew.first_failed is not None:
                message = "one of its tasks failed"
                self._end("exited", message, signals.SIGTERM, self.spec["grace_s"])
            return False
        if self.ending is None:
            return True
        # A shell dies of the signal at once; the program it ran may still be saving its work.
        return not self.crew.present()

    def _wait(self, now: float) -> None:
        moments = [self.limits.next_due(), self.lookout.due]
        if self.ending is not None:
            moments.append(self.ending.kill_at)
        if self.ending is not None or self.lookout.witness.active:
            moments.append(now + 0.1)
        left = min(moments) - lease.clock()
        wait = None if left == _NEVER else max(0.0, min(left, 86400.0)) * 1000 + 1
        ready = {fd for fd, _ in self.poll.poll(wait)}
        if self.wake in ready:
            os.read(self.wake, 4096)
            self._is_woken = True
        for stream in self.streams:
            if stream.fd in ready:
                if stream.drain():
                    self.notifier.changed(lease.clock())
                if not stream.is_open:
                    self.poll.unregister(stream.fd)

    def _end_all(self) -> None:
        processes.end_descendants(self._reap, self.lookout.witness.look)
        if not self.adopts:
            processes.end_marked(self.run.dir)

    def give_up(self, message: str) -> None:
        """It could not start: say why where people look for it."""
        self._end_all()
        self.log.say(message)
        self.log.finish()
        self.run.finish("launch_failed", message)
        self.notifier.changed(lease.clock())

    def finish(self) -> None:
        """End what is left, write the last output, then how it ended."""
        if self.ending is not None:
            self.run.note("closing", self.ending.cause)
            self.lookout.witness.active = True
        self._end_all()
        for stream in self.streams:
            while stream.is_open and stream.drain():
                pass
        self.log.finish()
        cause = self.ending.cause if self.ending is not None else "exited"
        message = self.ending.message if self.ending is not None else ""
        pid, status = self.crew.first_failed or (0, 0)
        if cause == "exited" and pid and len(self.crew.groups) > 1:
            rank = self.crew.groups.index(pid)
            message = "task %d of %d was the first to fail" % (rank, len(self.crew.groups))
        problems = {sink.problem for sink in [self.log] + self.copies if sink.problem}
        words = "; ".join([message] * bool(message) + sorted(problems))
        facts = record(status, self.lookout.witness)
        self.run.finish(cause, words, patience_s=FINISH_PATIENCE_S, **facts)
        watch.notify(self.run.spool, self.run.key)
