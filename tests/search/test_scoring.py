"""What a message is worth: whose words it holds, whether it asks or answers, and how far its score can be trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_memory.domain.terms import Message, Pool
from mcp_memory.search.scoring import Match, closing, scores
from tests.support import memory, said, tell


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
