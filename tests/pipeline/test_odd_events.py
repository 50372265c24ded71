"""Events with values that a database cannot hold are stored as they can be, or skipped one by one and reported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.domain.events import EventQuery, ulid
from mcp_memory.domain.storable import bounded_name
from mcp_memory.pipeline.importing import Imported, import_files
from mcp_memory.store.postgres.database import PostgresDatabase
from tests.support import all_nodes, database_of, memory, said

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("engine")]
NAMES = ["walrus", "seal", "kite", "heron", "otter"]
#: A database that takes no kite, as another may not take some word of a language or a length.
REJECT_KITES = (
    """
    CREATE FUNCTION refuse_kites() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.text LIKE '%kite%' THEN RAISE EXCEPTION 'no kites' USING ERRCODE = 'program_limit_exceeded'; END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER refuse_kites BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION refuse_kites()",
)
AT = "2026-03-02T09:00:00Z"
#: Nothing of it repeats, so that no database can pack it.
LONG = "".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(320))
DEEP: dict[str, Any] = {}
for _ in range(90):
    DEEP = {"d": DEEP}


def count_no_kites(texts: Sequence[str]) -> list[int]:
    if any("kite" in text for text in texts):
        raise ArithmeticError
    return [len(text) for text in texts]


def exported(number: int, key: int, text: str, session: str = "s1") -> dict[str, Any]:
    """A line of an export, with its key."""
    moment = 1_772_442_000_000 + number * 1_000
    at = f"2026-03-02T09:00:{number:02}Z"
    line = said(text, at, session=session) | {"client": "codex", "event_id": ulid(moment, bytes([key] * 10))}
    return line | {"source_ids": [], "event_type": "user_message"}


ODD = {
    "nul in metadata": [said("A kite.", AT, metadata={"file_path": "/tmp/a\0b", "x\0y": ["\0"]})],
    "nul in text": [said("A\0 kite.", AT)],
    "half of a pair": [said("A \ud83d kite.", AT, metadata={"\udc00": "\ud83d"})],
    "nul in names": [said("A kite.", AT, session="s\0" + "1", project="al\0pha", source_id="x\0y")],
    "half of a pair in names": [said("A kite.", AT, session="s\ud83d", project="al\ud83dpha", source_id="\ud83d")],
    "long session": [said("A kite.", AT, session=LONG)],
    "long project": [said("A kite.", AT, project=LONG)],
    "long source": [said("A kite.", AT, source_id=LONG)],
    "long remote": [said("A kite.", AT, remote=f"https://example.org/{LONG}")],
    "via is an object": [said("A kite.", AT, metadata={"via": {"a": 1}})],
    "via is a list": [said("A kite.", AT, role="tool", metadata={"via": ["hook"], "agent_id": {}, "files": 7})],
    "odd facts": [
        said("A kite.", AT, role="assistant", metadata={"usage": {"a": []}, "model": ["m"], "failed": {}, "task": []})
    ],
    "odd files": [said("Edit: kite.py", AT, role="tool", metadata={"files": [{"a": 1}, None, "kite.py"], "tool": {}})],
    "huge numbers": [said("A kite.", AT, metadata={"n": 10**400, "m": -(10**30)})],
    "deep": [said("A kite.", AT, metadata=DEEP)],
    "a key twice": [exported(1, 1, "A kite."), exported(1, 1, "Another kite.")],
    "a key in two sessions": [exported(1, 1, "A kite."), exported(2, 1, "Another kite.", session="s2")],
    "a long word": [said(f"A kite. {LONG}", AT)],
    "many words": [said("A kite. " + " ".join(f"w{n}" for n in range(120_000)), AT)],
}


async def learned(home: Path, lines: list[dict[str, Any]]) -> tuple[Imported, list[str]]:
    path = home / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with memory(home) as app:
        result = await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], path)], app.intaker)
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
        assert await app.store.failures() == []
        assert [node for node in await all_nodes(app) if node.session_id]
        assert (await app.status())["failed"] == []
        found = [str(event.text) for event in await app.store.events(EventQuery())]
        again = await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], path)], app.intaker)
        assert again.events_new == 0
        for event in await app.store.events(EventQuery()):
            held = json.dumps([event.text, event.session_id, event.project, event.source_ids, dict(event.metadata)])
            assert "\\u0000" not in held
            assert "\\ud83d" not in held
            assert max(map(len, (event.session_id, event.project, *event.source_ids))) <= 217
    return result, found


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_event_is_stored_beside_the_others_and_summarized(tmp_path: Path, name: str) -> None:
    usual = [
        said("A walrus.", "2026-03-01T09:00:00Z", session="s8"),
        said("A seal.", "2026-03-03T09:00:00Z", session="s9"),
    ]
    result, found = await learned(tmp_path, [usual[0], *ODD[name], usual[1]])
    assert {"A walrus.", "A seal."} < {*found}
    assert any("kite" in text for text in found)
    assert result.skipped == []


async def test_an_event_that_the_database_rejects_is_skipped_and_named(tmp_path: Path) -> None:
    lines = [said(f"A {name}.", f"2026-03-02T09:00:{at:02}Z", session=name) for at, name in enumerate(NAMES)]
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with memory(tmp_path) as app:
        database = database_of(app)
        if not isinstance(database, PostgresDatabase):
            pytest.skip("a file takes whatever was made fit for it")
        for statement in REJECT_KITES:
            await database.run_alone(statement)
        result = await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], path)], app.intaker)
        assert [(bad.path, bad.line) for bad in result.skipped] == [(str(path), 1 + NAMES.index("kite"))]
        assert "ProgramLimitExceeded" in result.skipped[0].reason
        assert (result.events_new, result.events_known) == (len(NAMES) - 1, 0)
        assert {event.session_id for event in await app.store.events(EventQuery())} == {*NAMES} - {"kite"}


async def test_an_event_that_a_hook_told_and_the_database_rejects_keeps_no_other_out(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        database = database_of(app)
        if not isinstance(database, PostgresDatabase):
            pytest.skip("a file takes whatever was made fit for it")
        for statement in REJECT_KITES:
            await database.run_alone(statement)
        for at, name in enumerate(NAMES):
            prompt = {"hook_event_name": "UserPromptSubmit", "session_id": name, "cwd": "/w", "prompt": f"A {name}."}
            await app.inbox.post([(1_772_442_000_000 + at, "claude-code", "/w", "", json.dumps(prompt), "")])
        done = await app.pipeline.until_idle()
        assert (done.inbox, done.events, done.rejected) == (len(NAMES), len(NAMES) - 1, 1)
        assert {event.session_id for event in await app.store.events(EventQuery())} == {*NAMES} - {"kite"}
        assert not await app.pipeline.waits()


async def test_an_event_that_cannot_be_prepared_is_skipped_and_named(tmp_path: Path) -> None:
    lines = [said(f"A {name}.", f"2026-03-02T09:00:{at:02}Z", session=name) for at, name in enumerate(NAMES)]
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with memory(tmp_path) as app:
        intaker = replace(app.intaker, count_all=count_no_kites)
        result = await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], path)], intaker)
        assert [(bad.path, bad.line) for bad in result.skipped] == [(str(path), 1 + NAMES.index("kite"))]
        assert result.skipped[0].reason.startswith("ArithmeticError in test_odd_events.py")
        assert {event.session_id for event in await app.store.events(EventQuery())} == {*NAMES} - {"kite"}


async def test_a_dry_run_takes_the_same_key_twice(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    lines = [exported(1, 1, "A kite."), exported(1, 1, "Another kite."), exported(2, 1, "A third.", session="s2")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with memory(tmp_path) as app:
        sources = [(CLIENTS["jsonl"], path)]
        assert (await import_files(app.store, app.inbox, sources, app.intaker, dry_run=True)).events_new == 1
        assert (await import_files(app.store, app.inbox, sources, app.intaker)).events_new == 1


async def test_a_long_session_name_is_the_same_session_whichever_way_it_comes(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        for at in range(2):
            prompt = {"hook_event_name": "UserPromptSubmit", "session_id": LONG, "cwd": "/w", "prompt": f"Kite {at}."}
            await app.inbox.post([(1_772_442_000_000 + at, "claude-code", "/w", "", json.dumps(prompt), "")])
        await app.pipeline.until_idle()
        [name] = {event.session_id for event in await app.store.events(EventQuery())}
        assert name.startswith(LONG[:200])
        assert bounded_name(name) == name == bounded_name(LONG)
        assert bounded_name(LONG + "x") != name
