"""`python -m jobs.practice DIR`: run the practice lab until SIGINT or SIGTERM.

A clean stop switches its machines off: all of their processes end and their boot ids change. A
crash, or kill -9, does not: the next start finds the machines as they are. It also stops, with
exit code 0, once the lab was removed in the portal.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from jobs.practice import machines, processes
from jobs.practice.machines import Machine
from jobs.practice.server import Listener

_LOOK_EVERY_S = 1


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="jobs.practice", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where all of it lives")
    directory: Path = parser.parse_args(arguments).directory.resolve()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    # Clients that come and go are no news.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    lab = machines.prepare(directory)
    with (directory / ".running").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"the practice lab in {directory} is running already", file=sys.stderr)
            return 1
        return _run(directory, lab, stop)


def _run(directory: Path, lab: list[Machine], stop: threading.Event) -> int:
    machines.note_kernel_boot(directory, lab)
    listeners = [_listen(directory, machine) for machine in lab]
    places = ", ".join(f"{one.machine.name} on port {one.machine.port}" for one in listeners)
    print(f"simulated GPUs over real SSH on {machines.HOST}: {places}", flush=True)
    while not (stop.wait(_LOOK_EVERY_S) or machines.is_removed(directory)):
        pass
    for listener in listeners:
        listener.close()
    left = [one for one in listeners if not _switch_off(one.machine)]
    return 1 if left else 0


def _listen(directory: Path, machine: Machine) -> Listener:
    while True:
        listener = Listener(machine, directory / "authorized_keys")
        try:
            listener.start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            print(f"port {machine.port} of {machine.name} is taken: choosing another", flush=True)
            machine = machines.move(directory, machine)
        else:
            return listener


def _switch_off(machine: Machine) -> bool:
    off = processes.switch_off(machine.mark)
    if off:
        machine.renew_boot_id()
    else:
        print(f"{machine.name}: some processes could not be killed", file=sys.stderr, flush=True)
    return off


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
