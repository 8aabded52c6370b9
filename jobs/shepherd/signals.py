"""Signals without the `signal` module: its enumerations take as long to load as all else."""

import _signal as _raw  # type: ignore[import-not-found]

SIGHUP: int = _raw.SIGHUP
SIGINT: int = _raw.SIGINT
SIGKILL: int = _raw.SIGKILL
SIGTERM: int = _raw.SIGTERM
SIGCHLD: int = _raw.SIGCHLD
SIGCONT: int = _raw.SIGCONT
SIGSTOP: int = _raw.SIGSTOP
SIGPIPE: int = _raw.SIGPIPE
SIGUSR1: int = _raw.SIGUSR1
SIGXFSZ: int = _raw.SIGXFSZ
MOST: int = _raw.NSIG
DEFAULT: object = _raw.SIG_DFL
IGNORE: object = _raw.SIG_IGN
handle = _raw.signal
_NAMES = {
    getattr(_raw, name): name
    # Of two names for the same signal the first in the alphabet is the usual one.
    for name in sorted(dir(_raw), reverse=True)
    if name.startswith("SIG") and not name.startswith("SIG_")
}
set_wakeup_fd = _raw.set_wakeup_fd


def name_of(number: int) -> str:
    """`SIGUSR1` for 10; `signal 40` for one without a name."""
    return _NAMES.get(number, "signal %d" % number)


def end_me_after(seconds: float) -> None:
    """Have the kernel end this process, but none that it forks, unless it is gone by then."""
    _raw.alarm(max(1, int(seconds) + 1))
