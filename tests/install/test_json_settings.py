"""Registering in JSON files: only ours is added, found, repaired and removed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.install import json_settings
from mcp_memory.install.catalog import EditError
from mcp_memory.install.json_settings import COMMENT, find, load, register, withdraw
from tests.install.documents import BROKEN, EMPTY, EXACT, LAUNCH, MOVED, wanted
from tests.support import fewer_examples

ALL = {**EXACT, **EMPTY}
CLIENTS = ["claude-code", "gemini", "cursor"]


def params(documents: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("text", list(documents.values()), ids=list(documents))


@pytest.mark.parametrize("client", CLIENTS)
@params(ALL)
def test_every_event_gets_one_hook_and_the_server_is_registered(text: str, client: str) -> None:
    found = find(register(text, wanted(client)))
    assert {event: len(commands) for event, commands in found.hooks.items()} == dict.fromkeys(wanted(client).hooks, 1)
    assert found.servers == [wanted(client).server]


@pytest.mark.parametrize("client", CLIENTS)
@params(ALL)
def test_registering_twice_changes_nothing(text: str, client: str) -> None:
    once = register(text, wanted(client))
    assert register(once, wanted(client)) == once


@pytest.mark.parametrize("client", ["claude-code", "gemini"])
@params(EXACT)
def test_withdrawing_gives_back_every_byte(text: str, client: str) -> None:
    assert withdraw(register(text, wanted(client)), load(text)) == text


@params(ALL)
def test_values_and_comments_of_others_stay(text: str) -> None:
    registered = register(text, wanted("claude-code"))
    for comment in COMMENT.findall(re.sub(r'"(?:\\.|[^"\\])*"', '""', text)):
        assert comment.rstrip() in registered
    withdrawn = withdraw(registered, load(text))
    assert load(withdrawn) == load(text)
    assert [c.strip() for c in COMMENT.findall(withdrawn)] == [c.strip() for c in COMMENT.findall(text)]


@params(EXACT)
def test_a_moved_installation_is_repaired_in_place(text: str) -> None:
    old = register(text, wanted("claude-code", LAUNCH))
    new = register(old, wanted("claude-code", MOVED))
    assert new == register(new, wanted("claude-code", MOVED))
    assert "/opt/" not in new
    assert "MCP_MEMORY_HOME" not in new
    assert find(new).servers == [{"type": "stdio", "command": "/new/bin/python", "args": ["-m", "mcp_memory", "serve"]}]
    assert withdraw(new, load(text)) == text


@params(BROKEN)
def test_a_file_that_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(EditError):
        register(text, wanted("claude-code"))


def test_new_text_follows_the_style_of_its_surroundings() -> None:
    registered = register('{\r\n\t"a": 1,\r\n}\r\n', wanted())
    assert "\n" not in registered.replace("\r\n", "")
    assert '\r\n\t"mcpServers": {\r\n\t\t"memory": {\r\n\t\t\t"command": ' in registered
    assert registered.endswith("},\r\n}\r\n")
    assert "\n" not in register('{"a": 1}', wanted())


def test_duplicates_and_events_no_longer_wanted_are_taken_out() -> None:
    hook = json.dumps({"matcher": "", "hooks": [{"type": "command", "command": LAUNCH.hook("gemini")}]})
    text = f'{{"hooks": {{"AfterAgent": [{hook}, {hook}], "PreCompress": [{hook}], "Mine": []}}}}'
    registered = register(text, wanted())
    assert {event: len(commands) for event, commands in find(registered).hooks.items()} == dict.fromkeys(
        wanted().hooks, 1
    )
    assert "PreCompress" not in load(registered)["hooks"]
    assert load(registered)["hooks"]["Mine"] == []


def test_our_hook_leaves_a_group_it_shares_and_the_others_stay() -> None:
    ours = {"type": "command", "command": LAUNCH.hook("gemini")}
    others = [{"type": "command", "command": "before"}, {"command": "after"}]
    group = {"matcher": "x", "hooks": [others[0], ours, others[1]]}
    withdrawn = load(withdraw(json.dumps({"hooks": {"AfterAgent": [group]}})))
    assert withdrawn["hooks"]["AfterAgent"][0]["hooks"] == others


def test_a_foreign_server_called_memory_is_left_alone_and_ours_takes_another_name() -> None:
    foreign = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}
    text = json.dumps({"mcpServers": {"memory": foreign}}, indent=2)
    registered = register(text, wanted())
    assert load(registered)["mcpServers"] == {"memory": foreign, "mcp-memory": wanted().server}
    assert withdraw(registered, load(text)) == text


def test_what_the_user_added_to_our_server_survives_a_repair() -> None:
    text = register("{}", wanted("claude-code", LAUNCH))
    text = json_settings.put(text, ("mcpServers", "memory", "env", "TZ"), "UTC")
    text = json_settings.put(text, ("mcpServers", "memory", "disabled"), True)
    entry = load(register(text, wanted("claude-code", MOVED)))["mcpServers"]["memory"]
    assert entry["env"] == {"TZ": "UTC"}
    assert entry["disabled"] is True
    assert entry["command"] == "/new/bin/python"


def test_the_last_of_repeated_names_is_the_one_that_is_edited() -> None:
    assert json_settings.put('{"a": 1, "a": 2}', ("a",), 3) == '{"a": 1, "a": 3}'


@pytest.mark.parametrize(
    ("text", "path", "rest"),
    [
        ('{"a": 1, "b": 2, "c": 3}', ("a",), '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ("b",), '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', ("c",), '{"a": 1, "b": 2}'),
        ('{"a": [1, 2, 3,]}', ("a", 2), '{"a": [1, 2,]}'),
        ('{\n  "a": 1, // one\n  "b": 2 }', ("b",), '{\n  "a": 1 // one\n   }'),
        ('{\n  "a": 1,\n  "b": 2, "c": 3\n}', ("b",), '{\n  "a": 1, "c": 3\n}'),
        ('{\n  // mine\n  "a": 1\n}', ("a",), "{\n  // mine\n}"),
        ('{"a": 1}', ("nothing",), '{"a": 1}'),
    ],
)
def test_removing_takes_the_right_comma(text: str, path: tuple[str | int, ...], rest: str) -> None:
    assert json_settings.remove(text, path) == rest
    load(rest)


def test_an_error_names_the_line_and_column() -> None:
    with pytest.raises(EditError, match="line 3, column 3: Expecting .,. delimiter"):
        load('{\n  "a": 1\n  "b": 2\n}')


def test_deep_nesting_is_refused_not_fatal() -> None:
    with pytest.raises(EditError, match="nested too deeply"):
        load("[" * 100_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
layouts = st.sampled_from([None, 0, 2, "\t"])


@fewer_examples(1 / 2)
@given(st.dictionaries(st.text(max_size=6), json_values, min_size=1, max_size=4), layouts, st.booleans())
def test_any_document_comes_back_byte_for_byte(document: dict[str, Any], indent: int | str | None, crlf: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=crlf)
    text = text.replace("\n", "\r\n") if crlf else text
    registered = register(text, wanted("claude-code"))
    assert {key: load(registered)[key] for key in document} == document
    assert withdraw(registered, document) == text
