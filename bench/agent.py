"""What a question costs an agent: tokens and calls from the question to an excerpt that answers it, by a simple rule.

The agent is a script that sees nothing but the texts of the tools, all with their default budgets. It reads on until
the answer stands before it, as a reader would who knows an answer when he sees one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp import Client

from bench import agent_recall
from bench.desk import Desk, shared, stems
from bench.histories import SAMPLE_NOW, fill_with_sample
from bench.histories import opened as memory_at
from bench.measure import Figure, median
from mcp_memory.config import Calendar, Settings
from mcp_memory.domain.toc import Level
from mcp_memory.surfaces.server import Memory, build_server

WALK_CALLS, WALK_TOKENS = 6, 1_500
JUMP_CALLS, JUMP_TOKENS = 2, 400

#: A node's title comes before its id; an id in quotes is that of a call.
_NODE = re.compile(r"(?:(.*) )?(toc:\S+)(.*)")
_LINE = re.compile(r"[-*] .*?(grip:\S+).*")


@dataclass(frozen=True, slots=True)
class Question:
    """`answer` is a piece of what was said, which the excerpt must show."""

    project: str
    text: str
    answer: str


QUESTIONS = (
    Question("tidepool-api", "How long do refresh tokens live?", "14 days"),
    Question("tidepool-api", "Why did the booking overlap test fail in CI once a day?", "22:00 and 24:00 UTC"),
    Question("tidepool-api", "Which index made the slow tides query fast?", "(station_id, observed_at)"),
    Question("tidepool-api", "What replaced the fixed window rate limit for the kiosks?", "token bucket"),
    Question("tidepool-api", "How did two alembic heads get in and fail the deploy?", "9f30"),
    Question("tidepool-api", "Why were the tide tables wrong after the clock change?", "offset is taken once"),
    Question("tidepool-web", "What keeps two tabs from refreshing the token twice?", "navigator.locks"),
    Question("tidepool-web", "Where is the unresolved heap growth of the live gauge suspected?", "useLiveReadings"),
)


def run(scratch: Path, *, large: bool) -> list[Figure]:
    return [*anyio.run(_sample, scratch / "agent"), *anyio.run(agent_recall.measure, scratch)]


async def _sample(home: Path) -> list[Figure]:
    async with memory_at(home, SAMPLE_NOW) as app:
        await fill_with_sample(app)
    told: dict[str, list[tuple[Desk, bool]]] = {}
    for question in QUESTIONS:
        settings = Settings(
            home=home,
            calendar=Calendar("UTC"),
            project=question.project,
            now_ms=round(SAMPLE_NOW.timestamp() * 1000),
        )
        async with Client(build_server(Memory(settings))) as client:
            for name, way in (("with topic", _walk_by_topic), ("without", _walk), ("teleport", _jump)):
                desk = Desk(client)
                seen = await way(desk, question)
                told.setdefault(name, []).append((desk, seen))
                cost = f"{desk.calls} calls {desk.tokens:>5} tokens, {'answer seen' if seen else 'not seen'}"
                print(f"   {name:<12}{cost:<36} {question.text}", flush=True)
    return [
        *_figures("toc_root down, with topic", told["with topic"], WALK_CALLS, WALK_TOKENS),
        *_figures("toc_root down, without", told["without"]),
        *_figures("teleport", told["teleport"], JUMP_CALLS, JUMP_TOKENS),
    ]


def _figures(
    name: str, told: list[tuple[Desk, bool]], calls: int | None = None, budget: int | None = None
) -> list[Figure]:
    spent = [desk.tokens for desk, _ in told]
    missed = sum(not seen for _, seen in told)
    return [
        Figure(f"{name}: calls at most", max(desk.calls for desk, _ in told), calls, ""),
        Figure(f"{name}: tokens at most", max(spent), budget, "", f"median {median(spent):,.0f}"),
        Figure(f"{name}: not seen, of {len(told)}", missed, None if calls is None else 0, ""),
    ]


async def _walk_by_topic(desk: Desk, question: Question) -> bool:
    return await _down(desk, question, {"topic": question.text})


async def _walk(desk: Desk, question: Question) -> bool:
    return await _down(desk, question, {})


async def _down(desk: Desk, question: Question, more: Mapping[str, str]) -> bool:
    """Go down the line that speaks most of the question; open a grip where one says as much, or at the bottom.

    The answer counts only when it was read in the exact words of an opened grip.
    """
    asked = stems(question.text)
    lines: dict[str, str] = {}
    opened: list[str] = []
    text = await desk.ask("toc_root", **more)
    while desk.calls < WALK_CALLS:
        lines |= _read(text)
        left = {name: line for name, line in lines.items() if name not in desk.opened and not _known(line, opened)}
        name = _best(left, asked, bottom=desk.calls == WALK_CALLS - 1)
        if not name:
            return False
        if name.startswith("grip:"):
            words = await desk.ask("expand_grip", grip_id=name)
            if question.answer in words:
                return True
            opened.append("\n".join(line for line in words.splitlines() if line.startswith(">")))
        else:
            text = await desk.ask("get_node", node_id=name, **more)
            opened.append(text.partition("\n")[0])
    return False


async def _jump(desk: Desk, question: Question) -> bool:
    """Search for the question as it stands, and open the best hit if the answer is not before one yet."""
    text = await desk.ask("teleport", query=question.text)
    if question.answer not in text and (grip := re.search(r"grip:\S+", text)):
        text = await desk.ask("expand_grip", grip_id=grip[0])
    return question.answer in text


def _read(text: str) -> dict[str, str]:
    """The places to go and the grips of an answer, each with what stands beside it.

    A line speaks for the node it stands under as well.
    """
    lines: dict[str, str] = {}
    node = ""
    for line in text.splitlines():
        if (match := _NODE.fullmatch(line)) and not _LINE.fullmatch(line):
            node = match[2]
            lines[node] = f"{match[1] or ''}{match[3]}"
        elif match := _LINE.fullmatch(line):
            lines[match[1]] = line
            if node:
                lines[node] += line
    return lines


def _known(line: str, opened: list[str]) -> bool:
    """Whether a line says what was read where a grip was opened, or is called as a node that was: it has no more."""
    words = stems(re.sub(r"grip:\S+|\[.*\]", "", line))
    return any(len(words & stems(text)) >= 0.9 * len(words) for text in opened)


def _best(lines: Mapping[str, str], asked: frozenset[str], *, bottom: bool) -> str:
    """The line that shares most with the question; of equals the deepest, then the one that stands first."""
    names = [name for name in lines if not bottom or name.startswith("grip:")]
    scores = dict(zip(names, shared(asked, [lines[name] for name in names]), strict=True))
    return max(names, key=lambda name: (round(scores[name], 3), _depth(name)), default="")


def _depth(name: str) -> int:
    return next((level for level in Level if name.startswith(f"toc:{level.label}:")), Level.SEGMENT + 1)
