"""How often the evidence for questions about real sessions comes back, where the shared data is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.recall import QuestionClock, evidence_of, filled, named, set_of

QUESTIONS = set_of("recall-54")
#: "On Feb 6" asks about the year of the sessions only within a year of them.
AFTERWARDS = "2026-06-01T00:00:00Z"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not QUESTIONS.at_hand(), reason="shared/data is not beside the repository"),
]


@pytest.mark.slow
async def test_evidence_is_among_the_first_hits_and_right_first_hits_are_trusted(tmp_path: Path) -> None:
    ranks, trusted = list[int](), list[bool]()
    clock = QuestionClock()
    clock.set_to({"now": AFTERWARDS})
    async with filled(tmp_path / "memory", QUESTIONS.corpora, clock) as app:
        for question in QUESTIONS.asked():
            found, _ = await app.answers.search(question["question"], "*")
            right = [bool(evidence_of(question) & named(hit)) for hit in found.hits]
            ranks.append(right.index(True) + 1 if True in right else 0)
            if right[0]:
                trusted.append(found.hits[0].score >= 0.5)
    shares = [sum(0 < rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10)]
    assert shares[0] >= 0.60
    assert shares[1] >= 0.92
    assert shares[2] >= 0.97
    assert sum(trusted) >= len(trusted) / 2
