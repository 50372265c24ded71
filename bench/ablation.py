"""What each feature of ranking is worth: what changes on three sets when it is made to count for nothing.

What the index offers for a question does not depend on the weights, so it is gathered once and only ranked again.
Hits are counted as in `recall`, but for the nodes that are shown where a question names a time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import anyio

from bench.measure import Figure
from bench.recall import LINES, Found, QuestionClock, Set, evidence_of, filled, found_in, found_shares, set_of
from mcp_memory.app import App
from mcp_memory.domain.terms import Pool
from mcp_memory.search import ranking, retrieval, scoring
from mcp_memory.search.ranking import rank
from mcp_memory.search.scoring import WEIGHTS, Match, Telling, Weights, telling_of
from mcp_memory.times.resolve import TimeRange

#: With which weights a feature counts for nothing. Where tools speak, that is what any other output of a tool
#: counts.
NEUTRAL: Mapping[str, Mapping[str, float]] = {
    "how often a word is said": {"k1": 0.0},
    "length of a passage": {"b": 0.0},
    "word pairs": {"pair": 0.0},
    "synonyms": {"synonym": 0.0},
    "whose words are meant": {"mine": 1.0, "ours": 1.0, "users": 1.0, "told": 1.0},
    "tool output counts less": {"tool": 1.0, "spoke": 1.0},
    "reports of subagents": {"spoke": WEIGHTS.tool},
    "what stands beside": {"before": 0.0, "after": 0.0},
    "session": {"session": 0.0},
    "turn": {"turn": 0.0},
    "turn: by role": {"turn_user": 1.0, "turn_tool": 1.0},
    "turn: by length": {"turn_b": 0.0},
    "answers to questions": {"answers": 1.0},
    "closing messages": {"closes": 1.0},
    "favoured time": {"favour": 1.0},
    "cues of an answer": {"cue": 1.0},
    "written as in the question": {"written": 0.0},
    "newest first": {"newer": 0.0},
    "spread of hits": {"again": 1.0},
    "spread over sessions": {"same_session": 1.0},
}
#: These only shape another feature.
SHAPES = frozenset(["usual", "near", "word", "turn_usual", "as_good"])
#: Of each set every so many questions are asked, and two figures looked at.
SAMPLED = {"recall-54": 1, "LoCoMo": 3, "LongMemEval": 1}
MEASURED = {"recall-54": ("hit@5", "MRR"), "LoCoMo": ("R@5", "R@10"), "LongMemEval": ("R@5", "R@10")}
ENOUGH = 2


class Gathered(NamedTuple):
    """A question's evidence, and all that ranking is given for it; `closings` are the last lines of turns."""

    evidence: set[str]
    telling: Telling
    pool: Pool
    favoured: TimeRange | None
    diverse: bool
    closings: Mapping[int, tuple[str, ...]]


def run(scratch: Path, *, large: bool) -> list[Figure]:
    left_out = set(Weights._fields) - SHAPES - {field for fields in NEUTRAL.values() for field in fields}
    assert not left_out, f"no neutral value is known for {', '.join(sorted(left_out))}"
    sets = [each for each in map(set_of, SAMPLED) if each.at_hand()]
    gathered = {each.name: anyio.run(_gather, scratch, each) for each in sets}
    whole = _measured(gathered, WEIGHTS)
    print(f"   {'without':<28}" + "".join(f"{f'{name} {key}':>20}" for name, key in whole))
    print(f"   {'(nothing)':<28}" + "".join(f"{share:>20.3f}" for share in whole.values()))
    helped: dict[str, set[str]] = {}
    for feature, fields in NEUTRAL.items():
        without = _measured(gathered, WEIGHTS._replace(**fields))
        changes = {key: round(1_000 * (without[key] - whole[key])) for key in whole}
        helped[feature] = {name for (name, _), change in changes.items() if change < 0}
        print(f"   {feature:<28}" + "".join(f"{change:>+20}" for change in changes.values()), flush=True)
    few = {feature: sets for feature, sets in helped.items() if len(sets) < ENOUGH}
    for feature, names in few.items():
        print(f"   helps fewer than {ENOUGH} sets: {feature} ({', '.join(names) or 'none'})")
    return [Figure(f"features that help fewer than {ENOUGH} of {len(sets)} sets", len(few), unit="")] if sets else []


async def _gather(scratch: Path, questions: Set) -> tuple[list[Gathered], dict[int, tuple[str, ...]]]:
    """What ranking is given for each question, and the names of all lines by the number of their event."""
    clock, gathered = QuestionClock(), list[Gathered]()
    async with filled(scratch / f"recall-{questions.name}", questions.corpora, clock) as app:
        for question in questions.asked()[:: SAMPLED[questions.name]]:
            clock.set_to(question)
            with _listening() as heard:
                await app.answers.search(question["question"], question.get("project", "*"))
            gathered += [Gathered(evidence_of(question), *each, await _closings(app, each[1])) for each in heard[-1:]]
        connection = sqlite3.connect(app.settings.database)
        rows = connection.execute("SELECT id, source_ids FROM event")
        names = {number: tuple(json.loads(sources)) for number, sources in rows}
        connection.close()
    return gathered, names


@contextmanager
def _listening() -> Iterator[list[tuple[Telling, Pool, TimeRange | None, bool]]]:
    """What is given to ranking in the meantime."""
    heard: list[tuple[Telling, Pool, TimeRange | None, bool]] = []

    def listened(telling: Telling, pool: Pool, favoured: TimeRange | None, *, diverse: bool) -> list[Match]:
        heard.append((telling, pool, favoured, diverse))
        return rank(telling, pool, favoured, diverse=diverse)

    with patch.object(retrieval, "rank", listened):
        yield heard


async def _closings(app: App, pool: Pool) -> dict[int, tuple[str, ...]]:
    turns = {message.turn for message in pool.messages if message.turn}
    return {turn: event.source_ids for turn, event in (await app.store.closings(sorted(turns))).items()}


def _measured(
    sets: Mapping[str, tuple[Sequence[Gathered], Mapping[int, tuple[str, ...]]]], weights: Weights
) -> dict[tuple[str, str], float]:
    """The figures that are looked at, with these weights."""
    with patch.object(scoring, "WEIGHTS", weights), patch.object(ranking, "WEIGHTS", weights):
        shares = {
            name: found_shares([_found(each, names) for each in gathered]) for name, (gathered, names) in sets.items()
        }
    return {(name, key): shares[name][key] for name in sets for key in MEASURED[name]}


def _found(each: Gathered, names: Mapping[int, tuple[str, ...]]) -> Found:
    telling = telling_of(each.telling.question, each.pool)
    matches = rank(telling, each.pool, each.favoured, diverse=each.diverse)
    return found_in(each.evidence, [_named(match, each.closings, names) for match in matches[:10]])


def _named(match: Match, closings: Mapping[int, tuple[str, ...]], names: Mapping[int, tuple[str, ...]]) -> set[str]:
    """The first lines that a hit shows: its own, the next best of its turn, and that with which the turn ended."""
    own, *rest = [names[each.message.number] for each in (match, *match.lines)]
    closing = closings.get(match.message.turn, ())
    lines = dict.fromkeys([own, *rest[:1], closing, *rest[1:]])
    return set([name for line in lines for name in line][:LINES])
