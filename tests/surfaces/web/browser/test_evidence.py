"""The cited words are in sight after a click, whichever link it was and however large the window is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.surfaces.web.browser.conftest import LAST_WORDS, Site

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.surfaces.web.browser.conftest import Open

#: Opens each link of the page in turn and returns those after which the first line of the cited words cannot be seen.
OPEN_ALL = """
async () => {
  const unseen = [], panel = document.querySelector("#beside");
  const links = [...document.querySelectorAll("main a[data-beside]")].filter((link) => link.checkVisibility());
  for (const link of links) {
    const opened = new Promise((resolve) => panel.addEventListener("focus", resolve, { once: true }));
    panel.blur();
    link.click();
    await opened;
    const mark = panel.querySelector("#excerpt") || panel.querySelector(".cited");
    const line = mark.getClientRects()[0];
    const x = line.left + Math.min(line.width, 40) / 2, y = line.top + Math.min(line.height, 20) / 2;
    const top = document.elementFromPoint(x, y);
    if (!top || !mark.contains(top)) unseen.push(`${link.textContent.slice(0, 60)} at ${Math.round(y)}`);
  }
  return [links.length, unseen];
}
"""


def unseen_words(page: Page) -> tuple[int, list[str]]:
    found = page.evaluate(OPEN_ALL)
    return found[0], found[1]


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("view", ["day", "segment", "year", "hits", "session", "long message", "long hit"])
def test_every_link_of_a_page_opens_at_the_cited_words(
    site: Site, open_page: Open, view: str, width: int, height: int
) -> None:
    addresses = {"long message": "/day/2026-09-16", "long hit": f"/search?q={LAST_WORDS.replace(' ', '+')}"}
    page = open_page(site, site.views.get(view) or addresses[view], width=width, height=height)
    links, unseen = unseen_words(page)
    assert unseen == []
    assert links > 0 or view == "session"


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_a_page_of_evidence_shows_the_cited_words(site: Site, open_page: Open, width: int, height: int) -> None:
    page = open_page(site, "/day/2026-09-16", width=width, height=height)
    address = page.locator("a.said", has_text="never restart a buoy").first.get_attribute("href")
    assert address is not None
    page.goto(address)
    box = page.locator("#excerpt").bounding_box()
    assert box is not None
    assert 0 < box["y"] < height - box["height"]
