"""What holds for each page of the viewer: it stands without a script, on a phone, in the dark, and without barriers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import REPO
from tests.surfaces.web.browser.conftest import MISSING, VIEWS, Site, overhang

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.surfaces.web.browser.conftest import Open

AXE = REPO / "build/axe/node_modules/axe-core/axe.min.js"
NO_AXE = "axe-core is not installed: `make axe` does, if there is npm"
needs_axe = pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
every_view = pytest.mark.parametrize("view", VIEWS)
PHONE = 360
#: What a reader must find on each page.
TELLS = {
    "overview": "Open now",
    "contents": "Latest days",
    "day": "tidepool-api",
    "day node": "Segments",
    "segment": "written by extractive",
    "year": "Months",
    "versions": "Version 2",
    "evidence": "exact words",
    "search": "Said by",
    "hits": "2026-01-01 00:00 to 2026-12-31",
    "sessions": "harbours",
    "session": "Beginning",
    "files": "exports.py",
    "file": "Each change with the reason for it",
    "notes": "Deploy on Tuesdays only.",
    "note": "Save the change",
    "recalled": "whether they opened something of it",
    "live": "appears here by itself",
    "health": "Checked:",
    "forget": "Nothing is erased before you have seen",
    "preview": "Yes, erase this for good",
    MISSING: "Near by",
}


def barriers(page: Page) -> list[str]:
    """What axe finds that keeps someone from using the page in light or, by its colours, in the dark."""
    page.evaluate(f"() => {{ if (!window.axe) {{ {AXE.read_text('utf-8')} }} }}")
    found = _found(page, {})
    page.emulate_media(color_scheme="dark")
    return found + _found(page, {"runOnly": ["color-contrast"]})


def _found(page: Page, rules: dict[str, Any]) -> list[str]:
    found = page.evaluate(
        "rules => axe.run(document, { resultTypes: ['violations'], preload: false, ...rules })", rules
    )
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


@every_view
def test_a_view_is_readable_without_javascript(site: Site, open_page: Open, view: str) -> None:
    page = open_page(site, site.views[view], fails=view == MISSING, java_script_enabled=False)
    assert TELLS[view] in page.locator("main").inner_text()
    assert page.locator("h1").count() == 1


@every_view
def test_a_view_fits_on_a_phone_and_has_no_barrier(site: Site, open_page: Open, view: str) -> None:
    page = open_page(site, site.views[view], fails=view == MISSING, width=PHONE)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert TELLS[view] in page.locator("main").inner_text()
    assert overhang(page) == 0
    if not AXE.exists():
        pytest.skip(NO_AXE)
    page.set_viewport_size({"width": 1280, "height": 800})
    assert barriers(page) == []


@needs_axe
@pytest.mark.parametrize("width", [1280, PHONE])
def test_evidence_beside_its_bullet_has_no_barrier(site: Site, open_page: Open, width: int) -> None:
    page = open_page(site, site.views["segment"], width=width)
    page.locator("a.said").first.click()
    page.locator("#beside #excerpt").wait_for()
    assert barriers(page) == []
    assert overhang(page) == 0


@needs_axe
def test_the_door_and_the_list_of_keys_have_no_barrier(site: Site, open_page: Open) -> None:
    door = open_page(site, "/", logged_in=False, fails=True, width=PHONE)
    assert "mcp-memory web" in door.locator("main").inner_text()
    assert overhang(door) == 0
    page = open_page(site, "/files")
    page.keyboard.press("?")
    page.locator("dialog#keys[open]").wait_for()
    for each in (door, page):
        assert barriers(each) == []


def test_the_dark_scheme_is_dark(site: Site, open_page: Open) -> None:
    def brightness(scheme: str, what: str) -> int:
        page = open_page(site, "/", color_scheme=scheme)
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    assert brightness("light", "backgroundColor") > brightness("light", "color")
    assert brightness("dark", "backgroundColor") < brightness("dark", "color")


def test_a_phone_sees_the_days_on_which_something_was_done_last(site: Site, open_page: Open) -> None:
    page = open_page(site, "/", width=PHONE)
    last = page.locator(".calendar a").last.bounding_box()
    assert last is not None
    assert 0 <= last["x"] < PHONE


def test_the_pictures_in_the_docs_are_small_and_there() -> None:
    for name in ("overview.png", "evidence.png", "phone.png"):
        path = REPO / "docs/images" / name
        assert path.read_bytes()[:4] == b"\x89PNG", name
        assert path.stat().st_size < 250_000, name


def _picture(page: Page, name: str) -> None:
    """Written anew with MCP_MEMORY_WRITE_SCREENSHOTS=1."""
    if os.environ.get("MCP_MEMORY_WRITE_SCREENSHOTS"):
        page.screenshot(path=REPO / "docs/images" / name)


def test_the_pages_in_the_docs_look_like_their_pictures(site: Site, open_page: Open) -> None:
    page = open_page(site, "/", width=1080, height=680)
    headings = page.locator("h2").all_inner_texts()
    assert {"Open now", "Latest sessions", "Latest days", "Projects"} <= set(headings)
    assert page.locator(".calendar a").count() > 10
    _picture(page, "overview.png")
    page.goto("/node/toc:day:2026-10-30@tidepool-api")
    page.locator("a.said", has_text="waiting for the payment provider").click()
    page.locator("#beside #excerpt").wait_for()
    assert "exact words" in page.locator("#beside").inner_text()
    _picture(page, "evidence.png")
    phone = open_page(site, "/search?q=token+bucket", width=PHONE, color_scheme="dark")
    assert phone.locator(".hit mark").count() > 3
    _picture(phone, "phone.png")
