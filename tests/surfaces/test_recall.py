"""What memory handed to agents is noted, can be looked up, ages and can be forgotten; no answer depends on it."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import open_app
from mcp_memory.config import Recall, Settings
from mcp_memory.domain.forget import ForgetRequest
from mcp_memory.domain.handed import Handed, HandedQuery
from mcp_memory.navigate.overview import recalled, recalled_totals
from mcp_memory.surfaces.forget_command import carry_out, key_of
from tests.surfaces.client import GRIP, Era, ask, connected, read, refused
from tests.surfaces.shell import Shell

SHORT = re.compile(r"grip:[0-9A-Z]{8}\b")
DAY_MS = 24 * 60 * 60 * 1000


async def noted(settings: Settings, query: HandedQuery | None = None) -> list[Handed]:
    """The rows, oldest first."""
    async with open_app(settings) as app:
        return (await app.inbox.handed(query or HandedQuery()))[::-1]


async def add(settings: Settings, *rows: Handed) -> None:
    async with open_app(settings) as app:
        for row in rows:
            await app.inbox.note_handed(row, (), ("", ""))


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_each_answer_is_noted_with_its_call_and_what_it_named(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        found = await ask(client, "teleport", query="refresh token", when="October 2026", limit=3)
        await ask(client, "toc_root", project="tidepool-web")
        await ask(client, "browse_time", when="2026-10-30", project="*")
        await read(client, "memory://toc")
        await read(client, "memory://status")
        await refused(client, "get_node", node_id="toc:day:1999-01-01")
        await ask(client, "remember", text="The kiln fires at 1,060 degrees.")
    rows = await noted(settings)
    assert [(row.kind, row.asked) for row in rows] == [
        ("teleport", "refresh token · when=October 2026"),
        ("toc_root", "project=tidepool-web"),
        ("browse_time", "2026-10-30 · project=*"),
        ("resource", "memory://toc"),
    ]
    assert [row.place for row in rows] == [
        ("", "tidepool-api", ""),
        ("label:tidepool-web", "", ""),
        ("", "", ""),
        ("", "tidepool-api", ""),
    ]
    # Where all projects were meant, each id says of which it is.
    assert rows[2].ids
    assert all("@" in one for one in rows[2].ids if one.startswith("toc:"))
    first = rows[0]
    assert {*GRIP.findall(found), *SHORT.findall(found)} <= {*first.ids}
    assert f"[{first.tokens} tokens" in found
    assert (first.client, first.session, first.opened_ms) == ("mcp", "", None)
    assert abs(first.at_ms - time.time() * 1000) < DAY_MS


@pytest.mark.anyio
async def test_what_a_later_call_asks_for_by_any_form_of_its_id_was_opened(settings: Settings) -> None:
    async with connected(settings) as client:
        found = await ask(client, "teleport", query="refresh token", limit=3)
        await ask(client, "expand_grip", grip_id=SHORT.findall(found)[-1])
        await ask(client, "toc_root")
        await ask(client, "get_node", node_id="toc:day:2026-10-30@tidepool-api")
        await ask(client, "teleport", query="tide table")
        await ask(client, "toc_root")
    rows = await noted(settings)
    opened = [row.kind for row in rows if row.opened_ms is not None]
    assert opened == ["teleport", "toc_root"]
    assert rows[0].opened_ms == rows[1].at_ms


@pytest.mark.anyio
@pytest.mark.parametrize("argument", ["session_id", "session"])
async def test_a_session_is_opened_by_its_whole_name_too(settings: Settings, argument: str) -> None:
    async with connected(settings) as client:
        await ask(client, "teleport", query="refresh token", limit=1)
        await ask(client, "session_context", **{argument: "tidepool-api-02"})
    assert [row.opened_ms is not None for row in await noted(settings)] == [True, False]


@pytest.mark.anyio
async def test_what_is_opened_by_a_date_or_a_short_id_is_noted_by_its_whole_id(settings: Settings) -> None:
    async with connected(settings) as client:
        hits = await ask(client, "teleport", query="refresh tokens", limit=1)
        grip = re.search(r"grip:\d+:\w{26}", hits)
        assert grip
        await ask(client, "expand_grip", grip_id=grip[0][-16:-8])
        await ask(client, "toc_root")
        await ask(client, "get_node", node_id="2026-10-30")
    rows = await noted(settings)
    assert [row.asked for row in rows[1::2]] == [f"grip:{grip[0][-16:-8]}", "toc:day:2026-10-30"]
    assert [row.opened_ms is not None for row in rows] == [True, False, True, False]


@pytest.mark.anyio
async def test_a_brief_printed_here_is_opened_by_any_server_but_answers_only_by_their_own(settings: Settings) -> None:
    now, day = round(time.time() * 1000), ("toc:day:2026-10-30",)
    home = Handed(now, "brief", label="tidepool-api", ids=day)
    answer = replace(home, kind="toc_root", server="another")
    await add(settings, home, replace(home, label="tidepool-web"), answer, replace(home, at_ms=now - 2 * DAY_MS))
    async with connected(settings) as client:
        await ask(client, "get_node", node_id="toc:day:2026-10-30")
    assert [row.opened_ms is not None for row in await noted(settings)] == [True, False, False, False, False]


@pytest.mark.anyio
async def test_secrets_in_a_question_are_not_kept_and_long_ones_are_cut(settings: Settings) -> None:
    secret = "ghp_" + "Zx81kQ" * 6
    async with connected(settings) as client:
        await ask(client, "teleport", query=f"the token {secret}")
        await ask(client, "teleport", query="tide " * 200)
    first, second = await noted(settings)
    assert (secret in first.asked, "[redacted" in first.asked) == (False, True)
    assert 290 < len(second.asked) <= 300


@pytest.mark.anyio
async def test_nothing_is_noted_if_nothing_is_to_be_kept(settings: Settings) -> None:
    settings = replace(settings, recall=Recall(keep_days=0))
    async with connected(settings) as client:
        await ask(client, "teleport", query="refresh token")
    assert await noted(settings) == []


@pytest.mark.anyio
async def test_old_rows_go_with_the_next_answer_and_with_the_pipeline(settings: Settings) -> None:
    now = round(time.time() * 1000)
    old = [Handed(now - days * DAY_MS, "teleport") for days in (91, 89)]
    await add(settings, *old)
    async with connected(settings) as client:
        await ask(client, "toc_root")
    assert [row.kind for row in await noted(settings)] == ["teleport", "toc_root"]
    async with open_app(replace(settings, recall=Recall(keep_days=30))) as app:
        await app.pipeline.until_idle()
    assert [row.kind for row in await noted(settings)] == ["toc_root"]


@pytest.mark.anyio
@pytest.mark.parametrize("trouble", ["locked", "refuses"])
async def test_an_answer_is_given_although_it_cannot_be_noted(
    settings: Settings, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_app(settings) as app:
        await app.inbox.handed(HandedQuery())
    with closing(sqlite3.connect(settings.inbox, isolation_level=None)) as other:
        if trouble == "locked":
            other.execute("BEGIN IMMEDIATE")
        else:
            other.execute("CREATE TRIGGER full BEFORE INSERT ON handed BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        with caplog.at_level(logging.WARNING, "mcp_memory.surfaces.recorder"):
            async with connected(settings) as client:
                for _ in range(3):
                    assert "tokens" in await ask(client, "teleport", query="refresh token")
                if trouble == "locked":
                    other.execute("ROLLBACK")
    # What waits for a lock is noted once that is gone; what fails is told once.
    assert len(await noted(settings)) == (3 if trouble == "locked" else 0)
    told = [record for record in caplog.records if record.name == "mcp_memory.surfaces.recorder"]
    assert len(told) == (trouble == "refuses")


@pytest.mark.anyio
async def test_rows_are_read_newest_first_page_by_page_and_by_kind_session_and_project(settings: Settings) -> None:
    now = round(time.time() * 1000)
    places = [("", "tidepool-api"), ("label:tidepool-api", ""), ("label:tidepool-web", ""), ("", "")]
    rows = [
        Handed(
            now + number, ("brief", "teleport")[number % 2], session=f"s{number % 3}", tokens=10, root=root, label=label
        )
        for number, (root, label) in enumerate(places * 3)
    ]
    await add(settings, *rows)
    async with open_app(settings) as app:
        store, inbox = app.store, app.inbox
        page = await recalled(store, inbox, HandedQuery(limit=5))
        assert [row.id for row, _ in page.rows] == [12, 11, 10, 9, 8]
        assert [slug for _, slug in page.rows] == ["", "tidepool-web", "tidepool-api", "tidepool-api", ""]
        last = await recalled(store, inbox, HandedQuery(limit=10, before=page.more))
        assert ([row.id for row, _ in last.rows], last.more) == ([7, 6, 5, 4, 3, 2, 1], None)
        one = await recalled(store, inbox, HandedQuery(limit=4), "tidepool-api")
        assert ([row.id for row, _ in one.rows], one.more) == ([10, 9, 6, 5], 5)
        both = await recalled(store, inbox, HandedQuery("brief", "s0"), "tidepool-api")
        assert [row.id for row, _ in both.rows] == [1]
        assert (await recalled(store, inbox, HandedQuery(), "nowhere")).rows == []
        totals = await recalled_totals(store, inbox, now, "tidepool-api")
        assert [(total.kind, total.times, total.tokens) for total in totals] == [("brief", 3, 30), ("teleport", 3, 30)]
        assert [total.times for total in await recalled_totals(store, inbox, now + 11)] == [1]
        await store.rename("tidepool-api", "harbour")
        assert len((await recalled(store, inbox, HandedQuery(), "harbour")).rows) == 6


@pytest.mark.anyio
async def test_forgetting_takes_what_was_noted_of_it(settings: Settings) -> None:
    now = round(time.time() * 1000)
    async with connected(settings) as client:
        found = await ask(client, "teleport", query="refresh token", limit=1)
    grip = GRIP.findall(found)[0]
    kept = Handed(now, "toc_root", root="label:tidepool-web", asked="kept")
    await add(
        settings,
        Handed(now, "teleport", root="/elsewhere", asked="Project Nightjar · when=today"),
        Handed(now, "expand_grip", root="/elsewhere", asked=f"grip:{grip[-16:-8]}"),
        Handed(now, "get_node", root="/elsewhere", session="tidepool-api-01"),
        Handed(now, "get_node", root="/elsewhere", ids=("session:tidepool-api-01",)),
        kept,
    )
    async with open_app(settings) as app:

        async def left(wish: ForgetRequest) -> list[int]:
            found = (await carry_out(app, wish, dry_run=True)).found.handed
            before = await app.inbox.handed(HandedQuery())
            done = await carry_out(app, wish, dry_run=False)
            after = await app.inbox.handed(HandedQuery())
            assert (done.found.handed, done.again) == (found, "")
            assert len(before) - len(after) == found
            return [row.id for row in after][::-1]

        assert await left(ForgetRequest(match="project nightjar")) == [1, 3, 4, 5, 6]
        assert await left(ForgetRequest(event_key=await key_of(app, grip))) == [4, 5, 6]
        assert await left(ForgetRequest(session_id="tidepool-api-01")) == [6]
        await app.inbox.note_handed(replace(kept, root="", label="tidepool-api"), (), ("", ""))
        assert await left(ForgetRequest(project="tidepool-api")) == [6]
        assert await left(ForgetRequest(before_ms=now + 1)) == []


def test_the_command_tells_what_was_handed_over_and_what_came_of_it(shell: Shell, sample_home: Path) -> None:
    shell.json("demo")
    assert shell.run("recall", "--project", "*").stdout.startswith("Memory handed nothing to agents")
    now = round(time.time() * 1000)
    rows = [
        (now, "brief", "claude-code", "s1", "label:tidepool-api", "startup", '["toc:day:2026-10-30"]', 900, now),
        (now, "teleport", "claude-code", "s1", "label:tidepool-api", "a \x1b[31mred\x1b[0m lamp", "[]", 400, None),
        (now - 40 * DAY_MS, "teleport", "codex", "", "label:tidepool-web", "old", "[]", 100, None),
    ]
    columns = "at_ms, kind, client, session, root, asked, ids, tokens, opened_ms"
    with closing(sqlite3.connect(shell.home / "inbox.db")) as database, database:
        database.executemany(f"INSERT INTO handed ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    stats = shell.run("recall", "stats", "--project", "tidepool-api").stdout
    assert re.search(r"brief +1 time +900 tokens +1 opened \(100%\)", stats)
    assert "2 times in all, 1,300 tokens. Agents opened something that 1 of these named." in stats
    shown = shell.run("recall", "list", "--project", "*", "--limit", "2").stdout
    assert "\x1b" not in shown
    assert "teleport  claude-code · tidepool-api · session s1 · 400 tokens" in shown
    assert "recall list --before 2" in shown
    assert shell.json("recall", "--project", "*", "--days", "60")["kinds"][1] == {
        "kind": "teleport",
        "times": 2,
        "tokens": 500,
        "opened": 0,
        "unasked": False,
    }
    listed = shell.json("recall", "list", "--project", "*", "--before", "2")
    assert ([row["asked"] for row in listed["rows"]], listed["more"]) == (["startup"], None)
    assert shell.run("recall", "--days", "0").returncode == 2
    assert shell.run("recall", "list", "--limit", "0").returncode == 2
    off = shell.run("recall", "list", "--kind", "none", MCP_MEMORY_RECALL_KEEP_DAYS="0").stdout
    assert "keep_days is 0" in off
    assert "startup" not in shell.run("export", "--project", "*").stdout
