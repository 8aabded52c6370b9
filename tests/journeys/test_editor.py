"""Forms in a real browser: the script editor of the submit page, and previews of changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Browser, Page, expect

from tests.lab.browser import Visitor
from tests.lab.portal import Carrel

pytestmark = [pytest.mark.portal, pytest.mark.browser]


@pytest.fixture(scope="module")
def carrel(data: Path) -> Iterator[Carrel]:
    """Without any machine: none is needed here, and to start them takes seconds."""
    with Carrel(data) as started:
        yield started


@pytest.fixture(scope="module")
def visitor(carrel: Carrel, browser: Browser) -> Visitor:
    found = Visitor(browser, carrel.address)
    found.sign_in(carrel.sign_in_link)
    return found


@pytest.fixture
def editor(visitor: Visitor) -> Page:
    """The page with all of the example selected."""
    visitor.complaints.clear()
    visitor.page.goto("/jobs/new/")
    visitor.page.locator(".cm-content").click()
    visitor.page.keyboard.press("Control+A")
    return visitor.page


def test_typing_over_the_example_is_no_complaint(visitor: Visitor, editor: Page) -> None:
    editor.keyboard.type("# mine\nhostname")
    expect(editor.locator("#id_script")).to_have_value("# mine\nhostname")
    assert visitor.complaints == []


def test_a_selection_is_undone_as_it_was_typed_over(visitor: Visitor, editor: Page) -> None:
    script = editor.locator("#id_script")
    before = script.input_value()
    editor.keyboard.type("x")
    expect(script).to_have_value("x")
    editor.keyboard.press("Control+Z")
    expect(script).to_have_value(before)
    assert visitor.complaints == []


@pytest.mark.parametrize("width", [390, 1280])
def test_what_the_script_says_is_read_whole_in_the_form(editor: Page, width: int) -> None:
    editor.set_viewport_size({"width": width, "height": 900})
    editor.locator("summary", has_text="More options").click()
    name = editor.get_by_label("Name", exact=True)
    expect(name).to_have_attribute("placeholder", "hello")
    expect(editor.locator(".field", has=name)).to_have_attribute("data-from-script", "")
    cut = editor.evaluate(_CUT)
    assert cut == []
    name.fill("mine")
    expect(editor.locator(".field", has=name)).not_to_have_attribute("data-from-script", "")


def test_an_outlook_that_is_still_worked_out_is_asked_for_until_it_is_told(
    carrel: Carrel, visitor: Visitor
) -> None:
    # A node that does not answer is enough to wait for.
    away = "from tests.portal import cast; cast.node('away', host='127.0.0.1', port=1)"
    carrel.manage("shell", "-c", away)
    [(person,)] = carrel.rows("SELECT id FROM portal_user")
    check, said = visitor.page.locator("#check"), "still being worked out"
    with redis.Redis(unix_socket_path=str(carrel.data / "redis" / "s")) as flags:
        # As if an earlier one took long.
        flags.set(f"carrel:outlook-for:{person}", 1)
        visitor.complaints.clear()
        visitor.page.goto("/jobs/new/")
        expect(check).to_contain_text(said)
        flags.delete(f"carrel:outlook-for:{person}")
    expect(check).to_contain_text("Submitted now")
    expect(check).not_to_contain_text(said)
    assert visitor.complaints == []


def test_a_preview_says_that_it_is_worked_out_and_is_sent_once(visitor: Visitor) -> None:
    page = visitor.page
    page.goto("/settings/policy/")
    words = page.get_by_text("Working out who would start then")
    expect(words).to_be_hidden()
    # Kept back, as if the answer took long.
    page.evaluate("""
        window.sent = 0;
        document.addEventListener("submit", (event) => {
          if (!event.defaultPrevented) window.sent += 1;
          event.preventDefault();
        });
    """)
    page.get_by_role("button", name="Preview", exact=True).dblclick()
    expect(words).to_be_visible()
    expect(page.get_by_role("button", name="Looking…")).to_have_attribute("aria-busy", "true")
    assert page.evaluate("window.sent") == 1


_CUT = """() => [...document.querySelectorAll("#settings input[placeholder]")].filter((field) => {
  const style = getComputedStyle(field);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = style.font;
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return pen.measureText(field.placeholder).width > room;
}).map((field) => field.name)"""
"""The fields whose placeholders are wider than they are."""
