"""What changes on the pages: news as it comes in, notes, and what is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.surfaces.web.browser.conftest import Site

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.surfaces.web.browser.conftest import Open


def captured(page: Page, words: str) -> Locator:
    """A row of what was said, not of what was made of it."""
    return page.locator("[data-live] li", has=page.locator(".role-user"), has_text=words)


def forget_what_is_shown(page: Page) -> None:
    """Confirm a preview. Without the owner's word the form is not sent."""
    address = page.url
    page.get_by_role("button", name="Forget it").click()
    assert page.locator("input:invalid").count() == 1
    assert page.url == address
    page.get_by_label("Yes, erase this for good").check()
    page.get_by_role("button", name="Forget it").click()
    page.get_by_text("Forgot 1 event").wait_for()


def test_what_the_hook_captures_appears_by_itself(site: Site, open_page: Open) -> None:
    live, overview = open_page(site, "/live"), open_page(site, "/")
    for page in (live, overview):
        page.locator("body[data-live=on]").wait_for()
    site.capture("puffin-session", prompt="Where do the puffins nest this year?")
    captured(live, "Where do the puffins nest").wait_for()
    overview.locator("[data-live-sessions] a[href='/session/puffin-session']").wait_for()
    live.locator("[data-live] li", has_text="segment written").first.wait_for()
    captured(live, "Where do the puffins nest").get_by_role("link").click()
    live.locator("#excerpt", has_text="puffins").wait_for()


def test_a_page_out_of_sight_gives_its_connection_back_and_catches_up(site: Site, open_page: Open) -> None:
    page = open_page(site, "/live")
    page.locator("body[data-live=on]").wait_for()
    looked_at = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); "
    looked_at += "document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(looked_at, arg=True)
    page.locator("body[data-live=off]").wait_for()
    site.capture("tern-session", prompt="The terns are back.")
    watching = open_page(site, "/live")
    captured(watching, "The terns are back.").wait_for()
    assert captured(page, "The terns are back.").count() == 0
    page.evaluate(looked_at, arg=False)
    captured(page, "The terns are back.").wait_for()


def test_a_note_is_written_pinned_changed_and_forgotten(site: Site, open_page: Open) -> None:
    page = open_page(site, "/notes")
    page.get_by_label("Note", exact=True).fill("Gulls are **not** terns.")
    page.get_by_label("Kind").select_option("rule")
    page.get_by_role("button", name="Keep").click()
    note = page.locator("article", has_text="Gulls are not terns.")
    assert note.locator("strong").inner_text() == "not"
    note.get_by_role("link", name="Edit or pin").click()
    page.get_by_role("button", name="Pin it").click()
    note.locator(".chip", has_text="pinned").wait_for()
    note.get_by_role("link", name="Edit or unpin").click()
    page.get_by_label("Note", exact=True).fill("Gulls are neither terns nor skuas.")
    page.get_by_role("button", name="Save the change").click()
    changed = page.locator("article", has_text="nor skuas")
    changed.locator(".chip", has_text="pinned").wait_for()
    assert note.count() == 0
    changed.get_by_role("link", name="Forget").click()
    page.locator(".event", has_text="nor skuas").wait_for()
    forget_what_is_shown(page)
    page.goto("/notes")
    assert page.locator("article", has_text="Deploy on Tuesdays").count() == 1
    assert changed.count() == 0


def test_a_note_needs_no_script(site: Site, open_page: Open) -> None:
    page = open_page(site, "/notes", java_script_enabled=False)
    page.get_by_label("Note", exact=True).fill("Herons stand still.")
    page.get_by_role("button", name="Keep").click()
    page.locator("article", has_text="Herons stand still.").wait_for()


def test_all_that_holds_a_text_is_shown_and_then_gone(site: Site, open_page: Open) -> None:
    page = open_page(site, "/live", fails=True)
    page.locator("body[data-live=on]").wait_for()
    site.capture("secret-session", prompt="The codename is Walrusgate.")
    page.locator("[data-live] li", has_text="Walrusgate").first.wait_for()
    page.goto("/forget")
    page.get_by_label("All that holds the text").fill("Walrusgate")
    page.keyboard.press("Enter")
    page.locator(".event", has_text="The codename is Walrusgate.").wait_for()
    assert page.locator(".event").count() == 1
    forget_what_is_shown(page)
    for address in ("/search?q=Walrusgate", "/live", "/session/secret-session", "/forget?match=Walrusgate"):
        page.goto(address)
        assert "codename" not in page.locator("main").inner_text(), address


def test_what_has_come_in_since_the_preview_is_not_erased_unseen(site: Site, open_page: Open) -> None:
    page, live = open_page(site), open_page(site, "/live")
    live.locator("body[data-live=on]").wait_for()
    site.capture("cormorant-session", prompt="The first cormorant.")
    captured(live, "The first cormorant.").wait_for()
    page.goto("/forget?session=cormorant-session")
    site.capture("cormorant-session", prompt="The second cormorant.")
    captured(live, "The second cormorant.").wait_for()
    page.get_by_label("Yes, erase this for good").check()
    page.get_by_role("button", name="Forget it").click()
    page.get_by_text("More has come in").wait_for()
    assert "The second cormorant." in page.locator("main").inner_text()
