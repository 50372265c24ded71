"""How often the right words come back: labelled questions, per type, with the reliability of scores and the latency.

A hit counts by the first three lines it names: its own and those of the same turn that it shows. Beside that stands
what its own line finds alone. The data lies beside the repository and is only measured with; without it there is
nothing to do. Published figures of others use other metrics and are named in docs/BENCHMARKS.md.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from bench import reliability
from bench.histories import build
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
#: So many lines of a hit count.
LINES = 3


class Corpus(NamedTuple):
    """Histories beside the repository, and the client that reads them."""

    client: str
    path: str


@dataclass(frozen=True, slots=True)
class Set:
    """One set of questions about one memory; `aims` are the shares that should at least be reached."""

    name: str
    corpora: tuple[Corpus, ...]
    questions: str
    aims: Mapping[str, float]

    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (SHARED / self.questions).read_text("utf-8").splitlines()]

    def at_hand(self) -> bool:
        """Whether the questions lie beside the repository; says so if not."""
        found = (SHARED / self.questions).exists()
        if not found:
            print(f"   {self.name}: skipped, {self.questions} is not beside the repository")
        return found


@dataclass(slots=True)
class QuestionClock:
    """The machine's time, or that at which a question is asked."""

    fixed_ms: int | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 if self.fixed_ms is None else self.fixed_ms

    def set_to(self, question: Mapping[str, Any]) -> None:
        now = question.get("now")
        self.fixed_ms = round(datetime.fromisoformat(now).timestamp() * 1000) if now else None


class Found(NamedTuple):
    """The rank of the first right hit (0: none), and the shares of the evidence among the first 5 and 10."""

    rank: int
    at_5: float
    at_10: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One question's outcome: what its hits found with the lines beside them, and what by their own line `alone`.

    `ranks` are those of each piece of evidence among the first hits, 0 if it is not there. `session_rank` is the rank
    of the first session that holds any, sessions being ranked by their best hit.
    """

    id: str
    type: str
    found: Found
    alone: Found
    ranks: Mapping[str, int]
    session_rank: int
    in_budget: float
    judged: tuple[tuple[float, bool], ...]
    seconds: float
    bare_seconds: float


CODING = Corpus("claude-code", "transcripts")
MORE_CODING = Corpus("claude-code", "transcripts-more")
LOCOMO = Corpus("jsonl", "locomo/dev.events.jsonl")
LONGMEMEVAL = Corpus("jsonl", "longmemeval/dev.events.jsonl")
SETS = (
    Set("recall", (CODING,), "recall/dev.jsonl", {"hit@1": 0.6, "hit@5": 0.9, "hit@10": 0.97}),
    Set("recall-54", (CODING, MORE_CODING), "recall/dev.jsonl", {"hit@1": 0.6, "hit@5": 0.92, "hit@10": 0.97}),
    Set("LoCoMo", (LOCOMO,), "locomo/dev.questions.jsonl", {"R@5": 0.744, "R@10": 0.823}),
    Set("LongMemEval", (LONGMEMEVAL,), "longmemeval/dev.questions.jsonl", {"R@5": 0.66, "R@10": 0.75}),
)


def set_of(name: str) -> Set:
    return next(each for each in SETS if each.name == name)


def run(scratch: Path, *, large: bool, details: Path | None = None) -> list[Figure]:
    """`details` takes a line of JSON for every question."""
    figures: list[Figure] = []
    lines: list[str] = []
    for each in filter(Set.at_hand, SETS):
        outcomes = anyio.run(_measure, scratch, each)
        _print_types(each.name, outcomes)
        reliability.print_bands([outcome.judged for outcome in outcomes])
        firsts = [outcome.judged[0] for outcome in outcomes if outcome.judged]
        figures += [*_figures(each, outcomes), *reliability.firsts(each.name, firsts)]
        lines += [json.dumps(_detail(each.name, outcome), ensure_ascii=False) for outcome in outcomes]
    if all(each.at_hand() for each in SETS):
        figures += anyio.run(_absent, scratch)
    if details:
        details.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return figures


async def _measure(scratch: Path, questions: Set) -> list[Asked]:
    clock = QuestionClock()
    async with filled(scratch / f"recall-{questions.name}", questions.corpora, clock) as app:
        bare = bare_table(app.settings.home)
        sessions = _sessions(app.settings.database)
        outcomes = []
        for question in questions.asked():
            clock.set_to(question)
            outcomes.append(await _ask(app, bare, question, sessions))
        bare.close()
    return outcomes


async def _absent(scratch: Path) -> list[Figure]:
    """The scores of the first hits where the coding sessions are asked about what they do not hold."""
    others = [question["question"] for name in ("LoCoMo", "LongMemEval") for question in set_of(name).asked()]
    coding = set_of("recall-54")
    async with filled(scratch / f"recall-{coding.name}", coding.corpora) as app:
        found = [(await app.answers.search(text, "*"))[0].hits for text in others[:: reliability.SAMPLED]]
    return reliability.absent([hits[0].score if hits else 0.0 for hits in found])


@asynccontextmanager
async def filled(home: Path, corpora: Sequence[Corpus], clock: QuestionClock | None = None) -> AsyncIterator[App]:
    async with open_app(Settings(home=home, calendar=Calendar("UTC")), cwd=home.parent, clock=clock) as app:
        if corpora:
            await fill(app, corpora)
        yield app


async def fill(app: App, corpora: Sequence[Corpus]) -> None:
    """Load histories, and summarize them."""
    sources = [
        (CLIENTS[corpus.client], path)
        for corpus in corpora
        for path in CLIENTS[corpus.client].transcripts([SHARED / corpus.path])
    ]
    await import_files(app.store, app.inbox, sources, app.intaker)
    await build(app)


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
    hits = (await app.answers.search(*asked))[0].hits
    many, page = await app.answers.teleport(*asked, budget=BUDGET, limit=MANY)
    evidence = evidence_of(question)
    meant = {sessions[name] for name in evidence if name in sessions}
    ranked = list(dict.fromkeys(hit.session_id for hit in many.hits if hit.session_id))
    return Asked(
        id=question["id"],
        type=question["type"],
        found=found_in(evidence, [named(hit) for hit in hits]),
        alone=found_in(evidence, [named_alone(hit) for hit in hits]),
        ranks={name: _rank(name in named(hit) for hit in many.hits) for name in sorted(evidence)},
        session_rank=_rank(session in meant for session in ranked),
        in_budget=_share(evidence, [named(hit) for hit in many.hits[: page.shown]]),
        judged=tuple((hit.score, bool(evidence & named(hit))) for hit in hits),
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
        "rank": outcome.found.rank,
        "rank alone": outcome.alone.rank,
        "hit": outcome.found.rank > 0,
        "evidence": dict(outcome.ranks),
        "session_rank": outcome.session_rank,
        "R@5": outcome.found.at_5,
        "R@10": outcome.found.at_10,
        "R in budget": outcome.in_budget,
        "score": score,
        "band": next(band for floor, band in BANDS if score >= floor),
        "ms": round(outcome.seconds * 1_000, 2),
    }


def evidence_of(question: Mapping[str, Any]) -> set[str]:
    """The names of the lines that answer a question."""
    return {name for part in question["evidence"] for name in part["uuids"]}


def named(hit: Hit) -> set[str]:
    """A hit shows what its first lines say; more of them would name a whole segment."""
    return set(hit.source_ids[:LINES])


def named_alone(hit: Hit) -> set[str]:
    """The lines that a hit itself is, without those beside it."""
    beside = sum(len(line.source_ids) for line in hit.lines)
    return set(hit.source_ids[: len(hit.source_ids) - beside][:LINES])


def found_in(evidence: set[str], lines: Sequence[set[str]]) -> Found:
    """What the lines that hits name, best first, find of the evidence."""
    rank = _rank(bool(evidence & names) for names in lines)
    return Found(rank, _share(evidence, lines[:5]), _share(evidence, lines[:10]))


def _share(evidence: set[str], lines: Sequence[set[str]]) -> float:
    return len(evidence & set().union(*lines)) / len(evidence)


def found_shares(found: Sequence[Found]) -> dict[str, float]:
    many = len(found)
    return {
        **{f"hit@{k}": sum(0 < each.rank <= k for each in found) / many for k in (1, 5, 10)},
        "R@5": sum(each.at_5 for each in found) / many,
        "R@10": sum(each.at_10 for each in found) / many,
        "MRR": sum(1 / each.rank for each in found if each.rank) / many,
    }


def _shares(outcomes: Sequence[Asked]) -> dict[str, float]:
    many = len(outcomes)
    return {
        **found_shares([each.found for each in outcomes]),
        "hit in budget": sum(each.in_budget > 0 for each in outcomes) / many,
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
    alone = found_shares([each.alone for each in outcomes]).values()
    print(f"   {'all, by their own line':<26}{len(outcomes):>6}" + "".join(f"{share:>15.3f}" for share in alone))


def _figures(questions: Set, outcomes: Sequence[Asked]) -> list[Figure]:
    alone = found_shares([each.alone for each in outcomes])
    figures = [
        Figure(f"{questions.name} {key}", share, unit="", note=_note(share, questions.aims.get(key), alone.get(key)))
        for key, share in _shares(outcomes).items()
    ]
    seconds = [each.seconds for each in outcomes]
    ours, bare = p95(seconds), p95([each.bare_seconds for each in outcomes])
    name, note = (
        f"{questions.name}, p95 to that of one bare FTS5 query",
        f"{ms(ours)} to {ms(bare)}, p50 {ms(median(seconds))}",
    )
    return [*figures, Figure(name, ours / bare, 2.0, note=note)]


def _note(share: float, aim: float | None, alone: float | None) -> str:
    verdict = [] if aim is None else [f"aim ≥ {aim:.3g}: {'met' if share >= aim else 'missed'}"]
    return "; ".join([*verdict, *([] if alone is None else [f"own line alone {alone:.3f}"])])
