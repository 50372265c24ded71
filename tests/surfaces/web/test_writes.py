"""Notes and forgetting on the pages: what they do, and that nothing else can do it."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from mcp_memory.config import Settings
from mcp_memory.domain.events import EventQuery, EventType
from mcp_memory.surfaces.process_command import until_idle
from tests.support import conversation, said
from tests.surfaces.web.conftest import BASE, HTML, TOKEN, Reader, links, reading, text_of

pytestmark = pytest.mark.anyio


async def kept(reader: Reader) -> list[tuple[str, bool]]:
    """The notes in memory, each with whether it is pinned."""
    events = await (await reader.app).store.events(EventQuery(types=(EventType.NOTE,)))
    return [(event.text, bool(event.metadata.get("pin"))) for event in events]


async def test_a_note_is_kept_changed_pinned_and_forgotten(settings: Settings) -> None:
    async with reading(settings) as reader:
        done = await reader.send("/notes", text="Never deploy on Fridays.", kind="rule", **{"for": "tidepool-api"})
        assert (done.status_code, done.headers["location"]) == (303, "/notes")
        html = await reader.get("/notes")
        assert "Never deploy on Fridays." in html
        note = links(html, "/note/")[0]
        assert (await reader.send(note, do="pin")).status_code == 303
        assert await kept(reader) == [("Never deploy on Fridays.", True)]
        assert "Unpin it" in await reader.get(note)
        assert (await reader.send(note, do="edit", text="Never deploy on Thursdays.")).status_code == 303
        # It stays pinned, and what it said before is gone.
        assert await kept(reader) == [("Never deploy on Thursdays.", True)]
        html = await reader.get("/notes?pinned=1")
        assert "rule" in text_of(html)
        note = links(html, "/note/")[0]
        assert (await reader.send(note, do="unpin")).status_code == 303
        assert await kept(reader) == [("Never deploy on Thursdays.", False)]
        assert "no pinned note" in text_of(await reader.get("/notes?pinned=1"))
        preview = links(await reader.get("/notes"), "/forget?event=")[0]
        assert "1 events of 1 sessions" in await reader.get(preview)
        done = await reader.send("/forget", page=preview, event=unquote(preview.partition("=")[2]))
        assert "Forgot 1 events" in done.text
        assert await kept(reader) == []


async def test_a_note_that_is_saved_as_it_was_stays_the_same_note(settings: Settings) -> None:
    async with reading(settings) as reader:
        await reader.send("/notes", text="The tide gauge is in UTC.", **{"for": "tidepool-api"})
        note = links(await reader.get("/notes"), "/note/")[0]
        await reader.send(note, do="edit", text="The tide gauge is in UTC.\n")
        assert links(await reader.get("/notes"), "/note/") == [note]
        assert (await reader.send(note, do="edit", text="  ")).status_code == 400
        assert await kept(reader) == [("The tide gauge is in UTC.", False)]


async def test_no_words_of_a_note_are_lost(settings: Settings) -> None:
    async with reading(settings) as reader:
        await reader.send("/notes", text="Gulls are birds.", **{"for": "tidepool-api"})
        note = links(await reader.get("/notes"), "/note/")[0]
        sign = (await reader.get(note)).partition('name="sign" value="')[2].partition('"')[0]
        # Whoever pins a note while changing it gets both.
        assert (await reader.send(note, do="pin", text="Gulls are loud birds.")).status_code == 303
        assert await kept(reader) == [("Gulls are loud birds.", True)]
        # Another window still has the note as it was.
        stale = {"sign": sign, "do": "edit", "text": "Gulls steal chips."}
        answer = await reader.http.post(note, data=stale, headers={"origin": BASE})
        assert answer.status_code == 404
        assert "What you wrote stands below." in answer.text
        assert ">Gulls steal chips.</textarea>" in answer.text
        refused = await reader.send("/notes", text="Terns dive.", kind="nonsense")
        assert refused.status_code == 400
        assert ">Terns dive.</textarea>" in refused.text
        endless = await reader.send("/notes", text="x" * 300_000)
        assert endless.status_code == 400
        assert "Go back: what you wrote should still be there." in endless.text
        assert await kept(reader) == [("Gulls are loud birds.", True)]


async def test_many_notes_are_paged(blank: Settings) -> None:
    async with reading(blank) as reader:
        app = await reader.app
        for n in range(45):
            await app.remember(f"note number {n}")
        first = await reader.get("/notes")
        second = await reader.get(links(first, "/notes?offset=")[0])
        shown = [links(page, "/note/") for page in (first, second)]
        assert (len(shown[0]), len({*shown[0], *shown[1]})) == (30, 45)
        assert not links(second, "/notes?offset=60")


@pytest.mark.parametrize("kind", ["nonsense", "'; drop"])
async def test_a_kind_that_there_is_not_is_refused(settings: Settings, kind: str) -> None:
    async with reading(settings) as reader:
        answer = await reader.send("/notes", text="x", kind=kind)
        assert answer.status_code == 400
        assert "kind of note" in answer.text
        assert (await reader.send("/notes", text="x", **{"for": "no-project"})).status_code == 404
        assert await kept(reader) == []


ADDRESSES = [("/notes", {"text": "planted"}), ("/forget", {"match": "token"}), ("/leave", {})]


@pytest.mark.parametrize(("address", "fields"), ADDRESSES, ids=[address for address, _ in ADDRESSES])
@pytest.mark.parametrize("sign", ["", "0" * 64, "é"])
async def test_a_form_that_no_page_of_ours_showed_does_nothing(
    settings: Settings, address: str, fields: dict[str, str], sign: str
) -> None:
    async with reading(settings) as reader:
        before = (await (await reader.app).store.counts()).events
        answer = await reader.http.post(address, data={**fields, "sign": sign}, headers={"origin": BASE})
        assert answer.status_code == 403
        assert "Load the page again" in answer.text
        assert (await (await reader.app).store.counts()).events == before
        await reader.get("/")


@pytest.mark.parametrize("origin", ["http://127.0.0.1:3000", "http://localhost:8765", None])
async def test_a_form_of_another_page_does_not_get_in(settings: Settings, origin: str | None) -> None:
    async with reading(settings) as reader:
        headers = {"origin": origin} if origin else {}
        sign = reader.access.form_sign(reader.http.build_request("GET", "/").headers)  # type: ignore[arg-type]
        answer = await reader.http.post("/notes", data={"text": "planted", "sign": sign}, headers=headers)
        assert answer.status_code == 401
        assert await kept(reader) == []


async def test_the_signs_of_one_browser_are_no_good_in_another(settings: Settings) -> None:
    async with reading(settings) as reader:
        theirs = await reader.get("/notes")
        sign = theirs.partition('name="sign" value="')[2].partition('"')[0]
        reader.http.cookies.clear()
        headers = {"origin": BASE, "cookie": f"{reader.access.name}={reader.access.open_session()}"}
        answer = await reader.http.post("/notes", data={"text": "planted", "sign": sign}, headers=headers)
        assert answer.status_code == 403


async def test_looking_changes_nothing(settings: Settings) -> None:
    async with reading(settings) as reader:
        counts = await (await reader.app).store.counts()
        for address in ("/forget?match=token", "/forget?project=tidepool-api", "/forget?before=2030", "/notes"):
            await reader.get(address)
            for method in ("PUT", "DELETE", "PATCH"):
                answer = await reader.http.request(method, address, headers={"origin": BASE})
                assert answer.status_code == 405
        assert (await (await reader.app).store.counts()).events == counts.events


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"match": "osprey"}, "2 events of 1 sessions"),
        ({"session": "birds"}, "3 events of 1 sessions"),
        ({"before": "2026-10-01"}, "3 events of 1 sessions"),
        ({"project": "aviary"}, "3 events of 1 sessions"),
    ],
    ids=str,
)
async def test_forgetting_shows_all_that_goes_and_then_leaves_no_trace(
    blank: Settings, given: dict[str, str], told: str
) -> None:
    async with reading(blank) as reader:
        birds = [
            said("The osprey nests on the pylon.", "2026-09-20T09:00:00Z", session="birds", project="aviary"),
            said("An osprey it is.", "2026-09-20T09:01:00Z", role="assistant", session="birds", project="aviary"),
            said("Close the cage.", "2026-09-20T09:02:00Z", session="birds", project="aviary"),
        ]
        await reader.learn([*birds, *conversation("2026-10-20")])
        (way, value), *_ = given.items()
        page = f"/forget?{way}={value}"
        html = await reader.get(page)
        assert told in html
        assert "The osprey nests on the pylon." in html
        done = await reader.send("/forget", page=page, **given)
        assert done.status_code == 200
        assert f"Forgot {told}" in done.text
        await until_idle(await reader.app)
        assert "Nothing was found" in await reader.get("/search?q=osprey")
        assert "Nothing in memory falls under it" in await reader.get("/forget?match=osprey")
    for path in blank.home.rglob("*"):
        assert not path.is_file() or b"osprey" not in path.read_bytes().lower(), path


async def test_a_text_goes_as_a_whole_word_and_inside_of_words_once_the_box_is_ticked(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn([said("The ospreys nest.", "2026-09-20T09:00:00Z"), said("Rest.", "2026-09-20T09:01:00Z")])
        html = text_of(await reader.get("/forget?match=osprey"))
        assert "Nothing in memory falls under it" in html
        assert "1 line holds it as a part of other words ('ospreys')" in html
        assert 'name="part"' in await reader.get("/forget")
        page = "/forget?match=osprey&part=1"
        assert "1 events of 1 sessions" in await reader.get(page)
        assert "Forgot 1 events" in (await reader.send("/forget", page=page, match="osprey", part="1")).text
        assert [event.text for event in await (await reader.app).store.events(EventQuery())] == ["Rest."]


async def test_what_has_grown_since_it_was_looked_at_is_not_erased(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn(conversation("2026-10-20"))
        html = await reader.get("/forget?match=timeout")
        hidden = {name: html.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("sign", "seen")}
        await reader.learn(conversation("2026-10-21", session="s2"))
        answer = await reader.http.post("/forget", data={**hidden, "match": "timeout"}, headers={"origin": BASE})
        assert "since you looked" in answer.text
        await reader.learn(said(f"timeout {n}", f"2026-10-22T09:{n:02}:00Z", session="s3") for n in range(30))
        answer = await reader.http.post("/forget", data={**hidden, "match": "timeout"}, headers={"origin": BASE})
        assert links(answer.text, "/forget?offset=25&match=timeout")
        assert (await (await reader.app).store.counts()).events == 46


async def test_a_long_preview_is_paged_to_its_end(settings: Settings) -> None:
    async with reading(settings) as reader:
        address, seen = "/forget?project=tidepool-web", list[str]()
        while address:
            html = await reader.get(address)
            seen += links(html, "/grip/")
            address = next(iter(links(html, "/forget?project=tidepool-web&offset=")[-1:]), "")
            if address and int(address.rpartition("=")[2]) <= len(seen) - 26:
                break
        info = {found.slug: found.events for found in await (await reader.app).store.projects()}
        assert len(set(seen)) == len(seen) == info["tidepool-web"]


@pytest.mark.parametrize(
    ("address", "status"),
    [("/forget?match=ab", 400), ("/forget?match=abc&session=x", 400), ("/forget?event=nonsense", 404),
     ("/forget?before=blargh", 400), ("/forget?project=nobody", 404)],
)  # fmt: skip
async def test_a_wish_that_cannot_be_understood_is_told(settings: Settings, address: str, status: int) -> None:
    async with reading(settings) as reader:
        assert "Overview" in await reader.get(address, status)


async def test_what_agents_were_handed_is_listed_with_what_came_of_it(settings: Settings) -> None:
    from mcp_memory.domain.handed import Handed

    async with reading(settings) as reader:
        app = await reader.app
        root = await app.store.root_of("tidepool-api") or ""
        now = app.spending.now_ms()
        first = Handed(now, "teleport", "claude-code", "", root, ids=("grip:CR0AS5RX", "toc:day:2026-10-20"),
                       server="one", asked="<script>token bucket</script>", tokens=385)  # fmt: skip
        await app.inbox.note_handed(first, [], (root, ""))
        then = Handed(now + 1, "expand_grip", "codex", "tidepool-api-06", root, server="one", asked="grip:CR0AS5RX")
        await app.inbox.note_handed(then, ["grip:CR0AS5RX"], (root, ""))
        html = await reader.get("/recalled")
        words = text_of(html)
        assert "opened" in words
        assert "385 tokens" in words
        assert "<script>token" not in html
        assert links(html, "/node/") == ["/node/toc:day:2026-10-20@tidepool-api"]
        assert links(html, "/session/") == ["/session/tidepool-api-06"]
        only = text_of(await reader.get("/recalled?kind=expand_grip"))
        assert "codex" in only
        assert "claude-code" not in only
        assert "Nothing was handed over that fits" in await reader.get("/recalled?session=nobody")


async def test_the_token_in_a_header_reads_pages_too_but_signs_no_form(settings: Settings) -> None:
    async with reading(settings, logged_in=False) as program:
        headers = {**HTML, "authorization": f"Bearer {TOKEN}"}
        assert (await program.http.get("/toc", headers=headers)).status_code == 200
        answer = await program.http.post("/notes", data={"text": "x"}, headers=headers)
        assert answer.status_code == 403
