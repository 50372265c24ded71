"""What the pages show, without a browser."""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.requests import Request

from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.config import Settings
from mcp_memory.domain.events import Intake
from mcp_memory.surfaces.web.routes import Site
from tests.support import conversation, said
from tests.surfaces.web.conftest import links, reading, text_of

pytestmark = pytest.mark.anyio


async def beginning(site: Site, since: str) -> str:
    """The first news since a place."""
    async with aclosing(site.news(since, Request({"type": "http", "query_string": b""}))) as told:
        return [await anext(told), await anext(told)][1]


async def test_from_the_calendar_to_the_very_words(settings: Settings) -> None:
    async with reading(settings) as reader:
        front = await reader.get("/")
        days = links(front, "/day/")
        assert len(days) == 10
        day = await reader.get(days[0])
        grip = links(day, "/grip/")[0]
        evidence = await reader.get(grip)
        assert re.search(r'<mark id="excerpt">[^<]{10,}</mark>', evidence)
        assert "exact words" in evidence


async def test_a_day_leads_to_the_days_before_and_after_with_something_in_them(settings: Settings) -> None:
    async with reading(settings) as reader:
        days = sorted(links(await reader.get("/"), "/day/"))
        walked = [days[0]]
        assert 'rel="prev"' not in await reader.get(days[0])
        while found := re.search(r'rel="next" href="([^"]+)"', await reader.get(walked[-1])):
            walked.append(found[1])
        assert walked == days
        back = [re.search(r'rel="prev" href="([^"]+)"', await reader.get(day)) for day in days[1:]]
        assert [found[1] for found in back if found] == days[:-1]
        empty = await reader.get("/day/2026-10-25")
        assert "Nothing was said that day" in empty
        assert re.findall(r'rel="(prev|next)" href="([^"]+)"', empty) == [
            ("prev", max(day for day in days if day < "/day/2026-10-25")),
            ("next", min(day for day in days if day > "/day/2026-10-25")),
        ]


async def test_the_days_beside_one_keep_to_the_project_that_is_looked_at(settings: Settings) -> None:
    async with reading(settings) as reader:
        own = sorted(links(await reader.get("/?project=tidepool-web"), "/day/"))
        assert all("project=tidepool-web" in day for day in own)
        found = re.search(r'rel="next" href="([^"]+)"', await reader.get(own[0]))
        assert found
        assert found[1] == own[1]


async def test_the_overview_of_a_project_gives_the_figures_of_that_project(settings: Settings) -> None:
    async with reading(settings) as reader:
        whole, one = [text_of(await reader.get(address)) for address in ("/", "/?project=tidepool-web")]
        [own] = [found for found in await (await reader.app).store.active_projects() if found.slug == "tidepool-web"]
        days = len(links(await reader.get("/?project=tidepool-web"), "/day/"))
        assert f"tidepool-web: {own.sessions} sessions on {days} days, the last on 2026-" in one
        assert "239 events" in whole
        for figure in ("239 events", "11 sessions", "Storage", "Model cost"):
            assert figure not in one
        assert "Other projects" in one


async def test_the_overview_tells_what_there_is(settings: Settings) -> None:
    async with reading(settings) as reader:
        words = text_of(await reader.get("/"))
        for told in ("239 events in 11 sessions on 10 days", "tidepool-web", "Open now", "Storage", "Model cost"):
            assert told in words
        one = text_of(await reader.get("/?project=tidepool-api"))
        assert "tidepool-web" not in one.partition("Latest sessions")[2].partition("All sessions")[0]


async def test_notes_are_neither_listed_nor_counted_as_sessions(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn(conversation())
        await (await reader.app).remember("Never deploy on Fridays.", project="alpha")
        await reader.learn([])
        assert len(set(links(await reader.get("/sessions"), "/session/"))) == 1
        front = await reader.get("/")
        assert "9 events in 1 session" in text_of(front)
        assert "Never deploy" not in text_of(front).partition("Latest sessions")[2].partition("All sessions")[0]
        assert "client=mcp-memory" not in front
        assert "Notes of alpha" in text_of(await reader.get("/session/notes:label:alpha"))


async def test_the_overview_names_what_health_finds_and_what_to_do(
    blank: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with reading(blank) as reader:
        app = await reader.app
        await app.remember("The harbour gate is green.")
        words = text_of(await reader.get("/"))
        assert "One thing needs you." in words
        assert "Nothing is connected. What to do: mcp-memory install" in words
        assert "no agent can ask" in text_of(await reader.get("/health"))


async def test_imported_history_is_green_on_the_first_page_and_the_health_page(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with reading(settings) as reader:
        for address in ("/", "/health"):
            html = await reader.get(address)
            assert "All is well." in text_of(html)
            assert "History was imported. No client is connected" in text_of(html)
            assert 'class="dot good"' in html


async def test_summaries_show_code_as_code_and_obey_nothing_else(blank: Settings) -> None:
    words = "Use `--no-cache` and **never** [this](http://elsewhere.invalid) or <b>that</b> in the release script."
    async with reading(blank) as reader:
        agreed = said("Agreed.", "2026-10-20T10:01:00Z", role="assistant")
        await reader.learn([said(words, "2026-10-20T10:00:00Z"), agreed])
        html = await reader.get("/day/2026-10-20")
        assert "<code>--no-cache</code>" in html
        assert "<b>" not in html
        assert "elsewhere.invalid" not in " ".join(links(html, ""))


async def test_a_filter_says_how_far_it_looked(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn(
            said(
                f"The lantern number {number} is lit.",
                f"2026-10-20T{number // 60:02}:{number % 60:02}:00Z",
                session=f"s{number}",
            )
            for number in range(170)
        )
        assert "Only the best 100 hits were looked through" in await reader.get("/search?q=lantern&role=assistant")
        assert "looked through" not in await reader.get("/search?q=lantern+169&role=user&when=2026-10-20+02:49")
        assert "looked through" not in await reader.get("/search?q=lantern")


async def test_an_empty_memory_says_how_to_begin(blank: Settings) -> None:
    async with reading(blank) as reader:
        assert "mcp-memory import" in await reader.get("/")
        for address in ("/toc", "/sessions", "/files", "/notes", "/recalled", "/live", "/search?q=x", "/health"):
            await reader.get(address)


async def test_the_tree_is_walked_from_the_year_to_the_segment_and_back(settings: Settings) -> None:
    async with reading(settings) as reader:
        address = await reader.first("/toc?project=tidepool-api", "/node/toc:year:")
        for level in ("month", "week", "day", "segment"):
            address = await reader.first(address, f"/node/toc:{level}:")
        segment = await reader.get(address)
        trail = links(segment.partition("</nav>")[2].partition("</nav>")[0], "/node/toc:")
        assert [name.split(":")[1] for name in trail] == ["year", "month", "week", "day"]
        assert "Table of contents" in await reader.get("/toc")
        assert "written by extractive" in text_of(segment)


async def test_a_node_shows_what_each_version_changed(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn(conversation("2026-10-20"))
        await reader.learn(conversation("2026-10-20", session="s2"))
        html = await reader.get(f"{await reader.first('/', '/node/toc:day:')}/history")
        assert html.index("Version 2") < html.index("Version 1")
        assert "<ins>" in html


async def test_search_finds_marks_and_filters(settings: Settings) -> None:
    async with reading(settings) as reader:
        html = await reader.get("/search?q=token+bucket+zebra")
        assert "<mark>bucket</mark>" in html.lower()
        assert re.search(r"<del[^>]*>zebra</del>", html)
        only = await reader.get("/search?q=token&role=user")
        roles = re.findall(r"</span>\s+(user|assistant|tool) · <time", only)
        assert roles
        assert set(roles) == {"user"}
        assert "Nothing was found" in await reader.get("/search?q=token&client=cursor")
        assert "2026-10-" in await reader.get("/search?q=token&when=October+2026")
        assert re.search(r"data-range>[^<]*2026-10-01", await reader.get("/search?q=token&when=October+2026"))
        assert "blargh" in text_of(await reader.get("/search?q=token&when=blargh"))
        for hit in links(await reader.get("/search?q=limiter&kind=segment"), "/node/toc:")[:1]:
            await reader.get(hit)
        await reader.get("/search?q=token&kind=nonsense", 400)


async def test_search_by_a_file_alone_tells_its_history(settings: Settings) -> None:
    async with reading(settings) as reader:
        path = "app/middleware/rate_limit.py"
        assert "rate_limit" in await reader.get(f"/search?file={quote(path)}")
        history = await reader.get(f"/file?path={quote(path)}")
        assert links(history, "/grip/")
        assert f'<h1 class="mono">{path}</h1>' in history
        assert path in await reader.get("/files")
        await reader.get("/file", 400)
        assert "no change" in text_of(await reader.get("/file?path=nowhere.py")).lower()
        both = await reader.get(f"/search?file={quote(path)}&client=cursor")
        assert "Nothing was found" in both
        assert "Nothing was found" in await reader.get(f"/search?file={quote(path)}&kind=day")
        by_user = await reader.get(f"/search?file={quote(path)}&role=user")
        assert set(re.findall(r"</span>\s+(user|assistant|tool) · <time", by_user)) == {"user"}
        assert "Add words, a time or a file" in await reader.get("/search?role=user")


async def test_a_project_that_is_gone_does_not_follow_along(settings: Settings) -> None:
    async with reading(settings) as reader:
        html = await reader.get("/toc?project=nope", 404)
        assert not [address for address in links(html, "/") if "nope" in address]


async def test_what_is_open_is_told_of_each_project_however_busy_another_is(blank: Settings) -> None:
    async with reading(blank) as reader:
        left = said("Merged. Left open: the flaky kiln test.", "2026-10-01T09:01:00Z", role="assistant", project="kiln")
        busy = [conversation(f"2026-10-{n % 25 + 2:02}", session=f"busy-{n}", project="busy") for n in range(45)]
        merged = said("Merge the kiln branch.", "2026-10-01T09:00:00Z", project="kiln")
        await reader.learn([merged, left, *chain.from_iterable(busy)])
        assert "the flaky kiln test" in text_of(await reader.get("/")).partition("Open now")[2].partition("Latest")[0]


async def test_a_model_that_was_not_asked_yet_is_told_as_set(settings: Settings) -> None:
    async with reading(settings) as reader:
        assert "0 · no model is set" in await reader.get("/")
    # The cap keeps the pipeline from asking it before the page is read.
    model = replace(settings.summarizer, kind="command", command=("cat",), daily_token_cap=1)
    with_model = replace(settings, summarizer=model)
    async with reading(with_model) as reader:
        assert "0 · not asked yet" in await reader.get("/")


async def test_what_was_said_is_shown_without_what_our_pages_do_not_take(blank: Settings) -> None:
    words = (
        "| a | b |\n|:--|--:|\n| x | y |\n\nSee [ours](/forget?match=the), [a file](src/app.py#L3), "
        "[script](javascript:alert) and [theirs](https://example.org/x)."
    )
    async with reading(blank) as reader:
        await reader.learn([said(words, "2026-10-20T10:00:00Z")])
        html = (await reader.get("/session/s1")).partition('class="prose"')[2].partition("</article>")[0]
        assert 'class="right"' in html
        assert "style=" not in html
        assert links(html, "") == ["https://example.org/x"]


async def test_of_a_burst_the_latest_is_told_and_a_page_catches_up(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn([said(f"Wave {n}.", f"2026-10-20T10:{n:02}:00Z") for n in range(50)])
        site = Site(reader.memory, reader.access)
        news = await beginning(site, "0-0")
        told = json.loads(news.partition("data: ")[2])
        assert "Wave 49." in told["events"][-1]
        assert "Wave 19." not in "".join(told["events"])
        place = re.match(r"id: (\d+-\d+)\n", news)
        assert place
        await reader.learn([said("Another wave.", "2026-10-20T11:00:00Z", session="s2")])
        later = await beginning(site, place[1])
        [event] = json.loads(later.partition("data: ")[2])["events"]
        assert "Another wave." in event


async def test_pages_of_hits_go_on_and_back(blank: Settings) -> None:
    async with reading(blank) as reader:
        names = "ant bee cat dog elk fox gnu hen ibis jay kite lion mole newt owl pig quail ram seal toad vole".split()
        await reader.learn(
            said(f"The login timeout of the {name} tenant is {n} minutes.", f"2026-09-{n:02}T09:00:00Z", session=name)
            for n, name in enumerate([*names, "wasp", "yak", "zebra"], 1)
        )
        first = await reader.get("/search?q=login+timeout&kind=event")
        second = await reader.get(links(first, "/search?q=login+timeout&kind=event&offset=")[0])
        assert 'start="21"' in second
        shown = [set(re.findall(r'main" data-beside href="([^"]+)"', page)) for page in (first, second)]
        assert all(shown)
        assert not shown[0] & shown[1]


async def test_sessions_are_paged_and_each_is_a_conversation(blank: Settings) -> None:
    async with reading(blank) as reader:
        days = [f"2026-{month:02}-{day:02}" for month in (8, 9) for day in range(1, 21)]
        await reader.learn(
            [line for number, day in enumerate(days) for line in conversation(day, session=f"s{number}")]
        )
        first = await reader.get("/sessions")
        shown = links(first, "/session/")
        assert len(shown) == 30
        rest = links(await reader.get(links(first, "/sessions?before=")[0]), "/session/")
        assert len({*shown, *rest}) == 40
        words = text_of(await reader.get(shown[0]))
        assert "Please fix the login timeout" in words
        assert "1 segment" in words


async def test_a_long_session_goes_on_in_both_directions(blank: Settings) -> None:
    async with reading(blank) as reader:
        lines = [
            said(f"line number {n}", f"2026-10-20T09:{n:02}:00Z", role=("user", "assistant")[n % 2]) for n in range(60)
        ]
        await reader.learn([*lines, said("the only platypus", "2026-10-20T10:00:00Z")])

        async def told(address: str) -> list[int]:
            return [int(n) for n in re.findall(r"line number (\d+)", text_of(await reader.get(address)))]

        start = await told("/session/s1")
        assert set(start) >= set(range(30))
        assert 59 not in start
        later = links(await reader.get("/session/s1"), "/session/s1?from=")[0]
        assert sorted(set(await told(later)))[0] == 30
        earlier = links(await reader.get(later), "/session/s1?until=")[0]
        assert max(await told(earlier)) == 29
        end = await reader.get("/session/s1?end=1")
        assert "the only platypus" in end
        grip = links(await reader.get("/search?q=platypus"), "/grip/")[0]
        html = await reader.get(grip)
        assert '<mark id="excerpt">the only platypus</mark>' in html
        part = links(html, "/session/s1?until=")
        assert part
        bare = await reader.get(f"{part[0].replace('/session/', '/stretch/')}&part=1")
        assert "<html" not in bare
        assert "line number" in bare


async def test_refusals_and_failures_are_shown_as_what_they_were(blank: Settings) -> None:
    async with reading(blank) as reader:
        lines = conversation("2026-10-20")
        lines[4] |= {"event_type": "tool_result", "metadata": {"refused": True}}
        lines[6] |= {"event_type": "tool_result", "metadata": {"failed": True}}
        await reader.learn(lines)
        html = await reader.get("/session/s1")
        assert "outcome-refused" in html
        assert "outcome-failed" in html
        assert "<details>" in html


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/node/toc:day:1999-01-01", "toc:day:1999-01-01"),
        ("/node/nonsense", "nonsense"),
        ("/node/toc:day:1999-01-01/history", "1999-01-01"),
        ("/grip/grip:F189AA81", "F189AA81"),
        ("/grip/nonsense", "nonsense"),
        ("/session/nobody", "nobody"),
        ("/note/grip:F189AA81", "F189AA81"),
        ("/session/s1?from=nonsense", "nonsense"),
        ("/no/such/page", "/no/such/page"),
        ("/day/nonsense", "nonsense"),
    ],
)
async def test_an_address_that_leads_nowhere_says_where_to_go_on(settings: Settings, address: str, told: str) -> None:
    async with reading(settings) as reader:
        answer = await reader.http.get(address)
        assert answer.status_code in (400, 404)
        assert told in answer.text
        assert 'href="/toc"' in answer.text


@pytest.mark.parametrize("value", ["-1", "9" * 30, "x", "\u0661", "%00", "a" * 5000])
async def test_odd_numbers_and_texts_break_no_page(settings: Settings, value: str) -> None:
    async with reading(settings) as reader:
        for address in (
            "/search?q={}", "/search?q=a&offset={}", "/sessions?before={}", "/sessions?before=1-{}", "/files?offset={}",
            "/recalled?before={}", "/notes?before={}", "/?project={}", "/file?path={}", "/search?q=a&when={}",
            "/forget?match={}", "/session/{}", "/grip/{}", "/node/{}", "/day/{}",
        ):  # fmt: skip
            answer = await reader.http.get(address.format(value))
            assert answer.status_code in (200, 400, 404), address


async def test_a_memory_that_cannot_be_opened_is_told_on_the_page(settings: Settings) -> None:
    settings.database.write_bytes(b"no database at all" * 1000)
    async with reading(settings) as reader:
        for address in ("/", "/toc", "/live", "/health", "/notes", "/recalled", "/forget?match=token"):
            answer = await reader.http.get(address)
            assert answer.status_code in (200, 503), address
            assert "mcp-memory doctor" in answer.text, address


async def test_what_happens_is_told_while_it_does(settings: Settings) -> None:
    async with reading(settings) as reader:
        html = await reader.get("/live")
        assert links(html, "/grip/")
        assert "data-live" in html


async def test_imported_history_is_not_live(settings: Settings) -> None:
    old = conversation("2026-01-09", session="january", project="tidepool-api")
    async with reading(settings) as reader:
        app = await reader.app
        place = await app.store.position()
        await reader.learn(old)
        listed = await reader.get("/live")
        assert "2026-10-30" in listed
        assert "2026-01-09" not in listed
        site = Site(reader.memory, reader.access)
        assert "2026-01-09" not in await beginning(site, f"{place.versions}-{place.events}")


async def test_live_says_when_nothing_happened_lately(settings: Settings) -> None:
    day_ms = 24 * 60 * 60 * 1000
    assert settings.now_ms
    for now_ms, is_quiet in ((settings.now_ms - day_ms, False), (settings.now_ms, True)):
        async with reading(replace(settings, now_ms=now_ms)) as reader:
            assert ("Nothing has happened within the last day" in await reader.get("/live")) is is_quiet


async def test_a_session_took_as_long_on_the_page_as_on_the_command_line(blank: Settings) -> None:
    async with reading(blank) as reader:
        await reader.learn(
            [
                said("Paint the gate.", "2026-10-20T10:00:00Z"),
                said("Painted.", "2026-10-20T10:18:50Z", role="assistant"),
            ]
        )
        assert " 18 min " in text_of(await reader.get("/sessions"))


async def test_what_a_hook_captured_is_live_whatever_its_clock_says(settings: Settings) -> None:
    async with reading(settings) as reader:
        app = await reader.app
        place = await app.store.position()
        (captured,) = app.intaker.prepare([event_of_line(said("The gulls are loud.", "2026-01-09T09:00:00Z"))])
        hooked = replace(captured, metadata={"via": "hook"})
        await app.store.add([Intake((hooked,), "/w/gulls")])
        assert "The gulls are loud." in await beginning(
            Site(reader.memory, reader.access), f"{place.versions}-{place.events}"
        )


async def test_live_keeps_to_the_project_that_is_looked_at(settings: Settings) -> None:
    async with reading(settings) as reader:
        everything = await reader.get("/live")
        one = await reader.get("/live?project=tidepool-web")
        assert ">tidepool-api</span>" in everything
        assert ">tidepool-web</span>" in one
        assert ">tidepool-api</span>" not in one


async def test_health_says_what_to_do(settings: Settings) -> None:
    async with reading(settings) as reader:
        words = text_of(await reader.get("/health"))
        assert "Checked:" in words
        assert "database" not in words.partition("Checked:")[2].partition(".")[0]
        assert "database, records" in text_of(await reader.get("/health?all=1"))
        assert "What to do:" in words or "All is well" in words
