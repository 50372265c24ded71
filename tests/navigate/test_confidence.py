"""What makes a hit trustworthy: how much of the question it holds, in how many words, and how far it stands out."""

from __future__ import annotations

from mcp_memory.domain.matches import Spot
from mcp_memory.search.confidence import scores
from mcp_memory.search.order import Weighed


def weighed(value: float, *near: int, alike: int | None = None) -> Weighed:
    others = frozenset(() if alike is None else (alike,))
    return Weighed(Spot(1, 1, 1, "user_message", "user", "text"), value, 0, frozenset(near), {}, others)


def ranked(*first: int, alike: int | None = None) -> list[Weighed]:
    return [weighed(9.0, *first, alike=alike), *(weighed(3.0 - 0.1 * place, 0) for place in range(12))]


def test_a_hit_that_stands_out_is_trusted_if_it_holds_the_question_in_several_words() -> None:
    assert scores(ranked(0, 1, 2), [4.0, 2.0, 2.0], 1)[0] >= 0.5


def test_a_hit_that_holds_one_word_of_several_is_not_trusted_however_rare_the_word_is() -> None:
    assert scores(ranked(0), [4.0, 2.0, 2.0], 1)[0] < 0.5 <= scores(ranked(0), [4.0], 1)[0]


def test_a_hit_is_not_trusted_that_lacks_the_words_which_memory_does_not_know() -> None:
    assert scores(ranked(0, 1), [1.0, 5.0, 8.0], 1)[0] < 0.5 <= scores(ranked(0, 1), [1.0, 5.0], 1)[0]


def test_a_word_that_only_a_synonym_tells_does_not_make_two_of_one() -> None:
    rare = [4.0, 2.0]
    assert scores(ranked(0, 1, alike=1), rare, 1)[0] < 0.5 <= scores(ranked(0, 1), rare, 1)[0]


def test_a_hit_without_any_value_scores_nothing() -> None:
    assert scores([weighed(0.0)], [1.0], 3) == [0.0]
    assert scores([], [1.0], 3) == []
