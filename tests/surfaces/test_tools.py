"""The MCP tools as an agent uses them: from the root to the exact words, within budgets, and with clear errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from mcp_memory.config import Settings
from mcp_memory.domain.budget import ORDERS
from mcp_memory.domain.nodes import NOTE_KINDS, parse_grip_id, short_grip_id
from mcp_memory.domain.toc import Level
from mcp_memory.models.tokens import count
from mcp_memory.navigate.answers import Answers
from mcp_memory.search.question import KINDS
from tests.surfaces.client import GRIP, Era, ask, connected, refused

pytestmark = pytest.mark.anyio

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
    ("session_context", {"session_id": "tidepool-api-07"}),
]


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
        answer = await ask(client, "remember", text="Releases of the quokka service wait for Thursday.")
        grip = GRIP.search(answer)
        assert grip
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
        ("get_node", {"node_id": "the day it broke"}, ["not a node id", "toc_root"]),
        ("get_node", {"node_id": "toc:year:2026", "cursor": "page 2"}, ["not a cursor"]),
        ("expand_grip", {"grip_id": "grip:1:01HN4QXKN6YWXVKZ3JMHP4BCDE"}, ["no grip", "get_node", "teleport"]),
        ("expand_grip", {"grip_id": "12"}, ["not a grip id", "get_node"]),
        ("browse_time", {"when": "when pigs fly"}, ["not a time", "last week", "teleport"]),
        ("teleport", {"query": "x", "kind": "page"}, ["'page' is not a kind", "segment"]),
        ("teleport", {"query": "x", "project": "atlantis"}, ["atlantis", "tidepool-api", "'*' for all"]),
        ("remember", {"text": "  "}, ["empty"]),
        ("remember", {"text": "x", "kind": "poem"}, ["'poem' is not a kind", "note, decision, outcome, rule, open"]),
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


async def test_the_next_step_is_told_whatever_was_asked_for(settings: Settings) -> None:
    async with connected(settings) as client:
        for project in ("atlantis", "teleport-client"):
            message = await refused(client, "toc_root", project=project)
            assert message.endswith("toc_root() shows what there is, teleport(query) finds terms.")


async def test_an_error_does_not_repeat_a_whole_text(settings: Settings) -> None:
    async with connected(settings, "auto") as client:
        message = await refused(client, "toc_root", project="x\n" * 50_000)
        assert len(message) < 2_500
        assert "'*' for all" in message


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


@pytest.mark.parametrize("limit", [0, -3])
async def test_a_limit_that_allows_nothing_is_refused(settings: Settings, limit: int) -> None:
    async with connected(settings) as client:
        assert "limit must be from 1 to 50" in await refused(client, "teleport", query="refresh tokens", limit=limit)


@pytest.mark.parametrize("budget", [70, 100])
async def test_a_table_of_contents_that_is_cut_names_the_call_that_shows_the_rest(
    settings: Settings, budget: int
) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "toc_root", budget_tokens=budget)
        rest = re.search(r'^… \d+ more: get_node\("(toc:year:\d+)"\), or more budget_tokens$', answer, re.M)
        assert rest, answer
        assert "toc:month:" in await ask(client, "get_node", node_id=rest[1])


@pytest.mark.parametrize("budget", [60, 70, 80])
async def test_the_best_hit_is_shown_in_any_budget_for_an_answer(settings: Settings, budget: int) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "teleport", query="refresh tokens", budget_tokens=budget)
        assert re.search(r"^1\. .*grip:\w+", answer, re.M), answer


@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS)
async def test_a_budget_that_is_too_small_names_the_least(
    settings: Settings, tool: str, arguments: dict[str, Any]
) -> None:
    async with connected(settings) as client:
        answer = await ask(client, tool, **arguments, budget_tokens=18)
        least = re.search(r"Too small: budget_tokens=(\d+) is the least\.", answer)
        assert least, answer
        assert "Too small" not in await ask(client, tool, **arguments, budget_tokens=int(least[1]))


@pytest.mark.parametrize(("tool", "arguments"), QUESTIONS)
async def test_an_empty_argument_is_one_that_was_not_given(
    settings: Settings, tool: str, arguments: dict[str, Any]
) -> None:
    """Models pass empty strings for what they do not want to name."""
    async with connected(settings) as client:
        schema = next(each.input_schema for each in (await client.list_tools()).tools if each.name == tool)
        texts = [name for name, field in schema["properties"].items() if field["type"] == "string"]
        empty = {name: "" for name in texts if name not in {*arguments, *schema.get("required", ())}}
        assert await ask(client, tool, **arguments, **empty) == await ask(client, tool, **arguments)


@pytest.mark.parametrize(
    ("name", "node_id"),
    [
        ("2026-10-26", "toc:day:2026-10-26"),
        ("this week", "toc:week:2026-W44"),
        ("2026-10", "toc:month:2026-10"),
        ("2026-W44@tidepool-web", "toc:week:2026-W44@tidepool-web"),
    ],
)
async def test_a_node_is_opened_by_its_date_or_time(settings: Settings, name: str, node_id: str) -> None:
    async with connected(settings) as client:
        assert await ask(client, "get_node", node_id=name) == await ask(client, "get_node", node_id=node_id)


async def test_a_time_that_is_no_period_leads_to_browse_time(settings: Settings) -> None:
    async with connected(settings) as client:
        message = await refused(client, "get_node", node_id="last 3 days")
        assert "browse_time('last 3 days')" in message
        assert "`mcp-memory" not in message
        assert "Ids look like" in await refused(client, "get_node", node_id="the day we broke it")


async def test_a_grip_is_opened_and_erased_by_its_short_id_or_its_event(settings: Settings) -> None:
    async with connected(settings) as client:
        grip = GRIP.search(await ask(client, "teleport", query="refresh tokens"))
        assert grip
        event = grip[0].rpartition(":")[2]
        opened = await ask(client, "expand_grip", grip_id=grip[0])
        for name in (event, event[10:18], event[10:18].lower(), f"grip:{event[10:18]}", grip[0].removeprefix("grip:")):
            words = await ask(client, "expand_grip", grip_id=name)
            assert words.splitlines()[1:-1] == opened.splitlines()[1:-1], name
            assert await ask(client, "forget", grip_id=name) == await ask(client, "forget", grip_id=grip[0])


async def test_a_session_is_named_by_either_argument_and_one_is_published(settings: Settings) -> None:
    async with connected(settings) as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
        for tool in ("session_context", "forget"):
            assert "session_id" in tools[tool]
            assert "session" not in tools[tool]
            by_id = await ask(client, tool, session_id="tidepool-api-07")
            assert await ask(client, tool, session="tidepool-api-07") == by_id
            both = {"session": "tidepool-api-07", "session_id": "tidepool-api-07"}
            assert "no argument 'session'" in await refused(client, tool, **both)
        assert "no argument 'session'" in await refused(client, "toc_root", session="tidepool-api-07")


async def test_arguments_with_fixed_values_publish_them(settings: Settings) -> None:
    async with connected(settings) as client:
        tools = {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}
    published = {
        (tool, name): set(field.get("enum") or field["items"]["enum"])
        for tool, fields in tools.items()
        for name, field in fields.items()
        if "enum" in field or "enum" in field.get("items", {})
    }
    assert published == {
        ("teleport", "kind"): {*KINDS},
        ("build_context", "order"): {*ORDERS},
        ("build_context", "levels"): {level.label for level in Level},
        ("remember", "kind"): {*NOTE_KINDS},
    }


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_unknown_tool_is_an_error_of_the_protocol_that_names_the_known(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        with pytest.raises(MCPError, match=r"^Unknown tool: recollect\. Known: toc_root, .*teleport") as caught:
            await client.call_tool("recollect", {"query": "x"})
        assert caught.value.error.code == -32602


async def test_what_is_to_be_forgotten_may_come_with_empty_others(settings: Settings) -> None:
    async with connected(settings) as client:
        told = await ask(client, "forget", session_id="tidepool-api-07", grip_id="", match="")
        assert told.startswith("Would forget")
