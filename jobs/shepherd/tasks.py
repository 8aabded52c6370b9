"""From a launch's text to a running process: environment, directories, streams, exec."""

import errno
import os
import pwd

from . import guard, output, processes, signals
from .beginning import Beginning
from .spool import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_INHERITED = ("CARREL_", "SSH_")
"""Of the connection that launched it, or of another run: no business of this one."""
_RESTORED = (
    signals.SIGPIPE,
    signals.SIGXFSZ,
    signals.SIGHUP,
    signals.SIGINT,
    signals.SIGTERM,
)


class CannotStart(Exception):
    """The run cannot begin, and a person has to change something."""


def to_bytes(text: str, what: str) -> bytes:
    """What a person typed, exactly, for the kernel; raises CannotStart for a NUL in it."""
    if "\0" in text:
        raise CannotStart("%s holds a NUL byte, which no process can be given" % what)
    return text.encode("utf-8", "surrogateescape")


def to_path(text: str, what: str) -> bytes:
    """A path with a leading `~/` expanded; empty is the home directory."""
    path = to_bytes(text, what)
    home = os.fsencode(processes.home())
    if path in (b"", b"~"):
        return home
    return os.path.join(home, path[2:]) if path[:2] == b"~/" else path


def why(error: OSError) -> str:
    """The kernel's reason in words."""
    return error.strerror or str(error)


def enter_workdir(text: str) -> None:
    """Go to the job's working directory; raises CannotStart."""
    path = to_path(text, "the working directory")
    if path[:1] != b"/":
        path = os.path.join(os.fsencode(processes.home()), path)
    try:
        os.chdir(path)
    except OSError as error:
        name = path.decode("utf-8", "replace")
        raise CannotStart(
            "cannot enter the working directory %s: %s" % (name, why(error))
        ) from None


def make_checkpoint_dir(text: str) -> bytes:
    """Make the checkpoint directory; its absolute path. Raises CannotStart."""
    path = os.path.join(os.fsencode(processes.home()), to_path(text, "the checkpoint directory"))
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        name = path.decode("utf-8", "replace")
        raise CannotStart(
            "cannot make the checkpoint directory %s: %s" % (name, why(error))
        ) from None
    return path


def inherited() -> "dict[bytes, bytes]":
    """The node's own environment, with what a bare exec over SSH may lack."""
    found = {
        name: value
        for name, value in os.environb.items()
        if not name.decode("ascii", "replace").startswith(_NOT_INHERITED)
    }
    if not {b"HOME", b"USER", b"LOGNAME", b"SHELL", b"PATH"} - found.keys():
        return found
    try:
        account = pwd.getpwuid(os.getuid())
        name, home, shell = account.pw_name, account.pw_dir, account.pw_shell
    except KeyError:
        name, home, shell = str(os.getuid()), "/", ""
    usual = {
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "SHELL": shell or "/bin/sh",
        "PATH": _PATH,
    }
    for key, value in usual.items():
        found.setdefault(key.encode("ascii"), os.fsencode(value))
    return found


def environments(beginning: Beginning, checkpoints: "bytes | None") -> "list[dict[bytes, bytes]]":
    """Each task's whole environment, in rank order; raises CannotStart."""
    run, spec = beginning.run, beginning.spec
    common = dict(beginning.inherited)
    here = os.getcwdb()
    common[b"PWD"] = here
    common.pop(b"OLDPWD", None)
    common.update(_variables(spec["environment"]))
    common[b"SLURM_SUBMIT_DIR"] = here
    answers = []
    for own in spec["tasks"] or [{}]:
        one = dict(common)
        one.update(_variables(own))
        if checkpoints is not None:
            one[b"CARREL_CHECKPOINT_DIR"] = checkpoints
        one[b"CARREL_RUN"] = run.key.encode("ascii")
        one[processes.RUN_DIR[:-1]] = os.fsencode(run.dir)
        answers.append(one)
    return answers


def _variables(given: "dict[str, str]") -> "dict[bytes, bytes]":
    found = {}
    for name, value in given.items():
        if not name or "=" in name:
            raise CannotStart("%r cannot be the name of an environment variable" % name)
        label = "the environment variable %s" % name
        found[to_bytes(name, label)] = to_bytes(value, label)
    return found


def open_copy(text: str, what: str) -> output.Copy:
    """Open a file for the job's output, relative to the working directory, where we are."""
    path = to_path(text, what)
    try:
        return output.Copy(path)
    except OSError as error:
        name = path.decode("utf-8", "replace")
        raise CannotStart("cannot open %s %s: %s" % (what, name, why(error))) from None


def command(run: Run) -> "list[bytes]":
    """How the script is run: by the program its first line names, else by bash."""
    path = os.fsencode(run.path("script"))
    with open(path, "rb") as script:
        return [path] if script.read(2) == b"#!" else [b"/bin/bash", path]


def start(
    argv: "list[bytes]",
    environment: "dict[bytes, bytes]",
    streams: "tuple[int, int, int]",
    failures: int,
) -> int:
    """Start one task in a session of its own; its pid. `streams`: stdin, stdout, stderr.

    `failures` is the writing end of a pipe that closes on exec; an errno comes out of it if
    the exec did not succeed.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        guard.die_with_parent()
        if os.getppid() != parent:
            os._exit(127)
        for number in _RESTORED:
            signals.handle(number, signals.DEFAULT)
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        os.execve(argv[0], argv, environment)
    except OSError as error:
        os.write(failures, b"%d\n" % (error.errno or errno.EIO))
    except BaseException:
        os.write(failures, b"%d\n" % errno.EINVAL)
    os._exit(127)


def cannot_run(argv: "list[bytes]", number: int) -> str:
    """Why an exec failed, for the person who wrote the script."""
    reason = os.strerror(number)
    if len(argv) > 1:
        return "cannot run %s: %s" % (argv[0].decode(), reason)
    with open(argv[0], "rb") as script:
        line = script.readline(200).rstrip(b"\n").decode("utf-8", "replace")
    if number == errno.ENOENT:
        return "cannot run the script: the node has no program %r (its first line)" % line[2:]
    if number == errno.E2BIG:
        return "cannot run the script: its environment is too large for this node"
    return "cannot run the script, whose first line is %r: %s" % (line, reason)
