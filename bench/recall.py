"""How often the right words come back: labelled questions, per type, with the calibration of scores and the latency.

The data lies beside the repository and is only measured with; without it there is nothing to do. Published figures of
others use other metrics and are named in docs/BENCHMARKS.md.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from bench.measure import SHARED, Figure, median, ms, p95
from bench.teleport import bare_table, both_ways
from mcp_memory.app import App, open_app
from mcp_memory.clients import CLIENTS
from mcp_memory.config import Calendar, Settings
from mcp_memory.pipeline.importing import import_files
from mcp_memory.search.hits import BANDS, Hit

BUDGET, MANY = 1_000, 50
#: Each search counts by its fastest try, as in the benchmark of teleport.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Set:
    """One set of questions about one corpus; `aims` are the shares that should at least be reached."""

    name: str
    corpus: str
    client: str
    questions: str
    aims: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question's outcome: the rank of the first right hit (0: none), and the shares of its evidence found.

    `ranks` are those of each piece of evidence among the first hits, 0 if it is not there. `session_rank` is the rank
    of the first session that holds any, sessions being ranked by their best hit.
    """

    id: str
    type: str
    rank: int
    ranks: Mapping[str, int]
    session_rank: int
    at_5: float
    at_10: float
    in_budget: float
    right_in_budget: bool
    judged: tuple[tuple[float, bool], ...]
    seconds: float
    bare_seconds: float


SETS = (
    Set(
        "recall",
        "transcripts",
        "claude-code",
        "recall/dev.jsonl",
        {"hit@1": 0.5, "hit@5": 0.8, "hit@10": 0.92, "hit in budget": 0.9},
    ),
    Set(
        "LoCoMo",
        "locomo/dev.events.jsonl",
        "jsonl",
        "locomo/dev.questions.jsonl",
        {"R@5": 0.7, "R@10": 0.78, "R in budget": 0.85},
    ),
    Set(
        "LongMemEval",
        "longmemeval/dev.events.jsonl",
        "jsonl",
        "longmemeval/dev.questions.jsonl",
        {"R@5": 0.62, "R@10": 0.71, "R in budget": 0.8},
    ),
)


def run(scratch: Path, *, large: bool, details: Path | None = None) -> list[Figure]:
    """`details` takes a line of JSON for every question."""
    figures: list[Figure] = []
    lines: list[str] = []
    for each in SETS:
        if not (SHARED / each.questions).exists():
            print(f"   {each.name}: skipped, {each.questions} is not beside the repository")
            continue
        outcomes = anyio.run(_measure, scratch, each)
        _print_types(each.name, outcomes)
        _print_bands(outcomes)
        figures += _figures(each, outcomes)
        lines += [json.dumps(_detail(each.name, outcome), ensure_ascii=False) for outcome in outcomes]
    if details:
        details.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return figures


async def _measure(scratch: Path, questions: Set) -> list[Asked]:
    async with filled(scratch / f"recall-{questions.name}", questions) as app:
        bare = bare_table(app.settings.home)
        lines = (SHARED / questions.questions).read_text("utf-8").splitlines()
        sessions = _sessions(app.settings.database)
        outcomes = [await _ask(app, bare, json.loads(line), sessions) for line in lines]
        bare.close()
    return outcomes


@asynccontextmanager
async def filled(home: Path, questions: Set) -> AsyncIterator[App]:
    async with open_app(Settings(home=home, calendar=Calendar("UTC")), cwd=home.parent) as app:
        await fill(app, questions)
        yield app


async def fill(app: App, questions: Set) -> None:
    """Load the corpus that questions are about, and summarize it."""
    adapter = CLIENTS[questions.client]
    sources = [(adapter, path) for path in adapter.transcripts([SHARED / questions.corpus])]
    await import_files(app.store, app.inbox, sources, app.intaker)
    await app.pipeline.until_idle()


def _sessions(database: Path) -> dict[str, str]:
    """Which session each source line is of."""
    connection = sqlite3.connect(database)
    rows = connection.execute("SELECT source_ids, session_id FROM event e JOIN session s ON s.id = e.session")
    sessions = {name: session for names, session in rows for name in json.loads(names)}
    connection.close()
    return sessions


async def _ask(app: App, bare: sqlite3.Connection, question: Mapping[str, Any], sessions: Mapping[str, str]) -> Asked:
    asked = question["question"], question.get("project", "*")
    taken = [await both_ways(app, bare, *asked) for _ in range(TRIES)]
    found, _ = await app.answers.search(*asked)
    many, page = await app.answers.teleport(*asked, budget=BUDGET, limit=MANY)
    evidence = evidence_of(question)
    right = [bool(evidence & named(hit)) for hit in found.hits]
    within = _share(evidence, many.hits[: page.shown])
    meant = {sessions[name] for name in evidence if name in sessions}
    ranked = list(dict.fromkeys(hit.session_id for hit in many.hits if hit.session_id))
    return Asked(
        id=question["id"],
        type=question["type"],
        rank=right.index(True) + 1 if True in right else 0,
        ranks={name: _rank(name in named(hit) for hit in many.hits) for name in sorted(evidence)},
        session_rank=_rank(session in meant for session in ranked),
        at_5=_share(evidence, found.hits[:5]),
        at_10=_share(evidence, found.hits[:10]),
        in_budget=within,
        right_in_budget=within > 0,
        judged=tuple((hit.score, is_right) for hit, is_right in zip(found.hits, right, strict=True)),
        seconds=min(ours for ours, _ in taken),
        bare_seconds=min(bare for _, bare in taken),
    )


def _rank(found: Iterable[bool]) -> int:
    return next((number for number, is_right in enumerate(found, 1) if is_right), 0)


def _detail(name: str, outcome: Asked) -> dict[str, Any]:
    score = outcome.judged[0][0] if outcome.judged else 0.0
    return {
        "set": name,
        "id": outcome.id,
        "type": outcome.type,
        "rank": outcome.rank,
        "hit": outcome.rank > 0,
        "evidence": dict(outcome.ranks),
        "session_rank": outcome.session_rank,
        "R@5": outcome.at_5,
        "R@10": outcome.at_10,
        "R in budget": outcome.in_budget,
        "score": score,
        "band": next(band for floor, band in BANDS if score >= floor),
        "ms": round(outcome.seconds * 1_000, 2),
    }


def evidence_of(question: Mapping[str, Any]) -> set[str]:
    """The names of the lines that answer a question."""
    return {name for part in question["evidence"] for name in part["uuids"]}


def named(hit: Hit) -> set[str]:
    """A hit shows what its first sources say; more of them would name a whole segment."""
    return set(hit.source_ids[:3])


def _share(evidence: set[str], hits: Sequence[Hit]) -> float:
    found = {name for hit in hits for name in named(hit)}
    return len(evidence & found) / len(evidence)


def _shares(outcomes: Sequence[Asked]) -> dict[str, float]:
    many = len(outcomes)
    return {
        **{f"hit@{k}": sum(0 < each.rank <= k for each in outcomes) / many for k in (1, 5, 10)},
        "R@5": sum(each.at_5 for each in outcomes) / many,
        "R@10": sum(each.at_10 for each in outcomes) / many,
        "hit in budget": sum(each.right_in_budget for each in outcomes) / many,
        "R in budget": sum(each.in_budget for each in outcomes) / many,
        **{f"session@{k}": sum(0 < each.session_rank <= k for each in outcomes) / many for k in (1, 5)},
    }


def _print_types(name: str, outcomes: Sequence[Asked]) -> None:
    types: dict[str, list[Asked]] = defaultdict(list)
    for each in outcomes:
        types[each.type].append(each)
    print(f"   {name:<26}{'n':>6}" + "".join(f"{key:>15}" for key in _shares(outcomes)))
    for label, rows in [*sorted(types.items()), ("all", list(outcomes))]:
        print(f"   {label:<26}{len(rows):>6}" + "".join(f"{share:>15.3f}" for share in _shares(rows).values()))


def _print_bands(outcomes: Sequence[Asked]) -> None:
    """Of the hits in each band, how many were right."""
    ceiling = 1.01
    for floor, name in BANDS:
        judged = [right for each in outcomes for score, right in each.judged if floor <= score < ceiling]
        share = f"{sum(judged) / len(judged):.2f} right" if judged else "none"
        print(f"   {name} ({floor} to {min(ceiling, 1.0)}): {len(judged)} hits, {share}")
        ceiling = floor


def _figures(questions: Set, outcomes: Sequence[Asked]) -> list[Figure]:
    shares = _shares(outcomes)
    figures = [
        Figure(f"{questions.name} {key}", share, unit="", note=_verdict(share, questions.aims.get(key)))
        for key, share in shares.items()
    ]
    seconds = [each.seconds for each in outcomes]
    ours, bare = p95(seconds), p95([each.bare_seconds for each in outcomes])
    name, note = (
        f"{questions.name}, p95 to that of one bare FTS5 query",
        f"{ms(ours)} to {ms(bare)}, p50 {ms(median(seconds))}",
    )
    return [*figures, Figure(name, ours / bare, 2.0, note=note)]


def _verdict(share: float, aim: float | None) -> str:
    return "" if aim is None else f"aim ≥ {aim:.2f}: {'met' if share >= aim else 'missed'}"
