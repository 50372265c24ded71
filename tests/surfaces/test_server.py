"""The MCP server as an agent client meets it: what it offers, and its memory opened behind it."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from mcp_memory import lexicon, sample
from mcp_memory.app import open_app
from mcp_memory.capture.inbox import Row, spool
from mcp_memory.capture.redaction import Clean
from mcp_memory.clients import CLIENTS
from mcp_memory.config import Notes, Settings
from mcp_memory.pipeline.importing import import_files
from mcp_memory.surfaces import server
from mcp_memory.surfaces.server import Memory, build_server
from tests.support import database_of
from tests.surfaces.client import Era, ask, connected, refused

pytestmark = pytest.mark.anyio

HISTORY = Path(sample.__file__).with_name("history.jsonl")
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "Please mend the kite."}
TOOLS = {
    "toc_root", "get_node", "expand_grip", "teleport", "browse_time", "build_context", "session_context", "remember",
    "forget",
}  # fmt: skip


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_both_eras_offer_all_tools_resources_and_prompts(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        assert client.server_info is not None
        assert client.server_info.name == "memory"
        assert client.instructions == server.instructions(settings)
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        static = {resource.uri for resource in (await client.list_resources()).resources}
        templates = (await client.list_resource_templates()).resource_templates
        assert static == {"memory://toc", "memory://status"}
        assert {template.uri_template for template in templates} == {
            "memory://node/{node_id}",
            "memory://grip/{grip_id}",
            "memory://session/{session_id}",
        }
        prompts = (await client.list_prompts()).prompts
        assert {prompt.name: [argument.name for argument in prompt.arguments or []] for prompt in prompts} == {
            "recall": ["topic"],
            "catch_up": ["when"],
            "resummarize": ["session"],
        }
        assert "refresh" in await ask(client, "teleport", query="refresh tokens")


def test_instructions_fit_into_what_clients_load(settings: Settings) -> None:
    assert len(server.instructions(settings).encode()) < 2_048
    assert all(name in lexicon.text("instructions") for name in TOOLS)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_agents_are_asked_for_a_line_at_the_end_of_their_work_unless_the_user_minds(
    settings: Settings, era: Era
) -> None:
    sentence = lexicon.text("asking")
    async with connected(settings, era) as client:
        assert client.instructions
        assert client.instructions.endswith(sentence)
    async with connected(replace(settings, notes=Notes(ask=False)), era) as client:
        assert client.instructions == lexicon.text("instructions")
        assert sentence.strip() not in client.instructions
        assert "Remembered" in await ask(client, "remember", text="Kept all the same.", kind="outcome")


async def test_tools_publish_closed_schemas_hints_and_annotations(settings: Settings) -> None:
    async with connected(settings) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name, tool in tools.items():
        assert tool.input_schema["additionalProperties"] is False
        assert all(field["description"] for field in tool.input_schema["properties"].values())
        assert tool.output_schema is None
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (name not in ("remember", "forget"))
        assert tool.annotations.destructive_hint is (name == "forget")
        assert tool.annotations.idempotent_hint is (name != "remember")
        assert tool.annotations.open_world_hint is False
        assert tool.meta is not None
        assert tool.meta["anthropic/searchHint"]
        assert tool.meta.get("anthropic/alwaysLoad", False) is (name in {"toc_root", "teleport"})
    assert set(tools["teleport"].input_schema["properties"]) == {
        "query", "when", "project", "kind", "limit", "budget_tokens", "cursor", "diverse",
    }  # fmt: skip


async def test_the_first_question_may_come_before_the_memory_is_open(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshake is answered while opening hangs; the question is answered once it does not."""
    gate, real, answers = threading.Event(), server.prepared, []

    def held_up() -> server.Opener:
        gate.wait(30)
        return real()

    monkeypatch.setattr(server, "prepared", held_up)
    async with connected(settings, "legacy") as client:
        try:
            async with anyio.create_task_group() as tasks:

                async def question() -> None:
                    answers.append(await ask(client, "teleport", query="refresh tokens"))

                tasks.start_soon(question)
                assert len((await client.list_tools()).tools) == len(TOOLS)
                assert answers == []
                gate.set()
        finally:
            gate.set()
    assert "refresh" in answers[0]


def garbage(settings: Settings) -> None:
    settings.home.mkdir()
    settings.database.write_bytes(b"this is not a database " * 500)


def from_the_future(settings: Settings) -> None:
    settings.home.mkdir()
    connection = sqlite3.connect(settings.database)
    connection.execute("PRAGMA user_version = 9000")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "told"), [(garbage, "is damaged"), (from_the_future, "Update mcp-memory")], ids=["corrupt", "newer"]
)
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_memory_that_cannot_be_opened_says_why_and_is_tried_again(
    blank: Settings, era: Era, spoil: Callable[[Settings], None], told: str
) -> None:
    spoil(blank)
    async with connected(blank, era) as client:
        assert len((await client.list_tools()).tools) == len(TOOLS)
        for _ in range(2):
            message = await refused(client, "toc_root")
            assert told in message
            assert "go on without memory" in message
        with pytest.raises(MCPError, match=told):
            await client.read_resource("memory://toc")
        for path in blank.home.glob("memory.db*"):
            path.unlink()
        assert "Nothing is remembered" in await ask(client, "toc_root")


async def test_what_another_process_stores_reaches_the_tree_while_the_server_runs(blank: Settings) -> None:
    async with connected(blank) as client:
        assert "Nothing is remembered" in await ask(client, "toc_root")
        async with open_app(blank) as other:
            await import_files(other.store, other.inbox, [(CLIENTS["jsonl"], HISTORY)], other.intaker)
        answer = ""
        while "toc:year:2026" not in answer:
            answer = await ask(client, "toc_root")


async def test_a_server_can_be_served_again_after_its_client_left(settings: Settings) -> None:
    server = build_server(Memory(settings))
    for _ in range(2):
        with anyio.fail_after(30):
            async with Client(server) as client:
                assert "toc:year:2026" in await ask(client, "toc_root")


@pytest.mark.skipif(sys.platform == "win32", reason="there, an open file cannot be replaced")
async def test_a_database_that_is_replaced_while_the_server_runs_is_opened_anew(settings: Settings) -> None:
    backup = settings.home.parent / "backup.db"
    async with connected(settings) as client:
        with closing(sqlite3.connect(settings.database)) as source, closing(sqlite3.connect(backup)) as copy:
            source.backup(copy)
        await ask(client, "remember", text="The kestrels are counted in May.")
        for suffix in ("-wal", "-shm"):
            settings.database.with_name(f"memory.db{suffix}").unlink()
        backup.replace(settings.database)
        assert "counted" not in await ask(client, "teleport", query="kestrels")
        await ask(client, "remember", text="The ospreys are counted in June.")
    async with open_app(settings) as app:
        texts = [text for (text,) in await database_of(app).fetch("SELECT text FROM event WHERE text LIKE '%counted%'")]
    assert texts == ["The ospreys are counted in June."]


@pytest.mark.skipif(sys.platform == "win32", reason="there, an open file cannot be removed")
async def test_what_is_captured_while_the_database_is_away_waits_for_the_next(
    blank: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.01)
    row = Row(1_793_000_000_000, "claude-code", "/home/ada/kite", "", Clean(json.dumps(PROMPT)))
    async with connected(blank) as client:
        await ask(client, "toc_root")
        for suffix in ("", "-wal", "-shm"):
            blank.database.with_name(f"memory.db{suffix}").unlink()
        spool(str(blank.home), row)
        # No one asks: a database that someone puts there is found, and takes what has waited.
        async with open_app(blank):
            pass
        with closing(sqlite3.connect(blank.database)) as connection, anyio.fail_after(20):
            while not connection.execute("SELECT count(*) FROM event").fetchone()[0]:
                await anyio.sleep(0.01)
        assert "kite" in await ask(client, "teleport", query="mend the kite", project="*")
    assert not list(blank.spool.iterdir())
