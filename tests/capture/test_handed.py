"""The hook notes the brief that it prints, and in which session our own tools were called."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.capture.inbox import named_ids

if TYPE_CHECKING:
    from tests.capture.conftest import Machine

BRIEF = (
    "toc:day:2026-11-13 Friday: mails · s:0a76fbfe\n"
    "- Decided: one queue grip:1794557420274:01M79ZA8QJR3DTZKWRNE07EWGV\n"
    "- Open: grip:CFQ9RN86 in toc:day:2026-11-13"
)
IDS = ["toc:day:2026-11-13", "session:0a76fbfe", "grip:1794557420274:01M79ZA8QJR3DTZKWRNE07EWGV", "grip:CFQ9RN86"]


def answer(machine: Machine, kind: str, *, session: str = "", seconds_ago: int = 1, root: str | None = None) -> None:
    """What the server notes of a call."""
    at_ms = round((time.time() - seconds_ago) * 1000)
    place = str(machine.project.resolve()) if root is None else root
    with closing(sqlite3.connect(machine.database)) as database, database:
        sql = "INSERT INTO handed (at_ms, kind, session, root) VALUES (?, ?, ?, ?)"
        database.execute(sql, (at_ms, kind, session, place))


def sessions(machine: Machine) -> list[str]:
    return [row["session"] for row in machine.handed()]


def test_the_brief_that_is_printed_is_noted_with_its_session_and_what_it_names(machine: Machine) -> None:
    machine.make_database()
    machine.say(BRIEF)
    before = round(time.time() * 1000)
    assert b"Decided" in machine.hook(machine.payload("SessionStart", source="startup")).stdout
    (row,) = machine.handed()
    assert before <= row["at_ms"] <= round(time.time() * 1000)
    assert (row["kind"], row["client"], row["session"], row["asked"]) == ("brief", "claude-code", "s1", "startup")
    assert (row["root"], row["label"]) == (str(machine.project.resolve()), "")
    assert json.loads(row["ids"]) == IDS
    assert (row["tokens"], row["opened_ms"]) == (len(BRIEF.encode()) // 4, None)


def test_nothing_is_noted_where_nothing_is_printed(machine: Machine) -> None:
    machine.make_database()
    machine.hook(machine.payload("SessionStart"))
    machine.say(BRIEF)
    machine.hook(machine.payload("UserPromptSubmit", prompt="x"))
    assert machine.handed() == []


@pytest.mark.parametrize("by", ["file", "variable"])
def test_nothing_is_noted_if_nothing_is_to_be_kept(machine: Machine, by: str) -> None:
    machine.make_database()
    machine.say(BRIEF)
    answer(machine, "teleport")
    env = {"MCP_MEMORY_RECALL_KEEP_DAYS": "0"} if by == "variable" else {}
    if by == "file":
        (machine.home / "config.toml").write_text("[recall]\nkeep_days = 0\n")
    assert b"Decided" in machine.hook(machine.payload("SessionStart"), **env).stdout
    machine.hook(machine.payload("PostToolUse", tool_name="mcp__memory__teleport"), **env)
    assert sessions(machine) == [""]


@pytest.mark.parametrize("version", [1, 2])
def test_an_inbox_of_a_version_before_takes_events_and_gives_briefs(machine: Machine, version: int) -> None:
    machine.make_database(version=version)
    machine.say(BRIEF)
    done = machine.hook(machine.payload("SessionStart"))
    assert (b"Decided" in done.stdout, done.stderr) == (True, b"")
    done = machine.hook(machine.payload("PostToolUse", tool_name="mcp__memory__teleport"))
    assert (done.stdout, done.stderr) == (b"", b"")
    assert len(machine.rows()) == 1


def test_the_brief_is_printed_although_it_cannot_be_noted(machine: Machine) -> None:
    machine.make_database()
    machine.say(BRIEF)
    with closing(sqlite3.connect(machine.database)) as database, database:
        database.execute("CREATE TRIGGER full BEFORE INSERT ON handed BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    done = machine.hook(machine.payload("SessionStart"))
    assert (b"Decided" in done.stdout, done.stderr) == (True, b"")
    assert len(machine.rows()) == 1


def test_the_brief_is_printed_while_another_program_writes(machine: Machine) -> None:
    machine.make_database()
    machine.say(BRIEF)
    with closing(sqlite3.connect(machine.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert b"Decided" in machine.hook(machine.payload("SessionStart")).stdout
    assert (machine.handed(), len(machine.spooled())) == ([], 1)


CALLS: list[dict[str, Any]] = [
    {"tool_name": "mcp__memory__teleport"},
    {"tool_name": "mcp__plugin_mcp-memory_memory__teleport"},
    {"tool_name": "mcp_memory_teleport", "mcp_context": {"server_name": "memory"}, "hook_event_name": "AfterTool"},
    {"tool_name": "MCP:teleport", "cursor_version": "2.1", "hook_event_name": "postToolUse"},
]


@pytest.mark.parametrize("fields", CALLS, ids=lambda fields: str(fields["tool_name"]))
def test_the_session_of_a_call_is_noted_with_its_answer(machine: Machine, fields: dict[str, Any]) -> None:
    machine.make_database()
    answer(machine, "teleport")
    answer(machine, "get_node")
    done = machine.hook({**machine.payload("PostToolUse", tool_response="toc:day:2026-01-01"), **fields})
    assert (done.stdout, done.stderr) == (b"", b"")
    assert sessions(machine) == ["s1", ""]
    assert machine.rows() == []


def test_the_session_goes_to_the_newest_answer_without_one_and_first_to_one_of_its_project(machine: Machine) -> None:
    machine.make_database()
    answer(machine, "teleport", seconds_ago=3)
    answer(machine, "teleport")
    answer(machine, "teleport", root="/elsewhere")
    answer(machine, "teleport", session="other")
    call = machine.payload("PostToolUse", tool_name="mcp__memory__teleport")
    machine.hook(call)
    assert sessions(machine) == ["", "s1", "", "other"]
    machine.hook(call)
    machine.hook(call)
    assert sessions(machine) == ["s1", "s1", "s1", "other"]


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_name": "mcp__memory__teleport", "hook_event_name": "PostToolUseFailure"},
        {"tool_name": "mcp__memory__remember"},
        {"tool_name": "mcp__memory__teleport", "session_id": None},
        {"tool_name": "mcp__memory__teleport", "session_id": {"a": 1}},
    ],
)
def test_a_call_that_failed_or_tells_no_session_changes_nothing(machine: Machine, fields: dict[str, Any]) -> None:
    machine.make_database()
    answer(machine, "teleport")
    machine.hook({**machine.payload("PostToolUse"), **fields})
    assert sessions(machine) == [""]


def test_an_answer_of_more_than_a_minute_ago_is_of_another_call(machine: Machine) -> None:
    machine.make_database()
    answer(machine, "teleport", seconds_ago=120)
    machine.hook(machine.payload("PostToolUse", tool_name="mcp__memory__teleport"))
    assert sessions(machine) == [""]


def test_ids_are_those_that_an_answer_prints_each_once_and_at_most_twenty() -> None:
    assert named_ids(BRIEF) == IDS
    assert named_ids("hours · session tidepool-api-02 · toc:segment:2026-10-12:01M4QF8RH2@web, a session of mine") == [
        "session:tidepool-api-02",
        "toc:segment:2026-10-12:01M4QF8RH2@web",
    ]
    assert named_ids("grip:short egrip:CFQ9RN86 toc:never:2026") == []
    assert len(named_ids(" ".join(f"toc:year:{year}" for year in range(2000, 2050)))) == 20
