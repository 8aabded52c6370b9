"""What the kernel does for us, by prctl(2): orphans come to us, and our death is the tasks'."""

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

try:
    import ctypes

    _prctl: "Callable[..., int] | None" = ctypes.CDLL(None).prctl
except (ImportError, OSError, AttributeError):
    # Some stripped-down Pythons lack ctypes. The marks in the tasks' environment then have to
    # do: slower, and blind to processes that drop their environment.
    _prctl = None

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent dies; whether the kernel agreed."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent() -> None:
    """Be killed by the kernel when our parent dies, in whatever way."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
