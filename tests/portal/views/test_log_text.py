"""Bytes of a log as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from portal.views.log_text import plain, to_html


def test_what_could_be_html_is_text():
    assert to_html(b"<script>alert('1')</script>&") == (
        "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;&amp;"
    )


def test_binary_becomes_replacements():
    assert to_html(b"\x00\xff\xfe\x07ok") == "\ufffd\ufffd\ufffd\ufffdok"


def test_colours_become_classes():
    assert to_html(b"\x1b[1;31mERROR\x1b[0m rest") == (
        '<span class="ansi-1 ansi-bold">ERROR</span> rest'
    )
    assert to_html(b"\x1b[38;5;12mblue\x1b[39mplain") == '<span class="ansi-12">blue</span>plain'
    assert to_html(b"\x1b[38;2;1;2;3mtrue\x1b[m") == "true"
    assert to_html(b"\x1b[48;5;1mpaper") == "paper"


def test_other_sequences_are_taken_out():
    assert to_html(b"a\x1b[2K\x1b[1Gb\x1b]0;title\x07c\x1b(Bd") == "abcd"


def test_what_was_written_over_is_gone():
    assert to_html(b"10%\r50%\r100%\nnext\r\n") == "100%\nnext\n"


def test_characters_that_turn_the_direction_are_shown_as_such():
    assert "\u202e" not in to_html("safe\u202eexe".encode())


def test_plain_has_neither_colours_nor_html():
    assert plain(b"\x1b[31m<b>red</b>\x1b[0m") == "<b>red</b>"


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))


@given(
    st.lists(st.sampled_from([b"\x1b[", b"31", b";", b"m", b"<img src=x>", b'"', b"\xff", b"\r"]))
)
def test_nothing_but_our_spans(pieces: list[bytes]):
    tags = _Tags()
    tags.feed(to_html(b"".join(pieces)))
    for tag, attributes in tags.seen:
        assert tag == "span"
        assert [name for name, _ in attributes] == ["class"]
        assert all(word.startswith("ansi-") for word in (attributes[0][1] or "").split())
