"""The short form of `make forget`: ways to forget, each followed by what could bring something back.

The memories that are filled here have a word of its own in each of twelve places; see `bench/forget.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.forget import MARK, SETUPS, SHORT_STEPS, SHORT_WAYS, STEPS, WAYS, WORDS, Check, Step, Way, try_setup
from bench.forget_team import try_team
from tests.support import needs_whoosh

SQLITE, WHOOSH, POSTGRES = SETUPS


def chosen_ways(*names: str) -> list[Way]:
    return [way for way in WAYS if way.name in names]


def chosen_steps(*names: str) -> list[Step]:
    return [step for step in STEPS if step.name in names]


def passed(checks: list[Check], count: int) -> None:
    """All of so many checks must have passed."""
    assert [str(check) for check in checks if not check.passed] == []
    assert len(checks) == count


def test_a_forgotten_text_stays_away_though_its_transcript_is_imported_again(tmp_path: Path) -> None:
    passed(list(try_setup(tmp_path / "world", SQLITE, chosen_ways("match"), chosen_steps("same import"))), 1)


def test_a_way_that_forgets_nothing_is_noticed(tmp_path: Path) -> None:
    careless = Way("careless", lambda world: None, frozenset([WORDS["prompt"]]), frozenset())
    (check,) = try_setup(tmp_path / "world", SQLITE, [careless], chosen_steps("right after"))
    assert not check.passed
    assert "memory.db: event" in check.where[WORDS["prompt"]]


def test_a_way_that_takes_too_much_is_noticed(tmp_path: Path) -> None:
    def forget(world: object) -> None:
        WAYS[0].forget(world)  # type: ignore[arg-type]

    greedy = Way("greedy", forget, frozenset([WORDS["prompt"]]), frozenset([WORDS["answer"]]))
    (check,) = try_setup(tmp_path / "world", SQLITE, [greedy], chosen_steps("right after"))
    assert check.lost == [WORDS["answer"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "setup", [SQLITE, pytest.param(WHOOSH, marks=needs_whoosh), POSTGRES], ids=["fts5", "whoosh", "postgres"]
)
def test_nothing_brings_back_what_was_forgotten(tmp_path: Path, setup: object) -> None:
    steps = chosen_steps(*SHORT_STEPS)
    checks = list(try_setup(tmp_path / "world", setup, chosen_ways(*SHORT_WAYS), steps))  # type: ignore[arg-type]
    passed(checks, 7 if setup is POSTGRES else 9)


@pytest.mark.slow
def test_a_team_s_server_and_other_laptops_forget_too(tmp_path: Path) -> None:
    passed(try_team(tmp_path, ["match"]), 4)


def test_the_mark_stands_beside_every_word_of_the_sequence() -> None:
    """Else `forget --match` would have to take what it does not match."""
    assert len({MARK, *WORDS.values()}) == len(WORDS) + 1
