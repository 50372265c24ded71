"""Generic import, one event per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcp_memory.clients import CLIENTS
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.clients.port import Reading
from mcp_memory.domain.events import Captured, EventType, Role, parse_ulid, ulid

if TYPE_CHECKING:
    from tests.clients.conftest import Transcript

GOOD = {"session_id": "s1", "timestamp": "2026-03-01T10:00:00+01:00", "role": "user", "text": "Mend the fence."}


def test_a_line_with_everything_is_taken_as_it_is(generic: Transcript) -> None:
    more = {"event_type": "compaction", "project": "farm", "source_id": "n7", "metadata": {"mood": "dry"}}
    (told,) = generic.write({**GOOD, **more}).events()
    assert told == Captured(
        client="jsonl",
        session_id="s1",
        source_key="id:n7",
        timestamp_ms=1772355600000,
        event_type=EventType.COMPACTION,
        role=Role.USER,
        text="Mend the fence.",
        source_ids=("n7",),
        metadata={"mood": "dry"},
        project="farm",
    )


@pytest.mark.parametrize(
    ("role", "event_type"),
    [
        ("user", "user_message"),
        ("assistant", "assistant_message"),
        ("tool", "tool_result"),
        ("system", "assistant_message"),
    ],
)
def test_the_type_follows_from_the_role(generic: Transcript, role: str, event_type: str) -> None:
    (event,) = generic.write({**GOOD, "role": role}).events()
    assert (event.role, event.event_type) == (role, event_type)


def test_without_a_source_id_the_words_and_their_time_are_the_key(generic: Transcript) -> None:
    later = {**GOOD, "timestamp": "2026-03-01T10:00:01+01:00"}
    one, same, other = generic.write(GOOD, {**GOOD, "project": "farm"}, later).events()
    assert one.source_key.startswith("line:")
    assert one.source_key == same.source_key != other.source_key
    assert one.source_ids == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"text": None}, "text is missing"),
        ({"text": "  "}, "text is empty"),
        ({"text": 7}, "text is not a string: 7"),
        ({"session_id": None}, "session_id is missing"),
        ({"timestamp": None}, "timestamp is missing"),
        ({"timestamp": "yesterday"}, "timestamp is not RFC 3339: 'yesterday'"),
        ({"timestamp": "2026-03-01"}, "timestamp is not RFC 3339: '2026-03-01'"),
        ({"role": "robot"}, "role must be one of user, assistant, tool, system, not 'robot'"),
        ({"role": []}, "role is not a string: []"),
        ({"metadata": []}, "metadata is not an object: []"),
        ({"project": 1}, "project is not a string: 1"),
        ({"source_id": {}}, "source_id is not a string: {}"),
    ],
)
def test_a_bad_line_says_what_is_wrong_and_the_good_ones_are_kept(
    generic: Transcript, change: dict[str, Any], reason: str
) -> None:
    generic.write(GOOD, {**GOOD, **change}, GOOD)
    assert len(generic.events()) == 2
    assert [(bad.line, bad.reason) for bad in generic.bad] == [(2, reason)]


def test_an_unknown_type_names_the_known_ones(generic: Transcript) -> None:
    assert generic.write({**GOOD, "event_type": "song"}).events() == []
    assert generic.bad[0].reason.startswith("event_type must be one of session_start, user_message, ")


def test_lines_that_are_no_objects_are_reported(generic: Transcript) -> None:
    assert len(generic.write("[1]", "garbage", "", GOOD).events()) == 1
    assert [bad.line for bad in generic.bad] == [1, 2]


def test_a_file_that_grew_is_read_on(generic: Transcript) -> None:
    assert len(generic.write(GOOD).events()) == 1
    assert [event.text for event in generic.write({**GOOD, "text": "Then the gate."}).events()] == ["Then the gate."]


def test_it_has_no_hooks() -> None:
    assert CLIENTS["jsonl"].hook({"session_id": "s1", "hook_event_name": "Stop"}, 1) == Reading(unknown=True)


EXPORTED = {
    **GOOD,
    "timestamp": "2026-03-02T09:15:00.000Z",
    "event_id": "01KJPX8NH0000G40R40M30E209",
    "client": "claude-code",
    "source_ids": ["a", "b"],
}


def test_a_line_of_an_export_is_the_same_event_again(generic: Transcript) -> None:
    ended = {**EXPORTED, "event_type": "session_end", "role": "system", "text": ""}
    told, end = generic.write(EXPORTED, ended).events()
    moment, key = parse_ulid(str(EXPORTED["event_id"]))
    assert (told.client, told.key, told.timestamp_ms, told.source_ids) == ("claude-code", key, moment, ("a", "b"))
    assert (end.event_type, end.text) == (EventType.SESSION_END, "")


@pytest.mark.parametrize(
    "change",
    [{"event_id": "evt-17"}, {"timestamp": "2026-03-02T09:15:01Z"}, {"client": "../x"}, {"client": 7}],
)
def test_an_id_of_another_system_is_none_of_ours(generic: Transcript, change: dict[str, Any]) -> None:
    (told,) = generic.write({**EXPORTED, **change}).events()
    assert (told.client, told.key) == ("jsonl", b"")


def test_a_line_of_an_export_with_bad_names_of_its_lines_is_reported(generic: Transcript) -> None:
    assert generic.write({**EXPORTED, "source_ids": [1]}).events() == []
    assert generic.bad[0].reason == "source_ids is not a list of names: [1]"


def test_an_exported_event_from_before_1970_is_the_same_event_again() -> None:
    line = {"client": "codex", "session_id": "s", "timestamp": "1969-07-20T20:17:40.000Z", "role": "user", "text": "a"}
    key = b"0123456789"
    told = event_of_line({**line, "event_id": ulid(0, key), "source_ids": []})
    assert (told.client, told.key) == ("codex", key)
