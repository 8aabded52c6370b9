"""Turns away at the door what no page takes, before Django has taken it in.

Django writes a request's whole body to a temporary file before it asks who sent it: a stranger
could fill the disk. And it reads a form in whatever character set its sender names, of which some
bring halves of surrogate pairs into its fields, and others are none for text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from email.message import Message
from typing import Any

LARGEST_BODY = 16 * 1024 * 1024
"""Bytes: more than any form, so that a script that is too large is still told so on its page."""
CHARSETS = ("", "utf-8", "utf8", "us-ascii")

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Doorkeeper:
    """An ASGI application in front of another: 413 for too much, 415 for another charset."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        length = headers.get(b"content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > LARGEST_BODY:
            await _too_large(send)
        elif _charset(headers.get(b"content-type", "")) not in CHARSETS:
            await _refuse(send, 415, "Forms are read in UTF-8 only.")
        else:
            await self._application(scope, _Bounded(receive, send), send)


class _Bounded:
    """The body's pieces as they come, up to the limit; after it, nobody is there any more."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._taken = 0

    async def __call__(self) -> Mapping[str, Any]:
        message = await self._receive()
        self._taken += len(message.get("body", b""))
        if self._taken <= LARGEST_BODY:
            return message
        await _too_large(self._send)
        return {"type": "http.disconnect"}


def _charset(content_type: str) -> str:
    header = Message()
    header["Content-Type"] = content_type.replace("\r", "").replace("\n", "")
    return str(header.get_param("charset", "")).strip().lower()


async def _too_large(send: Send) -> None:
    await _refuse(send, 413, f"A request may have at most {LARGEST_BODY:,} bytes.")


async def _refuse(send: Send, status: int, words: str) -> None:
    body = f"{words}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        # What still comes of the body is not waited for.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
