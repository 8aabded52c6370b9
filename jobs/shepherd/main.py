"""The door: one verb a call, JSON in on stdin and JSON out on stdout.

`VERB SPOOL` are the arguments. Input: one line with the decimal length in bytes, then that
many bytes of a JSON object; its end is never waited for. Output: one JSON object, either
`{"ok": true, ...}` or `{"ok": false, "error": TEXT}`; only `watch` prints a line per change.
SPOOL is an absolute path or starts with `~/`.
"""

import os

from . import spool, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERBS = ("launch", "observe", "stop", "read", "collect", "watch", "probe")
MAX_INPUT = 256 * 1024 * 1024


class BadInput(ValueError):
    """The caller did not keep to the protocol."""


def _read_exactly(length: int) -> bytes:
    chunks = []
    while length > 0:
        chunk = os.read(0, min(length, 1 << 20))
        if not chunk:
            raise BadInput("the input ended %d bytes early" % length)
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def _request() -> "dict[str, Any]":
    digits = b""
    while True:
        byte = _read_exactly(1)
        if byte == b"\n":
            break
        digits += byte
        if not byte.isdigit() or len(digits) > 12:
            raise BadInput("the first line must be the input's length in bytes")
    if not digits or int(digits) > MAX_INPUT:
        raise BadInput("the input's length must be from 2 to %d bytes" % MAX_INPUT)
    value = wire.loads(_read_exactly(int(digits)).decode("utf-8"))
    if not isinstance(value, dict):
        raise BadInput("the input must be one JSON object")
    return value


def _answer(arguments: "list[str]") -> "dict[str, Any]":
    if len(arguments) != 2 or arguments[0] not in VERBS:
        raise BadInput("usage: VERB SPOOL, with a VERB of: " + ", ".join(VERBS))
    request = _request()
    # Only the module that is needed is loaded: most calls need few, and start-up is felt.
    module = __import__("shepherd." + arguments[0], None, None, ["verb"])
    answer = module.verb(spool.Spool(arguments[1]), request)
    answer["ok"] = True
    return answer  # type: ignore[no-any-return]


def main(arguments: "list[str]") -> None:
    """Do what is asked and leave."""
    try:
        answer = _answer(arguments)
    except Exception as error:  # The caller gets an answer, whatever it is.
        answer = {"ok": False, "error": "%s: %s" % (type(error).__name__, error)}
    data = wire.dumps(answer) + b"\n"
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass  # Nobody is there to hear it.
    os._exit(0)
