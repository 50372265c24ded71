"""A memory full of words that try to become a page, to run, or to send something away. Each stays what it is: words."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from tests.surfaces.web.browser.conftest import MISSING, VIEWS, Site, overhang
from tests.surfaces.web.browser.payloads import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.surfaces.web.browser.conftest import Open

#: What none of our pages has in its contents, and what no element of them may hold. A link may lead elsewhere, as long
#: as it is a link: nothing is asked for before someone clicks.
_INTRUDERS = """() => [
  ...document.querySelectorAll('main :is(script, iframe, img, object, embed, video, audio, style, link, meta, base), '
    + '#beside :is(script, iframe, img, object, embed, video, audio, style, link, meta, base)'),
  ...[...document.querySelectorAll('*')].filter((each) => [...each.attributes].some((attribute) =>
    attribute.name.startsWith('on') || attribute.name === 'style'
    || (/^(href|src|action|formaction)$/.test(attribute.name)
      && !each.matches('a[rel~=noreferrer][rel~=noopener]')
      && new URL(attribute.value, location.href).origin !== location.origin
      && !(each.matches('a') && /^https?:/.test(attribute.value)))))
].map((each) => each.outerHTML.slice(0, 200))"""


def assert_words_are_words(page: Page) -> None:
    assert page.evaluate(_INTRUDERS) == []
    assert page.title() != "owned"


@pytest.mark.parametrize("view", [view for view in VIEWS if view not in ("note", MISSING)])
def test_hostile_words_stay_words_in_a_view(hostile: Site, open_page: Open, view: str) -> None:
    page = open_page(hostile, hostile.views[view], width=360)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert_words_are_words(page)
    assert overhang(page) == 0


@pytest.mark.parametrize("session", ["evil-0", "evil-1", "evil-2", "evil-tools"])
def test_hostile_words_stay_words_in_a_session_and_beside_it(hostile: Site, open_page: Open, session: str) -> None:
    page = open_page(hostile, f"/session/{session}", width=360)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert_words_are_words(page)
    assert overhang(page) == 0
    for address in [link.get_attribute("href") for link in page.locator(".event .when").all()][::4]:
        assert address is not None
        page.goto(address)
        assert page.locator("#excerpt").count() == 1
        assert_words_are_words(page)
    page.goto("/search?q=token+login+trust")
    page.locator(".hit a.main").first.click()
    page.locator("#beside .event").first.wait_for()
    assert_words_are_words(page)
    assert overhang(page) == 0


def test_hostile_words_stay_words_as_they_come_in(hostile: Site, open_page: Open) -> None:
    page = open_page(hostile, "/live")
    page.locator("body[data-live=on]").wait_for()
    hostile.capture("<b onmouseover=alert(18)>evil", prompt=f"{HOSTILE[2]} and a walrus")
    page.locator("[data-live] li", has_text="onerror=").filter(has_text="walrus").wait_for()
    assert_words_are_words(page)


def test_hostile_words_stay_words_in_what_one_types(hostile: Site, open_page: Open) -> None:
    page = open_page(hostile, "/search")
    for words in HOSTILE[:3]:
        page.fill("#q", words)
        page.wait_for_url(f"{hostile.url}/search?{urlencode({'q': words})}")
        assert page.locator("#results .hit, #results .card").count()
        page.reload()
        assert page.locator("#q").input_value() == words
        assert_words_are_words(page)


def test_hostile_words_stay_words_in_a_note(hostile: Site, open_page: Open) -> None:
    page = open_page(hostile, "/notes")
    for words in HOSTILE[:8]:
        page.get_by_label("Note", exact=True).fill(words)
        page.get_by_role("button", name="Keep").click()
        page.get_by_role("heading", name="A new note").wait_for()
    assert page.locator("article").count() == 8
    assert_words_are_words(page)
    page.get_by_role("link", name="Edit or pin").last.click()
    assert page.get_by_label("Note", exact=True).input_value() == HOSTILE[0]
    assert_words_are_words(page)
    page.goto("/")
    assert_words_are_words(page)
