"""Redaction on the whole invented corpus; `python -m bench redaction --verbose` lists what comes out wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.redaction import Case, corpus, failed, judged
from mcp_memory.capture.redaction import redact

#: How large a share of a part may come out wrong, of the templates in view and of the held ones. Only ever lower these.
ALLOWED = {"surroundings": (0.005, 0.01), "vendors": (0.005, 0.02), "clean": (0.002, 0.005)}


@pytest.fixture(scope="module")
def results() -> list[tuple[Case, str]]:
    return judged()


@pytest.mark.parametrize("part", ALLOWED)
@pytest.mark.parametrize("held", [False, True], ids=["in view", "held"])
def test_no_larger_share_of_the_corpus_comes_out_wrong(results: list[tuple[Case, str]], part: str, held: bool) -> None:
    assert failed(results, part, held=held) <= ALLOWED[part][held]


def test_redacting_twice_changes_nothing(results: list[tuple[Case, str]]) -> None:
    changed = [(redacted, again) for _, redacted in results if (again := redact(redacted)) != redacted]
    assert changed == []


def test_the_corpus_is_large_enough_and_the_same_every_time() -> None:
    cases = corpus()
    counted = Counter(bool(case.secret) for case in cases)
    assert counted[True] >= 400
    assert counted[False] >= 1000
    assert cases == corpus()


def test_every_secret_of_the_corpus_stands_in_its_text() -> None:
    assert [case for case in corpus() if case.secret not in case.text] == []


def test_a_secret_of_which_half_is_left_does_not_count_as_gone() -> None:
    case = Case("surroundings", "Go", 'key := "Xk9-vTq27LmZ"', "Xk9-vTq27LmZ", held=False)
    assert case.passes('key := "[redacted:key]"')
    assert not case.passes('key := "[redacted:key]q27LmZ"')
