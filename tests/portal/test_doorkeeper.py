"""What is turned away before Django takes it in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator

from portal.asgi import application
from portal.doorkeeper import LARGEST_BODY

FORM = "application/x-www-form-urlencoded"


def answer(
    pieces: list[bytes], *, content_type: str = FORM, length: str | None = None
) -> tuple[int, bytes, int]:
    """Status, body, and how many of the pieces were taken in."""

    async def ask() -> tuple[int, bytes, int]:
        headers = [(b"host", b"127.0.0.1"), (b"content-type", content_type.encode())]
        if length is not None:
            headers.append((b"content-length", length.encode()))
        scope = {
            "type": "http", "method": "POST", "path": "/sign-in/", "query_string": b"",
            "headers": headers,
        }  # fmt: skip
        talk = ApplicationCommunicator(application, scope)
        for number, piece in enumerate(pieces, 1):
            more = number < len(pieces)
            await talk.send_input({"type": "http.request", "body": piece, "more_body": more})
        start: Mapping[str, Any] = await talk.receive_output(10)
        body = await talk.receive_output(10)
        left = talk.input_queue.qsize()
        await talk.wait(10)
        return start["status"], body["body"], len(pieces) - left

    return async_to_sync(ask)()


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    status, words, taken = answer([b"a=b"], length=str(LARGEST_BODY + 1))
    assert (status, taken) == (413, 0)
    assert b"16,777,216 bytes" in words


def test_a_body_that_does_not_say_so_is_read_up_to_the_limit() -> None:
    piece = b"x" * (LARGEST_BODY // 4)
    status, _, taken = answer([piece] * 40)
    assert (status, taken) == (413, 5)


@pytest.mark.parametrize("length", ["-1", "1e3", "٣", "9" * 5000])
def test_a_length_that_is_none(length: str) -> None:
    assert answer([b"a=b"], length=length)[0] == 413


@pytest.mark.parametrize("charset", ["unicode_escape", "raw_unicode_escape", "zip", "utf-16", "x"])
def test_forms_are_read_in_utf_8_only(charset: str) -> None:
    form = f"multipart/form-data; boundary=X; charset={charset}"
    assert answer([b"--X--\r\n"], content_type=form)[0] == 415


@pytest.mark.django_db
@pytest.mark.parametrize("charset", ["", "; charset=UTF-8", '; charset="utf-8"'])
def test_a_usual_form_gets_through(charset: str) -> None:
    status, _, _ = answer([b"a=", b"b"], content_type=FORM + charset)
    assert status == 403  # for want of a CSRF token
