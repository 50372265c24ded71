"""Who may look at the pages, and what a browser is told about them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Scope

from mcp_memory.config import Settings
from mcp_memory.surfaces.web.access import COOKIE_SECONDS, IDLE_SECONDS, LocalAccess, SessionFiles
from mcp_memory.surfaces.web.form_data import read_form
from mcp_memory.surfaces.web.local import LocalSite
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


async def test_logging_out_ends_the_session_wherever_its_cookie_is_kept(settings: Settings) -> None:
    async with reading(settings) as reader:
        copied = {"cookie": "; ".join(f"{name}={value}" for name, value in reader.http.cookies.items())}
        assert reader.access.name in copied["cookie"]
        assert (await reader.http.get("/toc", headers=copied)).status_code == 200
        assert (await reader.send("/leave", page="/")).status_code == 401
        assert not reader.http.cookies
        assert (await reader.http.get("/")).status_code == 401
        assert (await reader.http.get("/toc", headers=copied)).status_code == 401
        assert list(settings.browsers.iterdir()) == []


async def test_logging_out_leaves_other_browsers_logged_in(settings: Settings) -> None:
    async with reading(settings) as reader:
        other = {"cookie": f"{reader.access.name}={reader.access.open_session()}"}
        await reader.send("/leave", page="/")
        assert (await reader.http.get("/toc", headers=other)).status_code == 200


async def test_logging_out_ends_the_news_of_an_open_page(settings: Settings) -> None:
    async with reading(settings) as reader:
        cookie = f"{reader.access.name}={reader.access.open_session()}".encode()
        request = Request({"type": "http", "method": "GET", "path": "/live/stream", "headers": [(b"cookie", cookie)]})
        news = LocalSite(reader.memory, reader.access).news("0-0", request)
        assert await anext(news) == "retry: 2000\n\n"
        assert "event: news" in await anext(news)
        reader.access.close_session(request.headers)
        with pytest.raises(StopAsyncIteration):
            await anext(news)


async def test_a_session_outlives_the_server_but_not_the_token(settings: Settings) -> None:
    async with reading(settings) as reader:
        cookie = f"{reader.access.name}={reader.access.open_session()}".encode()
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"cookie", cookie)]}
    assert LocalAccess(TOKEN, SessionFiles(settings.browsers)).admits(scope)
    other = LocalAccess("another token", SessionFiles(settings.browsers))
    held = [(b"cookie", cookie.replace(reader.access.name.encode(), other.name.encode()))]
    assert not other.admits({**scope, "headers": held})


@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
async def test_what_is_kept_of_a_session_is_private_and_lets_nobody_in(settings: Settings) -> None:
    async with reading(settings, logged_in=False) as stranger:
        stranger.access.open_session()
        [kept] = settings.browsers.iterdir()
        assert kept.stat().st_mode & 0o777 == 0o600
        assert settings.browsers.stat().st_mode & 0o777 == 0o700
        header = {"cookie": f"{stranger.access.name}={kept.name}"}
        assert (await stranger.http.get("/", headers=header)).status_code == 401
        assert kept.read_bytes() == b""


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "x",
        "99999999999.",
        "99999999999.0000",
        "1.{sign}",
        "９９９９９９９９９９９.{sign}",
        "9" * 5_000 + ".{sign}",
        "../token",
    ],
    ids=lambda cookie: repr(cookie)[:20],
)
async def test_a_cookie_that_we_did_not_make_counts_for_nothing(settings: Settings, cookie: str) -> None:
    async with reading(settings, logged_in=False) as stranger:
        sign = stranger.access.open_session().partition(".")[2]
        header = f"{stranger.access.name}={cookie.format(sign=sign)}".encode()
        assert (await stranger.http.get("/", headers={b"cookie": header})).status_code == 401


async def test_nobody_makes_the_server_read_a_long_form_before_logging_in(settings: Settings) -> None:
    async with reading(settings, logged_in=False) as stranger:
        headers = {"origin": BASE, "content-type": "application/x-www-form-urlencoded"}
        answer = await stranger.http.post("/enter", content=b"token=" + b"x" * 5_000, headers=headers)
        assert answer.status_code == 413
        read, kind = 0, headers["content-type"]

        async def receive() -> Message:
            nonlocal read
            read += 1_000
            return {"type": "http.request", "body": b"&a=" + b"x" * 997, "more_body": True}

        request = Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind.encode())]}, receive)
        with pytest.raises(HTTPException) as refused:
            await read_form(request, 4_096)
        assert refused.value.status_code == 413
        assert read <= 5_000


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"&".join(b"a%d=1" % n for n in range(30)), "application/x-www-form-urlencoded", 400),
        (
            b'--x\r\ncontent-disposition: form-data; name="token"\r\n\r\ny\r\n--x--',
            "multipart/form-data; boundary=x",
            415,
        ),
        (b"{}", "application/json", 415),
    ],
)
async def test_a_form_of_another_kind_is_refused(settings: Settings, content: bytes, kind: str, status: int) -> None:
    async with reading(settings) as reader:
        for address in ("/enter", "/notes", "/forget", "/leave"):
            answer = await reader.http.post(address, content=content, headers={"origin": BASE, "content-type": kind})
            assert answer.status_code == status, address


async def test_a_long_form_is_refused_after_logging_in_as_well(settings: Settings) -> None:
    async with reading(settings) as reader:
        for address in ("/notes", "/forget", "/leave"):
            answer = await reader.http.post(address, data={"text": "x" * 2_000_001}, headers={"origin": BASE})
            assert answer.status_code == 413


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


def test_a_browser_may_look_at_two_memories_of_this_machine(tmp_path: Path) -> None:
    one, other = (LocalAccess(token, SessionFiles(tmp_path / token)) for token in ("a token", "another token"))
    held = f"{one.name}={one.open_session()}; {other.name}={other.open_session()}".encode()
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"cookie", held)]}
    assert one.admits(scope)
    assert other.admits(scope)


def test_a_link_ages(tmp_path: Path) -> None:
    now = [1_000_000.0]
    access = LocalAccess(TOKEN, SessionFiles(tmp_path), lambda: now[0])
    early, late = access.code(), access.code()
    now[0] += 14 * 60
    assert access.redeem(early)
    now[0] += 2 * 60
    assert not access.redeem(late)


def test_a_session_lasts_as_long_as_it_is_used_but_not_for_ever(tmp_path: Path) -> None:
    now = [1_000_000.0]
    access = LocalAccess(TOKEN, SessionFiles(tmp_path), lambda: now[0])

    def scope_of(session: str) -> Scope:
        held = f"{access.name}={session}".encode()
        return {"type": "http", "method": "GET", "path": "/", "headers": [(b"cookie", held)]}

    used, unused = scope_of(access.open_session()), scope_of(access.open_session())
    start = now[0]
    while now[0] + IDLE_SECONDS - 1 < start + COOKIE_SECONDS:
        now[0] += IDLE_SECONDS - 1
        assert access.admits(used)
    assert not access.admits(unused)
    now[0] = start + COOKIE_SECONDS + 1
    assert not access.admits(used)
    access.open_session()
    assert len(list(tmp_path.iterdir())) <= 2
