"""The viewer on a team's server: who gets in, what each member sees on every page, and what one may change there."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_memory.app import App
from mcp_memory.domain.events import Event, EventQuery, EventType, Intake
from mcp_memory.domain.nodes import NodeQuery, event_grip_id
from mcp_memory.domain.toc import Level
from mcp_memory.surfaces.process_command import until_idle
from mcp_memory.surfaces.web.routes import MAX_LISTED, PAGES
from mcp_memory.surfaces.web.writes import WRITES
from tests.store.engines import said
from tests.surfaces.team_server import TeamDesk, team_server
from tests.surfaces.team_talk import LATELY, THEN, three_people
from tests.surfaces.web.conftest import links, text_of

pytestmark = pytest.mark.anyio
#: A word that ada said to no one else, in each way that a page could tell it.
HUSH = "xylograph"
#: Pages that are no views of a store.
OTHERS = ("/", "/recalled", "/live", "/health")


def hushed() -> list[Event]:
    return [
        said(f"Between us: {HUSH}/plan.py is lost.", 0.2, session="ada-1", client="jsonl"),
        said(f"All of it is private: {HUSH}.", 5, session=f"{HUSH}-2", client=f"{HUSH}-client"),
        said(f"Never touch {HUSH}.", 6, session="notes:ada:/w/alone", kind=EventType.NOTE, pin=True),
    ]


async def fill(app: App) -> None:
    await three_people(app)
    alone = [Intake((event,), f"/w/{HUSH}", "", author="ada") for event in hushed()[1:]]
    await app.store.add([Intake((hushed()[0],), "", "shop", author="ada"), *alone])
    shut = replace(said(f"Of {HUSH} the team's inner circle alone.", 9, session="inner"), visibility="team")
    await app.store.add([Intake((shut,), "/w/inner", "", author="ada")])


@asynccontextmanager
async def pages(home: Path) -> AsyncIterator[TeamDesk]:
    async with team_server(home, fill) as desk:
        await desk.store.add_member("inner", "ada")
        desk.guard.rate.burst = 10_000
        await until_idle(await desk.memory.whole())
        yield desk


@asynccontextmanager
async def browsing(desk: TeamDesk, name: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser in which someone has logged in."""
    async with desk.client() as http:
        answer = await http.post("/enter", data={"token": desk.tokens[name]}, headers={"origin": str(http.base_url)})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert "samesite=strict" in answer.headers["set-cookie"].lower()
        yield http


async def send(http: httpx2.AsyncClient, address: str, page: str = "", **given: str) -> httpx2.Response:
    """Send a form of the page, with what the page hides in it."""
    shown = (await http.get(page or address)).text
    hidden = dict(re.findall(r'name="(sign|seen)" value="([^"]+)"', shown))
    return await http.post(address, data=hidden | given, headers={"origin": str(http.base_url)})


async def addresses(desk: TeamDesk) -> dict[str, list[str]]:
    """For each page addresses that lead to what is shared, and to what ada keeps to itself."""
    whole = desk.store
    events = [event for event in await whole.events(EventQuery()) if re.search(rf"{HUSH}|circle|queue", event.text)]
    grips = [event_grip_id(event.timestamp_ms, event.key) for event in events]
    nodes = [node for level in Level for node in await whole.nodes(NodeQuery(level=level))]
    names = [node.ref.node_id(node.project) for node in nodes if node.level in (Level.DAY, Level.SEGMENT)]
    sessions = sorted({event.session_id for event in events})
    assert (len(grips), len(names), len(sessions)) == (7, 7, 4)
    asked = ("", f"?project={HUSH}", "?project=inner", "?person=ada")
    found = {page: [page + query for query in asked] for page in (*PAGES, *OTHERS, *WRITES) if "{" not in page}
    found |= {
        "/node/{node_id}": [f"/node/{name}" for name in names],
        "/node/{node_id}/history": [f"/node/{name}/history" for name in names],
        "/day/{day}": [f"/day/{THEN}", f"/day/{LATELY}", "/day/2026-03-02"],
        "/grip/{grip_id}": [f"/grip/{grip}" for grip in grips],
        "/session/{session_id:path}": [f"/session/{name}" for name in sessions],
        "/stretch/{session_id:path}": [f"/stretch/{name}?part=1" for name in sessions],
        "/note/{grip_id}": [f"/note/{grip}" for grip in grips],
        "/search": ["/search?q=plan.py", "/search?q=touch", "/search?q=circle", "/search?q=payment&person=ada"],
        "/file": ["/file?path=plan.py"],
    }
    ways = [f"session={name}" for name in sessions] + [f"event={grip}" for grip in grips]
    found["/forget"] += [f"/forget?{way}" for way in (*ways, "match=never", "project=inner", "before=2030-01-01")]
    return found


def tells(html: str, address: str) -> bool:
    """Whether a page tells what is ada's, beyond what it was asked for by."""
    for asked in re.findall(rf"(?:/w/|notes:ada:)?{HUSH}[\w-]*", address):
        html = html.replace(asked, "")
    return HUSH in html or "inner circle" in html


@pytest.mark.slow
async def test_no_page_shows_what_another_keeps_to_itself(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk, browsing(desk, "ada") as ada:
        told = await addresses(desk)
        assert set(told) == {*PAGES, *OTHERS, *WRITES}
        own = set()
        for page, some in told.items():
            for address in some:
                if tells((await ada.get(address)).text, address):
                    own.add(page)
        # Else no one would see it and nothing be shown by that.
        assert own >= {"/", "/live", "/sessions", "/session/{session_id:path}", "/grip/{grip_id}", "/search", "/notes"}
        for name in ("bob", "root"):
            async with browsing(desk, name) as other:
                for some in told.values():
                    for address in some:
                        answer = await other.get(address)
                        assert answer.status_code in (200, 400, 403, 404), address
                        assert not tells(answer.text, address), (name, address)


async def test_people_are_a_filter_on_every_page(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk, browsing(desk, "rita") as http:

        async def shown(address: str) -> str:
            answer = await http.get(address)
            assert answer.status_code == 200, address
            return text_of(answer.text.partition("<main")[2].partition("</main>")[0])

        front = (await http.get("/?person=carol")).text
        assert re.findall(r"<option( selected)?>(ada|bob|carol)</option>", front) == [
            ("", "ada"),
            ("", "bob"),
            (" selected", "carol"),
        ]
        day = f"/day/{LATELY}?person=carol"
        assert links(front, "/day/") == [day]
        everyone = await shown("/sessions")
        assert all(each in everyone for each in ("ada-1", "bob-1", "carol-1"))
        assert "ada-1" not in await shown("/sessions?person=carol")
        assert "carol-1" in await shown("/sessions?person=carol")
        assert links((await http.get(day)).text, "/grip/")[0].endswith("?person=carol")
        assert "retry" not in await shown("/search?q=payment&person=carol")
        assert "structlog" in await shown("/search?q=payment&person=carol")
        assert "retry" in await shown("/search?q=payment")
        period = next(link for link in links((await http.get("/toc?person=bob")).text, "/node/toc:month"))
        assert "VAT" in await shown(period)
        assert "go with the idempotency key" not in await shown(period)
        assert "go with the idempotency key" in await shown(period.partition("?")[0])
        assert "queue" not in await shown("/live?person=carol")
        assert "has said nothing here" in await shown("/?person=nobody")


async def test_a_reader_writes_nothing_and_a_member_changes_its_own_alone(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk:
        before = (await desk.store.counts()).events
        async with browsing(desk, "rita") as rita:
            assert (await send(rita, "/notes", text="Mine.", **{"for": "shop"})).status_code == 403
            assert (await send(rita, "/forget", "/sessions", match="idempotency")).status_code == 403
        async with browsing(desk, "bob") as bob:
            assert (await send(bob, "/forget", "/sessions", match="idempotency")).status_code == 403
            assert (await desk.store.counts()).events == before
            assert (await send(bob, "/notes", text="Ask the bank.", **{"for": "shop"})).status_code == 303
            [note] = await desk.store.events(EventQuery("shop", types=(EventType.NOTE,)))
            assert (note.author, note.visibility) == ("bob", "private")
            address = f"/note/{event_grip_id(note.timestamp_ms, note.key)}"
            assert (await send(bob, address, do="pin", text="Ask the bank.")).status_code == 303
            assert (await send(bob, address, do="save", text="Ask the bank tomorrow.")).status_code == 303
            [changed] = await desk.store.events(EventQuery("shop", types=(EventType.NOTE,)))
            assert (changed.text, changed.author, changed.metadata.get("pin")) == (
                "Ask the bank tomorrow.",
                "bob",
                True,
            )
            async with browsing(desk, "ada") as ada:
                address = f"/note/{event_grip_id(changed.timestamp_ms, changed.key)}"
                assert (await send(ada, address, "/notes", do="unpin", text=changed.text)).status_code == 404
            gone = await send(bob, "/forget", "/forget?match=VAT", match="VAT")
            assert "Forgot" in gone.text
            assert not [event for event in await desk.store.events(EventQuery("shop")) if "VAT" in event.text]


async def test_a_browser_is_let_in_by_a_token_and_out_when_it_dies(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk:
        async with desk.client() as stranger:
            door = await stranger.get("/", headers={"accept": "text/html"})
            assert (door.status_code, 'name="token"' in door.text) == (401, True)
            own = {"origin": str(stranger.base_url)}
            wrong = await stranger.post("/enter", data={"token": "mcpm_wrong"}, headers=own)
            assert (wrong.status_code, "no one" in wrong.text) == (401, True)
            elsewhere = {"origin": "https://evil.example"}
            told = {"token": desk.tokens["bob"]}
            assert (await stranger.post("/enter", data=told, headers=elsewhere)).status_code == 403
            assert (await stranger.get("/")).status_code == 401
        async with browsing(desk, "bob") as bob, browsing(desk, "ada") as ada:
            cookies = dict(bob.cookies)
            assert (await bob.get("/")).status_code == 200
            assert (await send(bob, "/leave", "/")).status_code == 401
            async with desk.client() as thief:
                thief.cookies.update(cookies)
                assert (await thief.get("/")).status_code == 401
            await desk.store.revoke_user("ada", desk.memory.now_ms())
            assert (await ada.get("/")).status_code == 401


async def test_an_admin_sees_who_asked_and_a_member_what_it_asked_itself(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk, browsing(desk, "bob") as bob, browsing(desk, "root") as root:
        await bob.get("/session/bob-1")
        await root.get("/toc")
        await desk.memory.audit.write()
        own, whole = [text_of((await each.get("/recalled")).text) for each in (bob, root)]
        assert "GET /session" in own
        assert "bob-1" not in own
        assert "GET /toc" not in own
        assert "GET /session" in whole
        assert "GET /toc" in whole
        assert "GET /session" not in text_of((await root.get("/recalled?person=root")).text)


async def test_any_name_of_a_person_is_only_a_name(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk, browsing(desk, "ada") as ada:
        for name in ("%(p", "%", "%s", "%(p1)s", "?1", ":a", "{by}", "§session", "'", "a" * 5_000, "\0"):
            for page in ("/", "/toc", "/sessions", "/files", "/notes", "/live", "/search", "/recalled"):
                answer = await ada.get(page, params={"person": name, "q": "payment"})
                assert answer.status_code == 200, (page, name)
            assert "ada-1" not in (await ada.get("/sessions", params={"person": name})).text


async def test_who_logs_in_or_is_refused_is_noted(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk:
        async with desk.client() as stranger:
            assert (await stranger.post("/enter", data={"token": "mcpm_guess"})).status_code == 401
            foreign = {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"}
            token = {"token": desk.tokens["ada"]}
            assert (await stranger.post("/enter", data=token, headers=foreign)).status_code == 401
        async with browsing(desk, "ada"):
            await desk.memory.audit.write()
        told = [(row.name, row.action, row.outcome) for row in await desk.store.audit(None, 9)]
        assert told == [
            ("ada", "POST /enter", "ok"),
            ("", "POST /enter", "refused"),
            ("", "POST /enter", "refused"),
        ]


async def test_who_asks_for_a_closed_project_learns_nothing_of_its_name(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk, browsing(desk, "bob") as bob, browsing(desk, "root") as root:
        async with desk.client("bob") as laptop, desk.agent("bob") as agent:
            for name in ("inner", "no-such-project", "shop"):
                asked = {"tool": "toc_root", "arguments": {}, "project": {"name": name}}
                await laptop.post("/team/ask", json=asked)
                await agent.call_tool("toc_root", {"project": name})
        await desk.memory.audit.write()
        for browser in (bob, root):
            shown = text_of((await browser.get("/recalled", params={"person": "bob"})).text)
            assert "toc_root" in shown
            assert "shop" in shown
            assert "inner" not in shown
        # Whoever runs the server reads all of it.
        assert "inner" in {row.project for row in await desk.store.audit("bob", 99)}


async def test_lists_of_projects_are_bounded(tmp_path: Path) -> None:
    async def many(app: App) -> None:
        shared = [replace(said("Hello.", n, session=f"s{n}"), visibility="team") for n in range(MAX_LISTED + 20)]
        await app.store.add([Intake((event,), f"/w/p{n:04}", "", author="ada") for n, event in enumerate(shared)])

    async with team_server(tmp_path, many) as desk, browsing(desk, "bob") as bob:
        last = f"p{MAX_LISTED + 19:04}"
        for page in ("/", "/toc", "/search", "/notes", "/forget"):
            html = (await bob.get(page, params={"project": last})).text
            assert 0 < html.count("<option") <= 2 * MAX_LISTED + 20, page
            assert page == "/forget" or f"selected>{last}<" in html
        front = (await bob.get("/")).text
        assert front.count('<li class="row" data-item><a class="main" href="/?project=') == MAX_LISTED
        assert "and 20 more" in front


async def test_a_stranger_s_form_is_read_no_further_than_a_token_may_reach(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk:
        read = 0

        async def receive() -> dict[str, Any]:
            nonlocal read
            read += 1
            return {"type": "http.request", "body": b"a=" + b"x" * 10_000 + b"&", "more_body": read < 1_000}

        statuses: list[int] = []

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

        headers = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1")]
        scope = {"type": "http", "method": "POST", "path": "/enter", "query_string": b"", "headers": headers}
        scope |= {"scheme": "http", "server": ("127.0.0.1", 80), "client": ("10.0.0.9", 1), "root_path": ""}
        await desk.guard(scope, receive, send)
        assert (statuses, read <= 2) == ([401], True)
        async with desk.client() as stranger:
            many = "&".join(f"a{n}=1" for n in range(99)).encode()
            own = {"origin": str(stranger.base_url)}
            assert (await stranger.post("/enter", content=many, headers=own)).status_code == 401


async def test_a_browser_s_session_is_no_token(tmp_path: Path) -> None:
    async with pages(tmp_path) as desk, browsing(desk, "ada") as ada:
        assert (await ada.get("/notes")).status_code == 200
        [session] = ada.cookies.values()
        async with desk.client() as stranger:
            for token in (session, f"browser {session}"):
                for path in ("/team/me", "/notes"):
                    told = await stranger.get(path, headers={"authorization": f"Bearer {token}"})
                    assert told.status_code == 401
