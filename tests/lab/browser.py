"""Debian's Chromium, and pages that remember what they complained of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-quic"]
PATIENCE_MS = 60_000
_CUT_OFF = ("htmx:afterRequest", "htmx:sendAbort", "htmx:sendError")
"""So htmx tells of a request that the next one or the next page cut off. Of one that failed the
browser complains itself."""
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} forbids ${event.blockedURI} at ` +
    `${event.sourceFile}:${event.lineNumber}:${event.columnNumber}`));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own, with deadlines for a machine that others use too."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """One person's browser window. `complaints` are what the console said in error, violations of
    the content security policy among it, and requests to other hosts."""

    def __init__(self, browser: Browser, address: str, **settings: Any) -> None:
        self.complaints: list[str] = []
        self._address = address
        self.context = browser.new_context(base_url=address, **settings)
        self.context.set_default_timeout(PATIENCE_MS)
        if settings.get("java_script_enabled", True):
            self.context.add_init_script(_TELL_VIOLATIONS)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._see)

    def sign_in(self, link: str) -> None:
        """By a one-time link, with its click."""
        self.page.goto(link)
        self.page.get_by_role("button", name="Sign in as").click()
        expect(self.page.get_by_role("heading", level=1, name="Overview")).to_be_visible()

    def stay(self) -> None:
        """From here on `stayed` says whether the page was ever loaded anew."""
        self.page.evaluate("window.sameAsBefore = true")

    def stayed(self) -> bool:
        return bool(self.page.evaluate("window.sameAsBefore === true"))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_CUT_OFF):
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _see(self, request: Request) -> None:
        if not request.url.startswith((self._address, "data:", "blob:", "about:")):
            self.complaints.append(f"{self.page.url} asked for {request.url}")
