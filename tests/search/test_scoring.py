"""What a message is worth: whose words it holds, whether it asks or answers, and how far its score can be trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.domain.terms import Message, Pool
from mcp_memory.search.scoring import Match, closing, name_end, only_asks, scores, speakers
from tests.support import memory, said, tell


def pool(*texts: str, role: str = "user") -> Pool:
    messages = tuple(Message(number, 1, number, role, text) for number, text in enumerate(texts))
    return Pool(messages, len(messages), {}, {}, len(messages))


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Ann: see you then", "see you then"),
        ("Mary Ann: see you then", "see you then"),
        ("Élodie: à demain", "à demain"),
        ("see you: then", "see you: then"),
        ("12: see", "12: see"),
        (": see", ": see"),
        ("Ann:see", "Ann:see"),
        ("", ""),
        ("This Is A Longer Heading: see", "This Is A Longer Heading: see"),
    ],
)
def test_a_speakers_name_ends_where_the_words_begin(text: str, rest: str) -> None:
    assert text[name_end(text) :] == rest


def test_names_are_known_where_most_messages_begin_with_one() -> None:
    assert speakers(pool("Ann: hello", "Bob: hi Ann", "a line")) == {"ann", "bob"}
    assert not speakers(pool("Ann: hello", "Done. All tests pass.", "a line"))
    assert not speakers(pool("Bash: ls", "Edit: a.py", role="tool"))
    assert not speakers(pool())


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Which colour shall it have?", True),
        ("Ann: That is great! Where was it?", True),
        ("どこですか？", True),
        ("Where did I put it?", False),
        ("We moved last week. Do you know a baker?", False),
        ("Ich suche ein Rad. Kennst du eins?", False),
        ("It is teal.", False),
        ("The cache was too small, so every read went to the disk. " * 6 + "Shall it grow?", False),
    ],
)
def test_a_message_only_asks_if_it_ends_with_a_question_and_tells_nothing_of_its_speaker(text: str, asks: bool) -> None:
    assert only_asks(Message(1, 1, 1, "assistant", text)) is asks


def test_what_a_user_asks_an_agent_leads_to_the_answer_and_so_does_not_only_ask() -> None:
    assert not only_asks(Message(1, 1, 1, "user", "Which colour shall it have?"))
    assert only_asks(Message(1, 1, 1, "user", "Bob: Which colour shall it have?"))
    assert not only_asks(Message(1, 1, 1, "tool", "Bash: continue?"))


@pytest.mark.anyio
async def test_an_answer_comes_before_its_equals_and_before_a_question_with_the_same_words(tmp_path: Path) -> None:
    lines = [
        said("Ann: Did the banner get its colour?", "2026-03-02T10:00:00Z", session="a"),
        said("The banner got its colour, teal.", "2026-03-02T10:01:00Z", session="a", role="assistant"),
        said("The banner got its colour, teal.", "2026-03-03T10:01:00Z", session="b", role="assistant"),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        found, _ = await app.answers.search("banner colour", "*")
        assert [(hit.session_id, hit.role) for hit in found.hits] == [("a", "assistant"), ("b", "assistant")]
        assert [line.role for line in found.hits[0].lines] == ["user"]


@pytest.mark.anyio
async def test_a_named_person_is_found_by_what_they_said_before_what_was_said_to_them(tmp_path: Path) -> None:
    lines = [
        said(
            "Ann: The sailing trip to the islands took nine days, and the wind was fine all the way.",
            "2026-03-02T10:00:00Z",
            session="a",
        ),
        said("Bob: Ann, a sailing trip is fine!", "2026-03-03T10:00:00Z", session="b"),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        found, _ = await app.answers.search("how was Ann's sailing trip", "*")
        assert [hit.session_id for hit in found.hits] == ["a", "b"]


def test_the_last_of_several_messages_by_an_agent_sums_up_unless_what_stands_beside_it_is_not_known() -> None:
    roles = ("user", "assistant", "assistant")
    messages = {number: Message(number, 1, number, role, "text") for number, role in enumerate(roles)}
    beside = {1: (0, 2), 2: (1, 0)}
    assert closing(Pool(tuple(messages.values()), 3, beside, {}, 3), messages) == {2}
    assert closing(Pool(tuple(messages.values()), 3, {1: (0,)}, {}, 3), messages) == set()
    assert closing(Pool(tuple(messages.values()), 3, {2: (1, 0, 7)}, {}, 3), messages) == set()


@pytest.mark.anyio
async def test_what_sums_up_a_session_comes_before_the_steps_that_led_to_it(tmp_path: Path) -> None:
    lines = [
        said("Make the parser faster.", "2026-03-02T10:00:00Z"),
        said("I rewrote the tokenizer loop.", "2026-03-02T10:02:00Z", role="assistant"),
        said("Now it is fast: the tokenizer has no loop any more.", "2026-03-02T10:03:00Z", role="assistant"),
    ]
    async with memory(tmp_path) as app:
        await tell(app, lines)
        found, _ = await app.answers.search("tokenizer loop", "*")
        assert found.hits[0].source_ids[0] == "s1/2026-03-02T10:03:00Z/assistant"


def weighed(value: float, *near: int, alike: int | None = None) -> Match:
    others = frozenset(() if alike is None else (alike,))
    return Match(Message(1, 1, 1, "user", "text"), value, 0, frozenset(near), {}, others)


def ranked(*first: int, alike: int | None = None) -> list[Match]:
    return [weighed(9.0, *first, alike=alike), *(weighed(3.0 - 0.1 * place, 0) for place in range(12))]


def test_a_hit_that_stands_out_is_trusted_if_it_holds_the_question_in_several_words() -> None:
    assert scores(ranked(0, 1, 2), [4.0, 2.0, 2.0])[0] >= 0.5


def test_a_hit_that_holds_one_word_of_several_is_not_trusted_however_rare_the_word_is() -> None:
    assert scores(ranked(0), [4.0, 2.0, 2.0])[0] < 0.5 <= scores(ranked(0), [4.0])[0]


def test_a_hit_is_not_trusted_that_lacks_the_words_which_memory_does_not_know() -> None:
    assert scores(ranked(0, 1), [1.0, 2.0, 8.0])[0] < 0.5 <= scores(ranked(0, 1), [1.0, 5.0])[0]


def test_a_word_that_only_a_synonym_tells_does_not_make_two_of_one() -> None:
    rare = [4.0, 2.0]
    assert scores(ranked(0, 1, alike=1), rare)[0] < 0.5 <= scores(ranked(0, 1), rare)[0]


def test_a_hit_without_any_value_scores_nothing() -> None:
    assert scores([weighed(0.0)], [1.0]) == [0.0]
    assert scores([], [1.0]) == []
