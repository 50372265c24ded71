"""The MCP server as an agent client meets it, in process and in both protocol eras."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from mcp_memory import sample
from mcp_memory.adapters.clients import ADAPTERS
from mcp_memory.adapters.tokens import count
from mcp_memory.app import open_app
from mcp_memory.config import Settings
from mcp_memory.domain.grips import parse_grip_id, short_grip_id
from mcp_memory.navigate.answers import Answers
from mcp_memory.pipeline.importing import import_files
from mcp_memory.surfaces import opening
from mcp_memory.surfaces.opening import Memory
from mcp_memory.surfaces.server import INSTRUCTIONS, build_server
from tests.support import said as spoken
from tests.support import tell

pytestmark = pytest.mark.anyio

Era = Literal["auto", "legacy"]
HISTORY = Path(sample.__file__).with_name("history.jsonl")
TOOLS = {
    "toc_root", "get_node", "expand_grip", "teleport", "browse_time", "build_context", "session_context", "remember",
    "forget",
}  # fmt: skip
GRIP = re.compile(r"grip:\d+:\w{26}")
CURSOR = re.compile(r'cursor="([^"]+)" for more\]$')
FOOT = re.compile(r"\[(\d+) tokens · next: .+\]")
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("toc_root", {}),
    ("toc_root", {"project": "*", "topic": "booking"}),
    ("get_node", {"node_id": "toc:month:2026-10"}),
    ("get_node", {"node_id": "toc:day:2026-10-26", "topic": "zone"}),
    ("teleport", {"query": "refresh tokens", "limit": 20}),
    ("teleport", {"query": "what about kiosks", "when": "October 2026"}),
    ("teleport", {"query": "no-such-word-anywhere"}),
    ("browse_time", {"when": "October 2026"}),
    ("browse_time", {"when": "1999"}),
    ("build_context", {}),
    ("build_context", {"focus": "toc:week:2026-W44", "order": "u-curve", "top_k": 9}),
    ("build_context", {"query": "refresh tokens", "include_memo": False, "levels": ["month"]}),
    ("session_context", {"session": "tidepool-api-07"}),
]


@asynccontextmanager
async def connected(settings: Settings, era: Era = "auto") -> AsyncIterator[Client]:
    with anyio.fail_after(30):
        async with Client(build_server(Memory(settings)), mode=era) as client:
            yield client


async def ask(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    text = said(result.content)
    assert not result.is_error, text
    assert result.structured_content is None
    return text


async def refused(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return said(result.content)


def said(content: list[Any]) -> str:
    (block,) = content
    assert isinstance(block, TextContent)
    return block.text


async def read(client: Client, uri: str) -> TextResourceContents:
    (document,) = (await client.read_resource(uri)).contents
    assert isinstance(document, TextResourceContents)
    return document


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_both_eras_offer_all_tools_resources_and_prompts(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        assert client.server_info is not None
        assert client.server_info.name == "memory"
        assert client.instructions == INSTRUCTIONS
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


def test_instructions_fit_into_what_clients_load() -> None:
    assert len(INSTRUCTIONS.encode()) < 2_048
    assert all(name in INSTRUCTIONS for name in TOOLS)


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
        "query", "when", "project", "kind", "limit", "budget_tokens", "cursor",
    }  # fmt: skip


async def test_one_walks_from_the_root_down_to_the_exact_words(settings: Settings) -> None:
    async with connected(settings) as client:
        assert "toc:month:2026-10" in await ask(client, "toc_root")
        assert "toc:week:2026-W44" in await ask(client, "get_node", node_id="toc:month:2026-10")
        assert "toc:day:2026-10-26" in await ask(client, "get_node", node_id="toc:week:2026-W44")
        day = await ask(client, "get_node", node_id="toc:day:2026-10-26")
        grip = GRIP.search(day)
        assert grip
        words = await ask(client, "expand_grip", grip_id=grip[0])
        assert "session tidepool-api-07 · exact" in words
        assert "2026-10-26" in words


async def test_a_time_is_browsed_and_echoed(settings: Settings) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "browse_time", when="this week")
        assert "2026-10-26 00:00 to 2026-11-01 23:59" in answer
        assert "toc:day:2026-10-26" in answer
        assert "toc:day:2026-10-30" in answer


async def test_other_projects_are_reached_by_name(settings: Settings) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "toc_root", project="tidepool-web")
        assert "toc:year:2026@tidepool-web" in answer
        assert "toc:year:2026@tidepool-web" in await ask(client, "get_node", node_id="toc:year:2026@tidepool-web")


async def test_a_note_can_be_found_and_opened_at_once(settings: Settings) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "remember", text="Releases of the quokka service wait for Thursday.", pin=True)
        grip = GRIP.search(answer)
        assert grip
        assert "every session" in answer
        assert "quokka" in await ask(client, "expand_grip", grip_id=grip[0])
        assert grip[0] in await ask(client, "teleport", query="quokka")


@pytest.mark.parametrize("budget", [20, 60, 90, 150, 400, 1_000])
async def test_answers_keep_their_budget_and_tell_what_they_cost(settings: Settings, budget: int) -> None:
    async with connected(settings) as client:
        hits = await ask(client, "teleport", query="refresh tokens")
        grips = [("expand_grip", {"grip_id": grip}) for grip in GRIP.findall(hits)]
        assert grips
        for tool, arguments in [*QUESTIONS, *grips]:
            answer = await ask(client, tool, **arguments, budget_tokens=budget)
            assert count(answer) <= budget, (tool, arguments)
            if budget >= 150:
                foot = FOOT.fullmatch(answer.splitlines()[-1])
                assert foot, answer
                assert int(foot[1]) == count(answer)


async def follow(client: Client, tool: str, pattern: str, **arguments: Any) -> list[str]:
    """Everything that matches in a list, page after page."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(40):
        answer = await ask(client, tool, **arguments, **cursor)
        found += re.findall(pattern, answer, re.M)
        match = CURSOR.search(answer)
        if not match:
            return found
        cursor = {"cursor": match[1]}
    raise AssertionError("the list never ends")


async def test_a_cursor_leads_through_all_children_of_a_node(settings: Settings) -> None:
    async with connected(settings) as client:
        arguments = {"node_id": "toc:month:2026-10", "pattern": r"^> (toc:week:\S+)"}
        everything = await follow(client, "get_node", **arguments, budget_tokens=2_000)
        in_pages = await follow(client, "get_node", **arguments, budget_tokens=200)
        assert len(everything) >= 4
        assert sorted(set(in_pages)) == sorted(everything)


async def test_a_cursor_leads_through_a_time(settings: Settings) -> None:
    async with connected(settings) as client:
        arguments = {"when": "October 2026", "pattern": r"^(toc:week:\S+)"}
        everything = await follow(client, "browse_time", **arguments, budget_tokens=5_000)
        in_pages = await follow(client, "browse_time", **arguments, budget_tokens=300)
        assert len(everything) >= 4
        assert sorted(set(in_pages)) == sorted(everything)


async def test_a_cursor_leads_through_the_hits(settings: Settings) -> None:
    async with connected(settings) as client:
        arguments = {"query": "refresh tokens", "pattern": r"(grip:\w+:\w+|grip:\w+|toc:\S+)"}
        at_once = await follow(client, "teleport", **arguments, limit=50, budget_tokens=20_000)
        in_pages = await follow(client, "teleport", **arguments, limit=7, budget_tokens=2_000)
        assert len(at_once) > 7
        assert {shortened(name) for name in in_pages} >= {shortened(name) for name in at_once}


def shortened(name: str) -> str:
    """An id as it is written further down in an answer."""
    return short_grip_id(parse_grip_id(name)[1]) if GRIP.fullmatch(name) else name


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("teleport", {"query": "x", "limt": 3}, ["no argument 'limt'", "query, when, project, kind, limit"]),
        ("toc_root", {"budget": 3}, ["no argument 'budget'", "budget_tokens"]),
        ("get_node", {}, ["node_id: Field required"]),
        ("toc_root", {"budget_tokens": "many"}, ["budget_tokens", "valid integer"]),
        ("toc_root", {"budget_tokens": 0}, ["from 1 to 20,000"]),
        ("get_node", {"node_id": "toc:day:1999-01-01"}, ["toc:day:1999-01-01", "toc_root"]),
        ("get_node", {"node_id": "yesterday"}, ["not a node id", "toc_root"]),
        ("get_node", {"node_id": "toc:year:2026", "cursor": "page 2"}, ["not a cursor"]),
        ("expand_grip", {"grip_id": "grip:1:01HN4QXKN6YWXVKZ3JMHP4BCDE"}, ["no grip", "get_node", "teleport"]),
        ("expand_grip", {"grip_id": "12"}, ["not a grip id", "get_node"]),
        ("browse_time", {"when": "when pigs fly"}, ["not a time", "last week", "teleport"]),
        ("teleport", {"query": "x", "kind": "page"}, ["'page' is not a kind", "segment"]),
        ("teleport", {"query": "x", "project": "atlantis"}, ["atlantis", "tidepool-api", "'*' for all"]),
        ("remember", {"text": "  "}, ["empty"]),
        ("recollect", {}, ["no tool 'recollect'", "teleport"]),
    ],
)
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_errors_say_what_to_do_instead(
    settings: Settings, era: Era, tool: str, arguments: dict[str, Any], told: list[str]
) -> None:
    async with connected(settings, era) as client:
        message = await refused(client, tool, **arguments)
        assert [part for part in told if part not in message] == []
        assert "Traceback" not in message


async def test_an_unexpected_error_is_logged_and_not_shown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("inner detail")

    monkeypatch.setattr(Answers, "toc_root", broken)
    async with connected(settings) as client:
        message = await refused(client, "toc_root")
    assert "inner detail" not in message
    assert "toc_root failed unexpectedly" in message
    assert "inner detail" in caplog.text


async def test_resources_are_markdown_and_take_ids_plain_or_encoded(settings: Settings) -> None:
    async with connected(settings) as client:
        assert "table of contents" in (await read(client, "memory://toc")).text
        for node_id in ("toc:day:2026-10-26", "toc:year:2026@tidepool-web"):
            plain = await read(client, f"memory://node/{node_id}")
            encoded = await read(client, f"memory://node/{quote(node_id, safe='')}")
            assert plain.text.startswith(node_id)
            assert plain.text == encoded.text
            assert plain.mime_type == "text/markdown"
        grip = GRIP.search((await read(client, "memory://node/toc:day:2026-10-26")).text)
        assert grip
        assert "tidepool-api-07" in (await read(client, f"memory://grip/{grip[0]}")).text
        assert "tidepool-api-07" in (await read(client, "memory://session/tidepool-api-07")).text


async def test_the_status_resource_is_json(settings: Settings) -> None:
    async with connected(settings) as client:
        document = await read(client, "memory://status")
        assert document.mime_type == "application/json"
        assert json.loads(document.text)["events"] == 239


@pytest.mark.parametrize("uri", ["node/toc:day:1999-01-01", "node/x", "grip/x", "session/none", "nothing"])
async def test_an_unknown_resource_is_reported_as_such(settings: Settings, uri: str) -> None:
    async with connected(settings) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"memory://{uri}")
        assert caught.value.error.code == -32602


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("recall", {"topic": "the booking lock"}, ["the booking lock", "teleport", "expand_grip"]),
        ("catch_up", {"when": "last week"}, ["browse_time", 'when="last week"', "get_node", "expand_grip"]),
        (
            "resummarize",
            {"session": "tidepool-api-07"},
            ["tidepool-api-07", "memory://session/tidepool-api-07", "expand_grip", "call remember"],
        ),
    ],
)
async def test_prompts_name_the_calls_in_their_order(
    settings: Settings, name: str, arguments: dict[str, str], parts: list[str]
) -> None:
    async with connected(settings) as client:
        (message,) = (await client.get_prompt(name, arguments)).messages
        assert message.role == "user"
        assert isinstance(message.content, TextContent)
        places = [message.content.text.find(part) for part in parts]
        assert -1 not in places
        assert places == sorted(places)


async def test_a_prompt_names_a_session_as_its_resource_is_called(settings: Settings) -> None:
    async with open_app(settings) as app:
        await tell(app, [spoken("We keep the old port.", "2026-10-30T09:00:00Z", session="a b:1")])
    async with connected(settings) as client:
        (message,) = (await client.get_prompt("resummarize", {"session": "a b:1"})).messages
        assert isinstance(message.content, TextContent)
        assert "memory://session/a%20b:1" in message.content.text


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("resummarize", {"session": "zzz"}, "There is no session 'zzz'"),
        ("resummarize", {}, "resummarize needs the argument session"),
        ("recall", {"topic": " "}, "recall needs the argument topic"),
        ("catch_up", None, "catch_up needs the argument when"),
        ("nothing", {}, "Known: recall, catch_up, resummarize"),
    ],
)
async def test_a_prompt_that_cannot_be_made_says_why_and_leaves_no_trace_in_the_log(
    settings: Settings,
    name: str,
    arguments: dict[str, str] | None,
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected(settings) as client:
        with pytest.raises(MCPError, match=told) as caught:
            await client.get_prompt(name, arguments)
        assert caught.value.error.code == -32602
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("limit", [0, -3])
async def test_a_limit_that_allows_nothing_is_refused(settings: Settings, limit: int) -> None:
    async with connected(settings) as client:
        assert "limit must be from 1 to 50" in await refused(client, "teleport", query="refresh tokens", limit=limit)


async def test_the_first_question_may_come_before_the_memory_is_open(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshake is answered while opening hangs; the question is answered once it does not."""
    gate, real, answers = threading.Event(), opening._prepare, []

    def held_up() -> opening.Opener:
        gate.wait(30)
        return real()

    monkeypatch.setattr(opening, "_prepare", held_up)
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
            await import_files(other.log, [(ADAPTERS["jsonl"], HISTORY)], other.intaker)
        answer = ""
        while "toc:year:2026" not in answer:
            answer = await ask(client, "toc_root")


async def test_a_server_can_be_served_again_after_its_client_left(settings: Settings) -> None:
    server = build_server(Memory(settings))
    for _ in range(2):
        with anyio.fail_after(30):
            async with Client(server) as client:
                assert "toc:year:2026" in await ask(client, "toc_root")
