"""When a record is made: every branch of the decision, and where a session stands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.domain.compaction import (
    DEFAULT,
    CompactionRules,
    Decision,
    History,
    Turn,
    Usage,
    at_least,
    context_length,
    decide,
    measure,
    parse_table,
    shorter_tail,
    tail_start,
)
from mcp_memory.domain.events import EventType
from mcp_memory.domain.records import Body, Record

RULES = CompactionRules()
FULL = Usage(90, 100)
LOW = Usage(50, 100)
OVER = Usage(100, 100)


def long(**changes: object) -> History:
    """A session of twenty messages, none of them covered."""
    facts: dict[str, object] = {"messages": 20, "uncovered": 20, "since_last": 20}
    return History(**(facts | changes))  # type: ignore[arg-type]


CASES = [
    ("the first crossing acts", RULES, long(), FULL, Decision(True, "trigger")),
    ("exactly at the trigger", RULES, long(), Usage(80, 100), Decision(True, "trigger")),
    ("just below it", RULES, long(), Usage(79, 100), Decision(False, "below trigger")),
    ("switched off", CompactionRules(enabled=False), long(), OVER, Decision(False, "disabled")),
    ("too few messages", RULES, long(messages=11, uncovered=11), FULL, Decision(False, "too few messages")),
    ("the twelfth is enough", RULES, long(messages=12, uncovered=12), FULL, Decision(True, "trigger")),
    ("the tail alone is left", RULES, long(uncovered=2), OVER, Decision(False, "nothing new")),
    ("cooldown", RULES, long(depth=1, since_last=3), FULL, Decision(False, "cooldown")),
    ("after the cooldown", RULES, long(depth=1, since_last=4), FULL, Decision(True, "trigger")),
    ("not re-armed", RULES, long(depth=1, since_last=4, armed=False), FULL, Decision(False, "not re-armed")),
    ("re-armed by many messages", RULES, long(depth=1, since_last=12, armed=False), FULL, Decision(True, "trigger")),
    ("depth limit", RULES, long(depth=3), FULL, Decision(False, "depth limit")),
    ("emergency ignores the minimum", RULES, long(messages=4, uncovered=4), OVER, Decision(True, "emergency")),
    (
        "emergency ignores cooldown and arming",
        RULES,
        long(depth=1, since_last=0, armed=False),
        OVER,
        Decision(True, "emergency"),
    ),
    ("emergency refreshes at the limit", RULES, long(depth=3), OVER, Decision(True, "emergency", refresh=True)),
    ("the client is about to forget", RULES, long(asked="client"), LOW, Decision(True, "client")),
    ("the client, at the limit", RULES, long(asked="client", depth=3), LOW, Decision(True, "client", refresh=True)),
    (
        "the client has just been served",
        RULES,
        long(asked="client", depth=1, since_last=3),
        LOW,
        Decision(False, "cooldown"),
    ),
    ("the user forces", RULES, long(asked="user", depth=1, since_last=0), LOW, Decision(True, "forced")),
    ("the user forces at the limit", RULES, long(asked="user", depth=3), LOW, Decision(True, "forced", refresh=True)),
    (
        "the user forces though it is off",
        CompactionRules(enabled=False),
        long(asked="user"),
        LOW,
        Decision(True, "forced"),
    ),
    ("nothing to force", RULES, long(asked="user", uncovered=0), LOW, Decision(False, "nothing new")),
    (
        "refresh by cadence",
        CompactionRules(refresh_after_messages=20),
        long(depth=1),
        LOW,
        Decision(True, "refresh"),
    ),
    (
        "cadence at the limit takes the last one's place",
        CompactionRules(refresh_after_messages=20),
        long(depth=3),
        LOW,
        Decision(True, "refresh", refresh=True),
    ),
    (
        "cadence does not make the first record",
        CompactionRules(refresh_after_messages=20),
        long(),
        LOW,
        Decision(False, "below trigger"),
    ),
    (
        "cadence not reached",
        CompactionRules(refresh_after_messages=21),
        long(depth=1),
        LOW,
        Decision(False, "below trigger"),
    ),
]


@pytest.mark.parametrize(
    ("rules", "history", "usage", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_decision(rules: CompactionRules, history: History, usage: Usage, expected: Decision) -> None:
    assert decide(rules, history, usage) == expected


def turn(number: int, kind: EventType = EventType.USER_MESSAGE, tokens: int = 10, **more: object) -> Turn:
    return Turn(number, number * 1_000, kind, tokens, **more)  # type: ignore[arg-type]


def last(seen: int = 0, **changes: int) -> Record:
    before = Record(
        key=b"",
        timestamp_ms=0,
        depth=0,
        parent_id=None,
        body=Body(""),
        event_ids=(),
        tokens=30,
        written_by="extractive",
    )
    facts = {"tokens_after": 40, "window": 1_000, "messages": 9} | changes
    return replace(before, seen=(seen * 1_000, seen), **facts)  # type: ignore[arg-type]


def test_without_the_clients_word_usage_is_the_record_and_all_after_it() -> None:
    turns = [turn(1), turn(2, EventType.TOOL_RESULT, 500), turn(3)]
    history, usage = measure(RULES, turns, None, 0)
    assert (usage.tokens, usage.window) == (520, 200_000)
    assert (history.messages, history.uncovered, history.since_last) == (2, 2, 2)
    history, usage = measure(RULES, turns, last(seen=1), 1)
    assert (usage.tokens, usage.window) == (550, 1_000)
    assert (history.messages, history.uncovered, history.since_last) == (11, 2, 1)


def test_the_clients_word_wins_and_what_came_after_is_added() -> None:
    turns = [turn(1), turn(2, EventType.ASSISTANT_MESSAGE, usage=150_000, model="claude-opus"), turn(3, tokens=70)]
    assert measure(RULES, turns, None, 0)[1] == Usage(150_070, 200_000)


def test_after_the_clients_own_compaction_only_its_summary_is_left() -> None:
    told = turn(1, EventType.ASSISTANT_MESSAGE, usage=190_000)
    turns = [told, turn(2, EventType.COMPACTION, 900), turn(3)]
    assert measure(RULES, turns, None, 0)[1].tokens == 910


def test_what_a_client_could_send_fits_its_window() -> None:
    turns = [turn(1, EventType.ASSISTANT_MESSAGE, usage=350_000, model="claude-opus")]
    usage = measure(RULES, turns, None, 0)[1]
    assert usage.window == 400_000
    assert usage.ratio < 1


def test_a_table_names_the_window_of_a_small_model() -> None:
    turns = [turn(1, EventType.ASSISTANT_MESSAGE, model="Local/tiny-7b-q4")]
    assert measure(RULES, turns, None, 0, table={"tiny-7b": 2_048})[1].window == 2_048


def test_low_usage_since_the_last_record_arms_again() -> None:
    before = turn(1, EventType.ASSISTANT_MESSAGE, usage=100)
    high, low = (turn(n, EventType.ASSISTANT_MESSAGE, usage=u) for n, u in ((2, 900), (3, 650)))
    assert not measure(RULES, [before, high], last(seen=1), 1)[0].armed
    assert measure(RULES, [before, low], last(seen=1), 1)[0].armed


def test_without_the_clients_word_a_record_that_made_room_arms_again() -> None:
    assert measure(RULES, [turn(1)], last(tokens_after=699), 1)[0].armed
    assert not measure(RULES, [turn(1)], last(tokens_after=700), 1)[0].armed


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 40), st.integers(0, 50))
def test_message_counts_are_never_negative(kinds: list[bool], seen: int, messages: int) -> None:
    turns = [turn(n, EventType.USER_MESSAGE if said else EventType.TOOL_RESULT) for n, said in enumerate(kinds, 1)]
    history, usage = measure(RULES, turns, last(seen=seen, messages=messages), 1)
    assert history.messages >= history.uncovered >= history.since_last >= 0
    assert usage.tokens >= 0


def test_the_tail_begins_with_a_message_and_takes_its_tools_along() -> None:
    kinds = [EventType.USER_MESSAGE, EventType.TOOL_RESULT, EventType.USER_MESSAGE, EventType.TOOL_RESULT]
    turns = [turn(number, kind) for number, kind in enumerate(kinds, 1)]
    assert tail_start(turns, 1) == 2
    assert tail_start(turns, 6) == 2  # a message is always left to compress
    assert tail_start(turns[:2], 6) == 2  # the only message is compressed whole
    assert tail_start(turns, 0) == 4


@pytest.mark.parametrize(("room", "expected"), [(10_000, 5), (60, 4), (50, 3), (31, 2), (5, 2)])
def test_the_tail_shrinks_until_it_fits_and_never_below_two(room: int, expected: int) -> None:
    turns = [turn(number) for number in range(1, 13)]
    assert shorter_tail(turns, 6, record_tokens=10, room=room) == expected


@pytest.mark.parametrize(
    ("model", "length"),
    [
        ("claude-opus-4-5-20251101", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("gpt-4", 8_192),
        ("gpt-4o-mini", 128_000),
        ("gpt-4-32k-0613", 32_768),
        ("o1-preview", 200_000),
        ("TheBloke/TinyLlama-1.1B", 2_048),
        ("microsoft/phi-2", 2_048),
        ("meta-llama/Llama-3.1-8B", 131_072),
        ("meta-llama/Llama-3-8B", 8_192),
        ("demo1", DEFAULT),
        ("", DEFAULT),
    ],
)
def test_the_longest_known_name_decides(model: str, length: int) -> None:
    assert context_length(model) == length


def test_the_users_table_wins() -> None:
    assert context_length("claude-opus", {"opus": 1_000}) == 1_000


@pytest.mark.parametrize(("used", "window"), [(10, 100), (100, 100), (250_000, 400_000), (99_000_000, 99_000_000)])
def test_a_window_holds_what_was_sent(used: int, window: int) -> None:
    assert at_least(100, used) == window


def test_a_table_is_read_from_text() -> None:
    assert parse_table("a=2048, b/c:7b = 4096") == {"a": 2_048, "b/c:7b": 4_096}
    assert parse_table("") == {}


@pytest.mark.parametrize("text", ["a", "a=", "=2048", "a=many", "a=12"])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_table(text)
