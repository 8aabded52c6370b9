"""The door: one verb a call, JSON in on stdin and JSON out on stdout.

`VERB SPOOL` are the arguments. Input: one line with the decimal length in bytes, then that
many bytes of a JSON object; its end is never waited for. Output: one JSON object, either
`{"ok": true, ...}` or `{"ok": false, "error": TEXT}`; only `serve` prints more than one line.
SPOOL is an absolute path or starts with `~/`.
"""

import os

from . import spool, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERBS = (
    "launch", "observe", "stop", "read", "collect", "prune", "serve", "probe", "health",
)  # fmt: skip
MAX_INPUT = 256 * 1024 * 1024


class BadInput(ValueError):
    """The caller did not keep to the protocol."""


class Input:
    """Requests, as they come in on stdin."""

    def __init__(self) -> None:
        self._text = bytearray()

    def read(self) -> bool:
        """Take in what is there, or wait for some; whether anything came."""
        data = os.read(0, 1 << 20)
        self._text += data
        return bool(data)

    def next(self) -> "dict[str, Any] | None":
        """The next whole request; None when more has to be read first. Raises BadInput."""
        end = self._text.find(b"\n", 0, 14)
        digits = bytes(self._text[:14] if end < 0 else self._text[:end])
        if (digits and not digits.isdigit()) or len(digits) > 12 or end == 0:
            raise BadInput("the first line must be the input's length in bytes")
        if end < 0:
            return None
        if not 2 <= int(digits) <= MAX_INPUT:
            raise BadInput("the input's length must be from 2 to %d bytes" % MAX_INPUT)
        last = end + 1 + int(digits)
        if len(self._text) < last:
            return None
        value = wire.loads(self._text[end + 1 : last].decode("utf-8"))
        del self._text[:last]
        if not isinstance(value, dict):
            raise BadInput("the input must be one JSON object")
        return value

    def whole(self) -> "list[dict[str, Any]]":
        """All requests that have come in whole."""
        return list(iter(self.next, None))


def no_such_verb(*_: object) -> "dict[str, Any]":
    """Raises BadInput."""
    raise BadInput("usage: VERB SPOOL, with a VERB of: " + ", ".join(VERBS))


def answer(
    verb: "Callable[[spool.Spool, dict[str, Any]], dict[str, Any]]",
    where: spool.Spool,
    request: "dict[str, Any]",
) -> "dict[str, Any]":
    """A verb's answer, or its reason for having none."""
    try:
        found = verb(where, request)
        found["ok"] = True
        return found
    except Exception as error:  # The caller gets an answer, whatever it is.
        return failure(error)


def failure(error: Exception) -> "dict[str, Any]":
    """The answer that there is none."""
    return {"ok": False, "error": "%s: %s" % (type(error).__name__, error)}


def give(answer: "dict[str, Any]") -> None:
    """Print the answer, and leave."""
    try:
        spool.write_all(1, wire.dumps(answer) + b"\n")
    except OSError:
        pass  # Nobody is there to hear it.
    os._exit(0)


def _call(arguments: "list[str]") -> "dict[str, Any]":
    if len(arguments) != 2 or arguments[0] not in VERBS:
        no_such_verb()
    given = Input()
    request = given.next()
    while request is None:
        if not given.read():
            raise BadInput("the input ended early")
        request = given.next()
    # Only the module that is needed is loaded: most calls need few, and start-up is felt.
    module = __import__("shepherd." + arguments[0], None, None, ["verb"])
    return answer(module.verb, spool.Spool(arguments[1]), request)


def main(arguments: "list[str]") -> None:
    """Do what is asked and leave."""
    try:
        found = _call(arguments)
    except Exception as error:
        found = failure(error)
    give(found)
