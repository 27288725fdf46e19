"""Every page of the built site in a browser, in light and dark: no script fails, every picture
loads, nothing overflows, and every link leads to a page and an anchor that exist.

`tox run -e browser` builds the site and runs this with the system's Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(os.environ.get("SVOD_TEST_SITE", ROOT / "build/site"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# The page of errors is shown at any address, with links from the root of a server.
PAGES = sorted(
    name for path in SITE.rglob("*.html") if (name := str(path.relative_to(SITE))) != "404.html"
)
WIDTHS = (1280, 390)  # of a desktop and of a phone

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or not PAGES, reason="needs Chromium and build/site: tox run -e browser"
)

# Elements of the text that stick out on the right, unless something around them scrolls or clips.
FIND_OVERFLOW = """() => {
    const limit = document.documentElement.clientWidth + 1;
    const clips = element => {
        for (let e = element; e && e !== document.body; e = e.parentElement)
            if (getComputedStyle(e).overflowX !== 'visible') return true;
        return false;
    };
    return [...document.querySelectorAll('.md-content article *')]
        .filter(e => e.getBoundingClientRect().right > limit && !clips(e))
        .map(e => e.tagName + ': ' + e.textContent.trim().slice(0, 60));
}"""
FIND_BROKEN_PICTURES = """() => [...document.images]
    .filter(image => !image.complete || image.naturalWidth === 0).map(image => image.src)"""
# The relative luminances of text and background, as the Web Content Accessibility Guidelines say.
GET_CONTRAST = """() => {
    const luminance = color => {
        const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const text = luminance(getComputedStyle(document.querySelector('.md-content')).color);
    const ground = luminance(getComputedStyle(document.body).backgroundColor);
    return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
}"""


# `href` of an element is absolute, as a click would follow it.
GET_LINKS = "[...document.links].map(link => link.href)"
GET_ANCHORS = "[...document.querySelectorAll('[id]')].map(element => element.id)"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        del format, args


@dataclass
class Visit:
    """What a page shows in one color scheme."""

    problems: dict[str, list[str]]
    links: list[str]
    anchors: set[str]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # Scripts that start workers, such as the search, do not run in a page of the disk.
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def visits(address: str) -> dict[str, dict[str, Visit]]:
    with playwright.sync_playwright() as started:
        # Without the sandbox, which a container's root user cannot have.
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        seen = {scheme: visit_all(browser, address, scheme) for scheme in ("light", "dark")}
        browser.close()
    return seen


def visit_all(browser: Any, address: str, scheme: str) -> dict[str, Visit]:
    """Open every page in a color scheme."""
    page = browser.new_context(color_scheme=scheme).new_page()
    index = json.loads((SITE / "search/search_index.json").read_text()) | {"docs": []}
    # Each page would read the index of all pages, which takes longer than everything else.
    page.route("**/search/search_index.json", lambda route: route.fulfill(json=index))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    visits: dict[str, Visit] = {}
    for name in PAGES:
        errors.clear()
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(address + name)
        shown = page.evaluate("document.body.dataset.mdColorScheme")
        found = {
            "errors": [*errors],
            "pictures": page.evaluate(FIND_BROKEN_PICTURES),
            "scheme": [] if shown == {"light": "default", "dark": "slate"}[scheme] else [shown],
            "contrast": [] if page.evaluate(GET_CONTRAST) >= 7 else ["text on background"],
        }
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            found[f"overflow at {width}"] = page.evaluate(FIND_OVERFLOW)
        visits[name] = Visit(found, page.evaluate(GET_LINKS), set(page.evaluate(GET_ANCHORS)))
    return visits


def test_the_search_finds_a_name(address: str) -> None:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address + "index.html")
        page.fill(".md-search__input", "clear_caches")
        page.wait_for_selector(".md-search-result__link[href*='operating.html']", state="attached")
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_whole(visits: dict[str, dict[str, Visit]], scheme: str) -> None:
    problems = {
        name: found
        for name, visit in visits[scheme].items()
        if (found := {key: value for key, value in visit.problems.items() if value})
    }
    assert problems == {}


def test_every_link_leads_somewhere(visits: dict[str, dict[str, Visit]], address: str) -> None:
    pages = visits["light"]

    def exists(link: str) -> bool:
        target, anchor = urldefrag(link)
        if not target.startswith(address):
            return target.startswith("https://")
        name = unquote(target.removeprefix(address)) or "index.html"
        if name not in pages:
            return not anchor and (SITE / name).is_file()
        return not anchor or unquote(anchor) in pages[name].anchors

    dead = {
        f"{name}: {link}"
        for name, visit in pages.items()
        for link in visit.links
        if not exists(link)
    }
    assert dead == set()
