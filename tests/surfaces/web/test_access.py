"""Who may look at the pages, and what a browser is told about them."""

from __future__ import annotations

import pytest

from mcp_memory.config import Settings
from mcp_memory.surfaces.web.access import COOKIE_SECONDS, Access
from tests.surfaces.web.conftest import BASE, TOKEN, reading

pytestmark = pytest.mark.anyio
PRIVATE = ["/", "/toc", "/search?q=token", "/sessions", "/live/stream", "/notes", "/forget", "/nowhere"]


async def test_the_link_logs_a_browser_in_once_and_leaves_no_code_behind(settings: Settings) -> None:
    async with reading(settings, logged_in=False) as stranger:
        code = stranger.access.code()
        answer = await stranger.http.get(f"/enter?code={code}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert code not in answer.headers["set-cookie"]
        assert TOKEN not in answer.headers["set-cookie"]
        assert (await stranger.http.get("/")).status_code == 200
        stranger.http.cookies.clear()
        again = await stranger.http.get(f"/enter?code={code}")
        assert again.status_code == 401
        assert "used, or is too old" in again.text


async def test_whoever_only_looks_whether_the_link_is_alive_does_not_use_it_up(settings: Settings) -> None:
    async with reading(settings, logged_in=False) as stranger:
        link = f"/enter?code={stranger.access.code()}"
        assert (await stranger.http.head(link)).status_code == 401
        assert (await stranger.http.get(link)).status_code == 303


FOLLOWED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}


async def test_a_link_on_another_page_gets_in_by_asking_once_more(settings: Settings) -> None:
    """A browser sends no cookie along when it comes from elsewhere, but does when our own page asks again."""
    async with reading(settings, logged_in=False) as stranger:
        for address, again in (
            ("/search?q=a%22b&when=x", "/search?q=a%22b&amp;when=x"),
            (f"{BASE}//elsewhere.example/x", "/elsewhere.example/x"),
            ("/%5Celsewhere.example", "/%5Celsewhere.example"),
        ):
            answer = await stranger.http.get(address, headers=FOLLOWED)
            assert answer.status_code == 401
            assert f'<meta http-equiv="refresh" content="0;url={again}">' in answer.text
        own = {**FOLLOWED, "sec-fetch-site": "same-origin"}
        assert "mcp-memory web" in (await stranger.http.get("/toc", headers=own)).text
        entered = await stranger.http.get(f"/enter?code={stranger.access.code()}", headers=FOLLOWED)
        assert 'content="0;url=/"' in entered.text
        assert (await stranger.http.get("/", headers=own)).status_code == 200


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_browser_without_a_cookie_is_told_how_to_get_in(settings: Settings, address: str) -> None:
    async with reading(settings, logged_in=False) as stranger:
        answer = await stranger.http.get(address)
        assert answer.status_code == 401
        assert "mcp-memory web" in answer.text
        assert "tidepool" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_the_token_itself_opens_the_door(settings: Settings) -> None:
    async with reading(settings, logged_in=False) as stranger:
        for given, status in (("wrong", 401), ("", 401), (TOKEN, 303)):
            answer = await stranger.http.post("/enter", data={"token": given}, headers={"origin": BASE})
            assert answer.status_code == status
        assert (await stranger.http.get("/")).status_code == 200


async def test_logging_out_takes_the_cookie_away(settings: Settings) -> None:
    async with reading(settings) as reader:
        assert (await reader.send("/leave", page="/")).status_code == 401
        assert (await reader.http.get("/")).status_code == 401


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "99999999999.", "99999999999.0000", "1.{sign}", "９９９９９９９９９９９.{sign}", "9" * 5_000 + ".{sign}"],
    ids=lambda cookie: repr(cookie)[:20],
)
async def test_a_cookie_that_we_did_not_make_counts_for_nothing(settings: Settings, cookie: str) -> None:
    async with reading(settings, logged_in=False) as stranger:
        sign = stranger.access.cookie().partition(".")[2]
        header = f"{stranger.access.name}={cookie.format(sign=sign)}".encode()
        assert (await stranger.http.get("/", headers={b"cookie": header})).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 200),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 401),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, 401),
        ({"origin": "http://127.0.0.1:3000"}, 401),
        ({"origin": "https://evil.example"}, 403),
    ],
    ids=str,
)
async def test_a_page_of_another_origin_gets_nothing(settings: Settings, headers: dict[str, str], status: int) -> None:
    async with reading(settings) as reader:
        assert (await reader.http.get("/toc", headers=headers)).status_code == status


async def test_every_answer_forbids_what_no_page_of_ours_needs(settings: Settings) -> None:
    async with reading(settings) as reader:
        for address in (
            "/",
            "/nowhere",
            "/static/viewer.js",
            "/static/nothing.js",
            "/static/..%2froutes.py",
            "/health",
        ):
            answer = await reader.http.get(address)
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "class Site" not in answer.text


def test_a_browser_may_look_at_two_memories_of_this_machine() -> None:
    one, other = Access("a token"), Access("another token")
    held = f"{one.name}={one.cookie()}; {other.name}={other.cookie()}".encode()
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"cookie", held)]}
    assert one.admits(scope)
    assert other.admits(scope)


def test_links_and_cookies_age() -> None:
    now = [1_000_000.0]
    access = Access(TOKEN, lambda: now[0])
    code, cookie = access.code(), access.cookie()
    held = f"{access.name}={cookie}".encode()
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"cookie", held)]}
    assert access.admits(scope)
    now[0] += 16 * 60
    assert not access.redeem(code)
    assert access.admits(scope)
    assert not Access("another token", lambda: now[0]).admits(scope)
    now[0] += COOKIE_SECONDS
    assert not access.admits(scope)
