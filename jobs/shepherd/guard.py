"""What the kernel does for us, by prctl(2): orphans come to us, and our death is the tasks'."""

from . import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

try:
    # The part of `ctypes` that is needed; the rest of it takes longer to load than a launch.
    import _ctypes

    _prctl: "Any" = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
except (ImportError, OSError, AttributeError):
    # Some stripped-down Pythons lack it. The marks in the tasks' environment then have to do:
    # slower, and blind to processes that drop their environment.
    _prctl = None


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent dies; whether the kernel agreed."""
    return bool(_prctl) and _call(_PR_SET_CHILD_SUBREAPER, 1) == 0


def die_with_parent() -> None:
    """Be killed by the kernel when our parent dies, in whatever way."""
    if _prctl:
        _call(_PR_SET_PDEATHSIG, signals.SIGKILL)


def _call(option: int, value: int) -> "Any":
    return _ctypes.call_function(_prctl, (option, value, 0, 0, 0))
