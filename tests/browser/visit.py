"""Browser visits to a server with its cookie, checked for forbidden page activity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.server.guard import browser_root
from tests.server.stage import TOKEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Route

__all__ = ("Visit", "read_finished_page")

_EXPECTED = (
    "Failed to load resource: net::",
    "Failed to load resource: the server responded with a status of 4",
    "The Cross-Origin-Opener-Policy header has been ignored",
)
"""Expected console messages: lost connections, rejected requests, and plain HTTP with a host name."""
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective}`));
"""


class Visit:
    """Browser that cannot open other sites. If a token is given, the browser is signed in to the server at `url`."""

    def __init__(self, chromium: Browser, url: str, *, token: str | None = TOKEN) -> None:
        self.url = url
        self.base = url if token is None else url + browser_root(token)
        self.problems: list[str] = []
        self._context = chromium.new_context(service_workers="block")
        self._context.add_init_script(_TELL_VIOLATIONS)
        self._context.route("**/*", self._route)
        if token is not None:
            self.open(f"/?token={token}")

    def open(self, path: str) -> Page:
        """Open a page, exactly as the server sends it."""
        page = self._context.new_page()
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.goto(self.base + path)
        return page

    def close(self) -> None:
        """Close the browser context."""
        self._context.close()

    def _route(self, route: Route) -> None:
        """Block requests to other servers."""
        address = route.request.url
        if address.startswith(f"{self.url}/"):
            route.continue_()
        else:
            self.problems.append(f"request: {address}")
            route.abort()

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_EXPECTED):
            self.problems.append(f"{message.type}: {message.text}")


def read_finished_page(page: Page) -> str:
    """Return a finished run's page, regardless of which sections the reader has opened or closed."""
    page.locator("#live").wait_for(state="detached")
    page.locator("#speaking").wait_for(state="detached")
    html: str = page.locator("#run").evaluate(
        """run => {
            const copy = run.cloneNode(true);
            for (const each of copy.querySelectorAll("#rounds [aria-current]")) each.removeAttribute("aria-current");
            for (const each of copy.querySelectorAll("*")) {  // the order of attributes says nothing
                const attributes = [...each.attributes].sort((one, other) => (one.name < other.name ? -1 : 1));
                for (const { name } of attributes) each.removeAttribute(name);
                for (const { name, value } of attributes) each.setAttribute(name, value);
            }
            return copy.innerHTML;
        }"""
    )
    return html.replace(' open=""', "").replace(" open>", ">")
