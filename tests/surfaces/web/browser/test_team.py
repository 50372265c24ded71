"""The viewer of a team in a browser: in by a token, each page without a barrier, people as a filter, and out again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from anyio.from_thread import start_blocking_portal

from tests.surfaces.team_server import TeamDesk, reachable, team_server
from tests.surfaces.team_talk import three_people
from tests.surfaces.web.browser.conftest import Site, overhang
from tests.surfaces.web.browser.test_every_view import AXE, barriers

if TYPE_CHECKING:
    from tests.surfaces.web.browser.conftest import Open

PATHS = ("/?person=carol", "/toc?person=bob", "/search?q=payment", "/recalled")


@pytest.fixture
def team(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, TeamDesk]]:
    home = tmp_path_factory.mktemp("team")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(team_server(home, three_people)) as desk,
        portal.wrap_async_context_manager(reachable(desk)) as url,
    ):
        yield Site(home, url, ""), desk


def test_a_member_logs_in_and_looks_at_what_one_person_said(team: tuple[Site, TeamDesk], open_page: Open) -> None:
    site, desk = team
    page = open_page(site, "/", logged_in=False, fails=True)
    assert not AXE.exists() or barriers(page) == []
    page.fill("#token", "mcpm_not_a_token_of_anyone")
    page.keyboard.press("Enter")
    page.get_by_text("no one's token").wait_for()
    page.fill("#token", desk.tokens["ada"])
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("The memory of the team").wait_for()
    for path in PATHS:
        page.goto(path)
        page.set_viewport_size({"width": 360, "height": 700})
        assert overhang(page) == 0, path
        page.set_viewport_size({"width": 1280, "height": 800})
        assert not AXE.exists() or barriers(page) == [], path
    page.goto("/sessions")
    assert page.locator("main .row").count() == 3
    page.select_option("#person", "bob")
    page.wait_for_url("**person=bob*")
    assert page.locator("main .row").count() == 1
    page.locator("main .row .main").click()
    page.get_by_text("wrong VAT for Austria").first.wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("is logged out").wait_for()
    page.goto("/sessions")
    assert "token" in page.locator("main").inner_text()
