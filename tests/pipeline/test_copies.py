"""Sessions of Claude Code that begin with a copy of another one: each event once, by import, live and after a kill."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS
from mcp_memory.clients.port import Folders
from mcp_memory.domain.events import EventQuery
from mcp_memory.navigate.overview import session_cards
from mcp_memory.navigate.sessions import session_page, session_shape
from mcp_memory.pipeline.importing import import_files
from mcp_memory.surfaces.export_command import _lines
from mcp_memory.surfaces.import_command import find_sources, laid_out
from tests.support import memory

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def lines(session: str, *numbers: int, cwd: str = "/home/dev/shop") -> list[dict[str, Any]]:
    """Requests and calls of a transcript, which a copy repeats with the same names and times."""
    found: list[dict[str, Any]] = []
    for number in numbers:
        common = {"isSidechain": False, "cwd": cwd, "sessionId": session, "version": "2.1.200", "gitBranch": "main"}
        at = f"2026-07-22T07:{number:02}:00.000Z"
        tool = f"toolu_{number:020}"
        said = [
            ("user", f"Change part {number}."),
            (
                "assistant",
                [{"type": "tool_use", "id": tool, "name": "Bash", "input": {"command": f"make part{number}"}}],
            ),
            ("user", [{"type": "tool_result", "tool_use_id": tool, "content": f"built {number}"}]),
            ("assistant", [{"type": "text", "text": f"Part {number} is changed."}]),
        ]
        for place, (role, content) in enumerate(said):
            uuid = f"{number:08}-000{place}-4000-8000-000000000000"
            message = {"role": role, "content": content}
            found.append({**common, "type": role, "uuid": uuid, "timestamp": at, "message": message})
    return found


def write(path: Path, *values: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


async def load(app: App, *paths: Path) -> tuple[int, int]:
    done = await import_files(app.store, app.inbox, [(CLIENTS["claude-code"], path) for path in paths], app.intaker)
    return done.events_new, done.events_known


async def told(app: App, session: str) -> list[str]:
    return [event.text.partition("\n")[0] for event in await app.store.events(EventQuery(session_id=session))]


def parts(*numbers: int) -> list[str]:
    return [text for n in numbers for text in (f"Change part {n}.", f"Bash: make part{n}", f"Part {n} is changed.")]


async def test_a_resumed_session_keeps_only_its_own_lines(tmp_path: Path) -> None:
    one = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2))
    two = write(tmp_path / "b.jsonl", *lines(TWO, 1, 2, 3, cwd="/home/dev/shop/web"))
    async with memory(tmp_path / "home") as app:
        assert await load(app, one, two) == (9, 6)
        assert (await told(app, ONE), await told(app, TWO)) == (parts(1, 2), parts(3))
        assert await load(app, one, two) == (0, 15)


async def test_a_copy_that_is_imported_first_keeps_the_events(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2, 4)), write(tmp_path / "b.jsonl", *lines(TWO, 1, 2, 3))
    async with memory(tmp_path / "home") as app:
        assert (await load(app, two), await load(app, one)) == ((9, 0), (3, 6))
        assert (await told(app, TWO), await told(app, ONE)) == (parts(1, 2, 3), parts(4))


async def test_a_session_says_which_one_it_continues_and_one_kept_by_another_is_found_there(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2)), write(tmp_path / "b.jsonl", *lines(TWO, 1, 2, 3))
    async with memory(tmp_path / "home") as app:
        await load(app, one, two)
        await app.pipeline.until_idle()
        view, page = await session_page(app.answers, TWO, 2_000)
        assert session_shape(view, 0)["continues"] == [ONE]
        assert f"Continues session {ONE}, where what was said before is kept." in page.text
        assert "Change part 3." in page.text
    title = {"type": "custom-title", "customTitle": "Shop redesign", "sessionId": ONE}
    write(one, title, *lines(ONE, 1, 2))
    async with memory(tmp_path / "other") as app:
        await load(app, two, one)
        await app.pipeline.until_idle()
        assert [card.session_id for card in await session_cards(app.store, None)] == [TWO]
        view, page = await session_page(app.answers, ONE, 2_000)
        assert view.session_id == TWO
        assert "Change part 1." in page.text


async def test_a_grown_copy_and_one_read_again_after_a_kill_add_nothing_twice(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2)), write(tmp_path / "b.jsonl", *lines(TWO, 1))
    async with memory(tmp_path / "home") as app:
        await load(app, one, two)
        write(two, *lines(TWO, 1, 2, 3))
        assert await load(app, two) == (3, 6)
        # As if the process had been killed after storing and before it noted its place in the file.
        again = write(tmp_path / "c.jsonl", *lines(TWO, 1, 2, 3, 4))
        assert await load(app, again) == (3, 9)
        assert await told(app, TWO) == parts(3, 4)


async def test_a_session_resumed_live_stores_only_what_is_new(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2)), write(tmp_path / "b.jsonl", *lines(TWO, 1, 2, 3))
    async with memory(tmp_path / "home") as app:
        for session, path in ((ONE, one), (TWO, two)):
            call = {"hook_event_name": "Stop", "session_id": session, "cwd": "/home/dev/shop"}
            payload = json.dumps({**call, "transcript_path": str(path), "stop_hook_active": False})
            await app.inbox.post([(1_784_703_600_000, "claude-code", "/home/dev/shop", "", payload, "")])
        await app.pipeline.until_idle()
        found = [text for text in await told(app, TWO) if text]
        assert ([text for text in await told(app, ONE) if text], found) == (parts(1, 2), parts(3))


async def test_an_export_knows_the_copies_where_it_is_imported(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2)), write(tmp_path / "b.jsonl", *lines(TWO, 1, 2, 3))
    exported = tmp_path / "export.jsonl"
    async with memory(tmp_path / "home") as app:
        await load(app, one, two)
        with exported.open("w") as file:
            await _lines(app, None, file, None)
    async with memory(tmp_path / "other") as app:
        source = [(CLIENTS["jsonl"], exported)]
        assert (await import_files(app.store, app.inbox, source, app.intaker)).events_new == 9
        assert await load(app, two, one) == (0, 15)
        assert (await told(app, ONE), await told(app, TWO)) == (parts(1, 2), parts(3))


async def test_the_lines_of_a_copy_count_as_known_in_a_dry_run(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.jsonl", *lines(ONE, 1, 2)), write(tmp_path / "b.jsonl", *lines(TWO, 1, 2, 3))
    async with memory(tmp_path / "home") as app:
        sources = [(CLIENTS["claude-code"], path) for path in (one, two)]
        promised = await import_files(app.store, app.inbox, sources, app.intaker, dry_run=True)
        assert (promised.events_new, promised.events_known) == await load(app, one, two) == (9, 6)


def test_files_are_imported_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    names = ["c.jsonl", "a/subagents/agent-1.jsonl", "a.jsonl", "b.jsonl"]
    for seconds, name in enumerate(names):
        path = tmp_path / "history" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, *lines(ONE, 1))
        os.utime(path, (1_000 + seconds, 1_000 + seconds))
    with laid_out([str(tmp_path / "history")]) as (paths, files):
        sources, _ = find_sources(Folders(tmp_path), paths, "auto", files)
    found = [path.relative_to(tmp_path / "history").as_posix() for _, path in sources]
    assert found == ["c.jsonl", "a.jsonl", "a/subagents/agent-1.jsonl", "b.jsonl"]
