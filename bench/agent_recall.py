"""Whether an agent that follows the server's instructions reads the evidence: questions about real coding sessions.

The agent is a script. It chooses a tool by what the question holds, sees nothing but the tools' texts, and stops when
the evidence stands before it, as a reader would. The judge is strict: evidence counts as read only when a long enough
run of its very words, in order and without a gap, stands in one answer. The data lies beside the repository and is
only measured with; without it there is nothing to do.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mcp import Client

from bench.desk import Desk, shared, stems
from bench.measure import SHARED, Figure, median
from bench.recall import filled, set_of
from mcp_memory.config import Calendar, Settings
from mcp_memory.models import tokens
from mcp_memory.surfaces.server import Memory, build_server

CALLS, TOKENS = 3, 1_500
#: Within how many calls and tokens the answer should have been read, and for which share of the questions.
AIMS = (
    ("in the first answer", 1, TOKENS, 0.80),
    ("within 500 tokens", CALLS, 500, 0.75),
    ("within 3 calls and 1,500 tokens", CALLS, TOKENS, 0.95),
)
#: What is left of the tokens is not spent on an answer too short to read.
LEAST, USUAL = 150, 400
#: Words in a row that must be shown: of a line that was labelled as evidence, and of the quote that answers.
LINE_WORDS, QUOTE_WORDS, FEWEST = 20, 12, 5
#: The share of the answer's own words that must stand beside a line of the evidence.
TOLD = 0.5
#: Some days after the last session, so that nothing is open.
_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_MONTHS += "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_TIME = re.compile(
    rf"(?:in the )?(?:week (?:starting|of) )?(?:(?:{_MONTHS})\.? \d{{1,2}}|(?:the )?\d{{1,2}}(?:st|nd|rd|th)? (?:of )?"
    rf"(?:{_MONTHS}))(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d|yesterday|today|(?:last|this) (?:week|month|year)",
    re.I,
)
_WORD = re.compile(r"[^\W_]+")
_CURSOR = re.compile(r'cursor="(at:\d+)"')
_GRIP = re.compile(r"grip:\S+")
#: The words that a hit lacks stand beside it as well.
_LACKING = re.compile(r"\bwithout: .*")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Runs of words of the labelled lines and of the quote, and the words of the answer that the question lacks."""

    lines: frozenset[str]
    quotes: frozenset[str]
    answer: frozenset[str]

    def read_in(self, texts: Sequence[str]) -> bool:
        """Whether a labelled line was read."""
        return any(_holds(text, self.lines | self.quotes) for text in texts)

    def answered_in(self, texts: Sequence[str]) -> bool:
        """Whether the part of it that answers was read: the quote, or a line together with the answer's words."""
        return any(_holds(text, self.quotes) or (_holds(text, self.lines) and self._tells(text)) for text in texts)

    def _tells(self, text: str) -> bool:
        return len(self.answer & stems(text)) >= TOLD * len(self.answer)


class Spent(NamedTuple):
    calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What it took to read a line of the evidence, and the part that answers, if they were read; and all in all."""

    type: str
    read: Spent | None
    answered: Spent | None
    whole: Spent


async def measure(scratch: Path) -> list[Figure]:
    questions = set_of("recall-54")
    if not questions.at_hand():
        return []
    home = scratch / f"recall-{questions.name}"
    async with filled(home, questions.corpora):
        pass
    said = {name: text for corpus in questions.corpora for name, text in _lines(SHARED / corpus.path).items()}
    settings = Settings(home=home, calendar=Calendar("UTC"), now_ms=round(_NOW.timestamp() * 1000))
    async with Client(build_server(Memory(settings))) as client:
        outcomes = [await _answer(Desk(client), each, _evidence(each, said)) for each in questions.asked()]
    _print_types(outcomes)
    return _figures(outcomes)


async def _answer(desk: Desk, question: Mapping[str, Any], evidence: Evidence) -> Outcome:
    await _read_on(desk, question["question"], evidence)
    spent = [Spent(number, sum(map(tokens.count, desk.read[:number]))) for number in range(1, desk.calls + 1)]
    read = next((each for each in spent if evidence.read_in(desk.read[: each.calls])), None)
    answered = next((each for each in spent if evidence.answered_in(desk.read[: each.calls])), None)
    how = "answered" if answered else "a line of the evidence only" if read else "not read"
    print(f"   {question['id']} {question['type']:<11}{desk.calls} calls {desk.tokens:>5} tokens  {how}", flush=True)
    return Outcome(question["type"], read, answered, Spent(desk.calls, desk.tokens))


async def _read_on(desk: Desk, asked: str, evidence: Evidence) -> None:
    """The rule of the server's instructions: by time if one is named, else by words; more of it; the exact words."""
    time = _TIME.search(asked)
    if time:
        rest = asked.replace(time[0], " ")
        text = await desk.ask("browse_time", when=time[0], topic=rest, project="*")
    else:
        text = await desk.ask("teleport", query=asked, project="*")
        if not evidence.answered_in(desk.read) and (cursor := _CURSOR.search(text)):
            text += await desk.ask("teleport", query=asked, project="*", cursor=cursor[1])
    while desk.calls < CALLS and not evidence.answered_in(desk.read):
        left, grip = TOKENS - desk.tokens, _next_grip(text, stems(asked), desk.opened)
        if grip is None or left < LEAST:
            return
        await desk.ask("expand_grip", grip_id=grip, budget_tokens=min(left, USUAL))


def _next_grip(text: str, asked: frozenset[str], opened: set[str]) -> str | None:
    """That of the line that shares most with the question and was not opened yet."""
    left = [(grip, line) for grip, line in _cited(text) if grip not in opened]
    scores = shared(asked, [line for _, line in left])
    return left[scores.index(max(scores))][0] if left else None


def _cited(text: str) -> list[tuple[str, str]]:
    """The grips of an answer, each with its line and the indented ones beneath that have no grip of their own."""
    cited: list[tuple[str, str]] = []
    for line in text.splitlines():
        if match := _GRIP.search(line):
            cited.append((match[0], _LACKING.sub("", line)))
        elif cited and line.startswith(" "):
            grip, above = cited.pop()
            cited.append((grip, f"{above} {line}"))
    return cited


def _lines(corpus: Path) -> dict[str, str]:
    """What was said in each line of the transcripts, by the line's own id."""
    said: dict[str, str] = {}
    for path in sorted(corpus.rglob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if "uuid" in record and "message" in record:
                said[record["uuid"]] = "\n".join(_texts(record["message"].get("content")))
    return said


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield from _texts(part.get("text") or part.get("content"))


def _evidence(question: Mapping[str, Any], said: Mapping[str, str]) -> Evidence:
    lines, quotes = set[str](), set[str]()
    for part in question["evidence"]:
        quotes |= _runs(part["quote"], QUOTE_WORDS)
        for uuid in part["uuids"]:
            lines |= _runs(said.get(uuid, ""), LINE_WORDS)
    telling = stems(question["answer"]) - stems(question["question"])
    return Evidence(frozenset(lines), frozenset(quotes), telling)


def _runs(text: str, size: int) -> set[str]:
    """All runs of so many words; a shorter text counts as a whole, unless it says next to nothing."""
    words = _words(text)
    if len(words) < FEWEST:
        return set()
    return {" ".join(words[start : start + size]) for start in range(max(1, len(words) - size + 1))}


def _holds(text: str, runs: frozenset[str]) -> bool:
    line = f" {' '.join(_words(text))} "
    return any(f" {run} " in line for run in runs)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _print_types(outcomes: Sequence[Outcome]) -> None:
    types: dict[str, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        types[each.type].append(each)
    print(f"   {'recall-54':<14}{'n':>4}{'line':>8}{'answer':>8}{'1 call':>8}{'calls':>8}{'tokens':>8}")
    for label, rows in [*sorted(types.items()), ("all", list(outcomes))]:
        shares = [
            _share([each.read is not None for each in rows]),
            _share([each.answered is not None for each in rows]),
        ]
        shares.append(_share([_within(each.answered, 1, TOKENS) for each in rows]))
        spent = median([each.whole.tokens for each in rows])
        calls = sum(each.whole.calls for each in rows) / len(rows)
        row = "".join(f"{share:>8.3f}" for share in shares)
        print(f"   {label:<14}{len(rows):>4}{row}{calls:>8.2f}{spent:>8.0f}")


def _share(told: Sequence[bool]) -> float:
    return sum(told) / len(told)


def _within(spent: Spent | None, calls: int, most: int) -> bool:
    return spent is not None and spent.calls <= calls and spent.tokens <= most


def _figures(outcomes: Sequence[Outcome]) -> list[Figure]:
    figures = []
    for label, calls, most, aim in AIMS:
        answered = _share([_within(each.answered, calls, most) for each in outcomes])
        read = _share([_within(each.read, calls, most) for each in outcomes])
        verdict = "met" if read >= aim else "missed"
        note = f"aim ≥ {aim:.2f}: {verdict}; the part of it that answers {answered:.3f}"
        figures.append(Figure(f"recall-54, evidence read {label}", read, unit="", note=note))
    spent = [each.whole.tokens for each in outcomes]
    return [
        *figures,
        Figure("recall-54: calls at most", max(each.whole.calls for each in outcomes), CALLS, ""),
        Figure("recall-54: tokens at most", max(spent), TOKENS, "", f"median {median(spent):,.0f}"),
    ]
