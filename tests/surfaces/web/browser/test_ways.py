"""What people do on the pages: from the calendar to the words, searching, by keys alone, without a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from mcp_memory.surfaces.web.local import write_login_page
from tests.surfaces.web.browser.conftest import LONG, MIDST, Site, overhang, started

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from tests.surfaces.web.browser.conftest import Open


def is_focused(found: Locator) -> bool:
    return bool(found.evaluate("element => element === document.activeElement"))


def is_within(inner: Locator, outer: Locator) -> bool:
    """Whether something is in sight, on the screen and within what scrolls."""
    box, frame = inner.bounding_box(), outer.bounding_box()
    assert box is not None
    assert frame is not None
    size = inner.page.viewport_size
    assert size is not None
    top, bottom = max(frame["y"], 0), min(frame["y"] + frame["height"], size["height"])
    return top <= box["y"] and box["y"] + box["height"] <= bottom


def wait_for_more_events(page: Page, than: int) -> None:
    page.wait_for_function("than => document.querySelectorAll('.event').length > than", arg=than)


def test_a_day_of_the_calendar_leads_to_the_marked_words(site: Site, open_page: Open) -> None:
    page = open_page(site, "/")
    page.get_by_role("link", name="Monday, October 26, 2026: 2 segments").click()
    page.wait_for_url("**/day/2026-10-26")
    bullet = page.locator("a.said").first
    bullet.click()
    mark = page.locator("#beside #excerpt")
    mark.wait_for()
    assert page.url.endswith("/day/2026-10-26")
    assert is_within(mark, page.locator("#beside"))
    assert mark.inner_text()[:20] in page.locator("#beside .event.cited").inner_text()
    page.keyboard.press("Escape")
    page.locator("#beside").wait_for(state="hidden")
    assert is_focused(bullet)


def test_the_words_are_in_sight_on_a_phone_as_well(site: Site, open_page: Open) -> None:
    page = open_page(site, f"/search?q={MIDST.replace(' ', '+')}", width=360)
    page.locator(".hit a.main", has_text=MIDST).first.click()
    mark = page.locator("#beside #excerpt")
    mark.wait_for()
    assert page.locator("#beside").get_by_role("link", name="Earlier").count() == 1
    assert is_within(mark, page.locator("#beside"))
    for name in ("Close", "Copy link", "Copy citation"):
        assert is_within(page.get_by_role("button", name=name), page.locator("#beside")), name
    page.get_by_role("button", name="Close").click()
    page.locator("#beside").wait_for(state="hidden")


def test_going_back_closes_the_words_and_stays_on_the_page(site: Site, open_page: Open) -> None:
    page = open_page(site, "/sessions")
    page.goto(site.views["segment"])
    page.locator("a.said").first.click()
    page.locator("#beside #excerpt").wait_for()
    page.go_back()
    page.locator("#beside").wait_for(state="hidden")
    assert page.url.endswith(site.views["segment"])
    page.go_back()
    assert page.url.endswith("/sessions")


def test_a_page_of_evidence_opens_at_the_marked_words(site: Site, open_page: Open) -> None:
    page = open_page(site, f"/search?q={MIDST.replace(' ', '+')}")
    address = page.locator(".hit a.main", has_text=MIDST).first.get_attribute("href")
    assert address is not None
    page.goto(address)
    box = page.locator("#excerpt").bounding_box()
    assert box is not None
    assert 0 < box["y"] < 800
    assert page.evaluate("scrollY") > 0


def test_evidence_goes_on_in_both_directions(site: Site, open_page: Open) -> None:
    page = open_page(site, f"/search?q={MIDST.replace(' ', '+')}")
    page.locator(".hit a.main", has_text=MIDST).first.click()
    page.locator("#beside #excerpt").wait_for()
    first = page.locator("#beside .event").first.get_attribute("id")
    count = page.locator(".event").count()
    mark = page.locator("#beside #excerpt")
    page.locator("#beside").get_by_role("link", name="Earlier").focus()
    before = mark.bounding_box()
    page.keyboard.press("Enter")
    wait_for_more_events(page, count)
    after = mark.bounding_box()
    assert before is not None
    assert after is not None
    # Whoever reads on keeps the place, on the screen and for the keyboard.
    assert abs(before["y"] - after["y"]) < 60
    assert page.evaluate("document.activeElement.closest('#beside .event') !== null")
    assert page.locator("#beside .event").first.get_attribute("id") != first
    last = page.locator("#beside .event").last.get_attribute("id")
    page.locator("#beside .event").last.scroll_into_view_if_needed()
    page.wait_for_function(
        "id => document.querySelector('#beside .conversation .event:last-of-type').id !== id", arg=last
    )


def test_a_long_session_is_read_from_its_beginning_to_its_end(site: Site, open_page: Open) -> None:
    page = open_page(site, f"/session/{LONG}")
    while page.locator('[data-more="later"]').count():
        count = page.locator(".event").count()
        page.locator(".event").last.scroll_into_view_if_needed()
        page.wait_for_function(
            "count => document.querySelectorAll('.event').length > count "
            "|| !document.querySelector('[data-more=later]')",
            arg=count,
        )
    told = page.locator(".event .prose").all_inner_texts()
    assert len(told) == 120
    assert [int(match[1]) for text in told if (match := re.search(r"Gauge (\d+)", text))] == sorted([*range(60)] * 2)


def test_tool_calls_are_folded_until_someone_wants_them(site: Site, open_page: Open) -> None:
    page = open_page(site, "/session/tidepool-api-01")
    call = page.locator(".role-tool details").first
    assert not call.locator("pre").is_visible()
    call.locator("summary").click()
    assert call.locator("pre").is_visible()


def test_a_link_and_a_citation_can_be_copied(site: Site, open_page: Open) -> None:
    page = open_page(site, site.views["evidence"], permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == f"{site.url}{site.views['evidence']}"
    page.get_by_role("button", name="Copy citation").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('“')")
    assert re.fullmatch(r"“.+” — \w+, .+, tidepool-api, grip:\S+", page.evaluate("navigator.clipboard.readText()"))


def test_versions_show_what_was_added_and_taken_out(site: Site, open_page: Open) -> None:
    page = open_page(site, "/node/toc:day:2026-10-30@tidepool-api")
    page.get_by_role("link", name="version 2").click()
    newest = page.get_by_role("region", name="Version 2")
    assert "Ship the export on Monday" in newest.locator("ins").last.inner_text()
    assert newest.locator(".same").count() > 0
    assert page.get_by_role("region", name="Version 1").locator("del").count() == 0


def test_search_answers_while_one_types_and_leads_to_the_words_by_keys_alone(site: Site, open_page: Open) -> None:
    page = open_page(site, "/toc")
    page.keyboard.press("/")
    assert is_focused(page.locator("#find"))
    page.keyboard.type("token")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=token")
    page.keyboard.press("/")
    assert is_focused(page.locator("#q"))
    page.keyboard.press("End")
    page.keyboard.type(" bucket")
    page.wait_for_url("**/search?q=token+bucket")
    assert page.locator(".hit mark", has_text="bucket").count()
    page.keyboard.press("ArrowDown")
    hit = page.locator(".hit").first
    assert is_focused(hit.locator("a.main"))
    page.keyboard.press("Enter")
    page.locator("#beside #excerpt").wait_for()
    page.keyboard.press("Escape")
    page.locator("#beside").wait_for(state="hidden")
    assert is_focused(hit.locator("a.main"))


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_head_of_the_search_page_is_that_of_every_other_page(
    site: Site, open_page: Open, width: int, height: int
) -> None:
    page = open_page(site, "/toc", width=width, height=height)
    parts = [".find input", ".scope select", ".top nav", ".top nav a >> nth=3"]
    elsewhere = [page.locator(part).bounding_box() for part in parts]
    page.goto("/search?q=token")
    assert [page.locator(part).bounding_box() for part in parts] == elsewhere
    page.goto("/search")
    assert [page.locator(part).bounding_box() for part in parts] == elsewhere


def test_the_slash_goes_to_the_search_box_of_the_search_page(site: Site, open_page: Open) -> None:
    page = open_page(site, "/search")
    page.keyboard.press("/")
    assert is_focused(page.locator(".find input"))
    assert page.locator(".find input").input_value() == ""
    page.keyboard.type("token")
    page.wait_for_url("**/search?q=token")
    assert page.locator(".hit").count()


def test_keys_go_from_item_to_item_and_are_explained(site: Site, open_page: Open) -> None:
    page = open_page(site, "/sessions")
    rows = page.locator(".row a.main")
    for key, number in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        assert is_focused(rows.nth(number))
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Keys").wait_for(state="hidden")
    address = rows.nth(1).get_attribute("href")
    assert is_focused(rows.nth(1))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{address}")


def test_keys_pass_over_what_is_folded(site: Site, open_page: Open) -> None:
    page = open_page(site, site.views["day node"])
    assert page.locator("details:not([open]) [data-item]").count() > 0
    many = page.locator("[data-item]").count()
    for _ in range(many):
        page.keyboard.press("j")
        assert page.evaluate("document.querySelector('.at').checkVisibility()")
    assert page.locator(".at").count() == 1
    page.keyboard.press("k")
    assert page.locator(".at").count() == 1


def test_keys_are_letters_while_one_types(site: Site, open_page: Open) -> None:
    page = open_page(site, "/search")
    page.locator("#q").press_sequentially("j/k?")
    assert page.locator("#q").input_value() == "j/k?"
    assert not page.get_by_role("heading", name="Keys").is_visible()


def test_filters_narrow_the_hits_and_a_time_is_shown_as_it_was_understood(site: Site, open_page: Open) -> None:
    page = open_page(site, "/search?q=token")
    assert page.locator(".hit .meta", has_text="assistant").count()
    page.select_option("#f-role", "user")
    page.wait_for_url("**role=user*")
    assert page.locator(".hit").count()
    assert page.locator(".hit > .meta", has_text=re.compile("assistant|tool ·")).count() == 0
    page.fill("#f-when", "October 2026")
    page.locator("[data-range]", has_text="2026-10-01 00:00 to 2026-10-31").wait_for()
    assert page.locator(".hit time").all_inner_texts()
    assert all(moment.startswith("2026-10") for moment in page.locator(".hit time").all_inner_texts())
    page.select_option("#f-project", "tidepool-web")
    page.wait_for_url("**project=tidepool-web*")
    assert set(page.locator(".hit .meta .chip:not([title])").all_inner_texts()) <= {"tidepool-web"}
    page.fill("#f-when", "the twelfth of never")
    page.locator("#results .notice").wait_for()


def test_a_search_without_an_answer_says_so_instead_of_showing_what_was_found_before(
    site: Site, open_page: Open
) -> None:
    page = open_page(site, "/search?q=token", fails=True)
    page.route("**/search?*part=1*", lambda route: route.abort())
    page.locator("#q").press_sequentially(" bucket")
    page.locator("#results", has_text="There is no answer").wait_for()
    assert page.locator(".hit").count() == 0
    page.unroute("**/search?*part=1*")


def test_a_search_that_finds_nothing_says_what_to_try(site: Site, open_page: Open) -> None:
    page = open_page(site, "/search")
    page.fill("#f-file", "no-such-file.py")
    page.fill("#q", "zebra")
    page.get_by_text("Nothing was found for “zebra”").wait_for()
    page.get_by_text("Try fewer or other words").wait_for()


def test_what_is_looked_at_stays_within_the_chosen_project(site: Site, open_page: Open) -> None:
    page = open_page(site, "/")
    with page.expect_navigation():
        page.select_option("#project", "tidepool-web")
    page.get_by_role("link", name="Sessions", exact=True).click()
    page.wait_for_url("**/sessions?project=tidepool-web")
    assert set(page.locator(".row .chip").all_inner_texts()) == {"tidepool-web"}


def test_an_id_that_is_gone_leads_on(site: Site, open_page: Open) -> None:
    page = open_page(site, "/node/toc:day:2026-11-01@tidepool-api", fails=True)
    page.get_by_role("heading", name="Not here").wait_for()
    page.locator(".row a.main").first.click()
    page.wait_for_url("**/node/toc:day:2026-10-30@tidepool-api")
    page.goto("/grip/grip:1700000000000:01HF7YAT00AAAAAAAAAAAAAAAA")
    page.get_by_role("heading", name="Not here").wait_for()
    page.get_by_role("link", name="Sessions", exact=True).last.click()
    page.wait_for_url("**/sessions")


def test_the_way_to_the_words_needs_no_script(site: Site, open_page: Open) -> None:
    page = open_page(site, "/", java_script_enabled=False)
    page.get_by_role("link", name="Monday, October 26, 2026: 2 segments").click()
    page.locator("a.said").first.click()
    assert "/grip/" in page.url
    assert page.locator("#excerpt").inner_text()
    page.goto("/search")
    page.fill("#q", MIDST)
    page.get_by_role("button", name="Search").click()
    page.locator(".hit a.main", has_text=MIDST).first.click()
    first = page.locator(".event").first.get_attribute("id")
    with page.expect_navigation():
        page.get_by_role("link", name="Earlier").click()
    assert page.locator(".event").first.get_attribute("id") != first
    with page.expect_navigation():
        page.get_by_role("link", name="Later").click()
    assert page.locator(".event").count()


def test_a_link_on_a_page_of_another_site_leads_to_the_page(site: Site, browser: Browser) -> None:
    """No cookie comes along at first."""
    context = browser.new_context(storage_state=site.state)
    page = context.new_page()
    page.goto("data:text/html,<h1>Elsewhere</h1>")
    page.evaluate("url => location.assign(url)", f"{site.url}/toc?project=tidepool-api")
    page.get_by_role("heading", name="Table of contents").wait_for()
    assert page.url == f"{site.url}/toc?project=tidepool-api"
    context.close()


def test_the_file_that_a_browser_is_opened_with_logs_it_in(browser: Browser, used_home: Path, tmp_path: Path) -> None:
    with started(used_home, tmp_path) as site:
        context = browser.new_context()
        page = context.new_page()
        page.goto(write_login_page(site.home, site.link).as_uri())
        page.wait_for_url(f"{site.url}/")
        page.get_by_role("button", name="Log out").wait_for()
        assert site.link.partition("code=")[2] not in page.content()
        context.close()


def test_the_link_logs_a_browser_in_once_and_leaves_only_a_cookie(
    open_page: Open, used_home: Path, tmp_path: Path
) -> None:
    with started(used_home, tmp_path) as site:
        code = site.link.partition("code=")[2]
        token = (site.home / "token").read_text().strip()
        page = open_page(site, logged_in=False, fails=True)
        page.goto(site.link)
        assert page.url == f"{site.url}/"
        [cookie] = page.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        assert token not in cookie["value"]
        assert page.evaluate("document.cookie") == ""
        assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
        for secret in (code, token):
            assert secret not in page.content()
        page.goto("/toc")
        page.go_back()
        assert page.url == f"{site.url}/"
        page.go_back()
        assert page.url == "about:blank"

        other = open_page(site, logged_in=False, fails=True)
        other.goto(site.link)
        other.get_by_text("This link has been used, or is too old.").wait_for()
        assert other.context.cookies() == []
        assert overhang(other) == 0
        other.get_by_label("Token").fill(token)
        other.get_by_role("button", name="Log in").click()
        other.wait_for_url(f"{site.url}/")

        page.goto("/")
        page.get_by_role("button", name="Log out").click()
        page.get_by_text("This browser is logged out.").wait_for()
        assert page.context.cookies() == []
        answer = page.goto("/sessions")
        assert answer is not None
        assert answer.status == 401
        assert "tidepool" not in page.content()
