"""The script editor of the submit page, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.lab.browser import Visitor
from tests.lab.portal import Carrel

pytestmark = [pytest.mark.serial, pytest.mark.browser]


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


_CUT = """() => [...document.querySelectorAll("#settings input[placeholder]")].filter((field) => {
  const style = getComputedStyle(field);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = style.font;
  const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return pen.measureText(field.placeholder).width > room;
}).map((field) => field.name)"""
"""The fields whose placeholders are wider than they are."""
