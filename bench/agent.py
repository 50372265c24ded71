"""What a question costs an agent: tokens and calls from the question to a verified excerpt, by a simple rule.

The agent is a script that sees nothing but the texts of the tools. It reads on until the excerpt it has opened holds
the answer, as a reader would who knows an answer when it stands before him.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from mcp import Client

from bench.histories import SAMPLE_NOW, load_sample, opened
from bench.measure import Figure, median
from mcp_memory.adapters import tokens
from mcp_memory.config import Calendar, Settings
from mcp_memory.domain.text import STOP_WORDS, stem
from mcp_memory.domain.toc import Level
from mcp_memory.surfaces.opening import Memory
from mcp_memory.surfaces.server import build_server

WALK_CALLS, WALK_TOKENS = 6, 1_500
JUMP_CALLS, JUMP_TOKENS = 2, 400
#: The aims shared out among the calls; the tools' own defaults are more generous.
WALK_BUDGET, JUMP_BUDGET = WALK_TOKENS // WALK_CALLS, JUMP_TOKENS // JUMP_CALLS

_NODE = re.compile(r"(?:> )?(toc:\S+)(.*)")
_BULLET = re.compile(r"- (.*?)(?: (grip:\S+))?")
_GRIP = re.compile(r"grip:\S+")
_WORD = re.compile(r"[^\W_]+")


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


@dataclass(slots=True)
class Desk:
    """What the agent has read and what it cost."""

    client: Client
    calls: int = 0
    tokens: int = 0
    opened: set[str] = field(default_factory=set)

    async def ask(self, tool: str, **arguments: str | int) -> str:
        result = await self.client.call_tool(tool, dict(arguments))
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        self.calls += 1
        self.tokens += tokens.count(text)
        self.opened |= {str(value) for value in arguments.values()}
        return text


def run(scratch: Path, *, large: bool) -> list[Figure]:
    return anyio.run(_run, scratch / "agent")


async def _run(home: Path) -> list[Figure]:
    async with opened(home, SAMPLE_NOW) as app:
        await load_sample(app)
    told: dict[tuple[str, bool], list[tuple[Desk, bool]]] = {}
    for question in QUESTIONS:
        settings = Settings(
            home=home,
            calendar=Calendar("UTC"),
            project=question.project,
            now_ms=round(SAMPLE_NOW.timestamp() * 1000),
        )
        async with Client(build_server(Memory(settings))) as client:
            for name, way in (("walk", _walk), ("jump", _jump)):
                for frugal in (True, False):
                    desk = Desk(client)
                    seen = await way(desk, question, frugal)
                    told.setdefault((name, frugal), []).append((desk, seen))
                    how = f"{name}{', small budget' if frugal else ''}"
                    cost = f"{desk.calls} calls {desk.tokens:>5} tokens, {'answer seen' if seen else 'not seen'}"
                    print(f"   {how:<20} {cost:<36} {question.text}", flush=True)
    return [
        *_figures(f"toc_root down, {WALK_BUDGET} a call", told["walk", True], WALK_CALLS, WALK_TOKENS),
        *_figures("toc_root down, default budgets", told["walk", False], WALK_CALLS, WALK_TOKENS),
        *_figures(f"teleport, {JUMP_BUDGET} a call", told["jump", True], JUMP_CALLS, JUMP_TOKENS),
        *_figures("teleport, default budgets", told["jump", False], JUMP_CALLS, JUMP_TOKENS),
    ]


def _figures(name: str, told: list[tuple[Desk, bool]], calls: int, budget: int) -> list[Figure]:
    spent = [desk.tokens for desk, _ in told]
    missed = sum(not seen for _, seen in told)
    return [
        Figure(f"{name}: calls at most", max(desk.calls for desk, _ in told), calls, ""),
        Figure(f"{name}: tokens at most", max(spent), budget, "", f"median {median(spent):,.0f}"),
        Figure(f"{name}: not seen, of {len(told)}", missed, 0, ""),
    ]


async def _walk(desk: Desk, question: Question, frugal: bool) -> bool:
    """Go down the line that speaks most of the question; open a grip at the bottom, or where a bullet says as much."""
    asked = _stems(question.text)
    more: dict[str, str | int] = {"topic": question.text, "budget_tokens": WALK_BUDGET} if frugal else {}
    grips: dict[str, int] = {}
    text = await desk.ask("toc_root", **more)
    while desk.calls < WALK_CALLS:
        nodes, bullets = _read(text, asked)
        grips |= bullets
        node, node_score = _best(nodes, desk.opened)
        grip, grip_score = _best(grips, desk.opened)
        telling = grip_score >= node_score and 2 * grip_score >= len(asked)
        if grip and (telling or not node or desk.calls == WALK_CALLS - 1):
            if question.answer in await desk.ask("expand_grip", grip_id=grip, **_budget(WALK_BUDGET, frugal)):
                return True
        elif node:
            text = await desk.ask("get_node", node_id=node, **more)
        else:
            return False
    return False


async def _jump(desk: Desk, question: Question, frugal: bool) -> bool:
    """Search for the question as it stands, and open the grip of the best hit that shows one."""
    few: dict[str, str | int] = {"limit": 2} if frugal else {}
    text = await desk.ask("teleport", query=question.text, **few, **_budget(JUMP_BUDGET, frugal))
    if grip := _GRIP.search(text):
        text += await desk.ask("expand_grip", grip_id=grip[0], **_budget(JUMP_BUDGET, frugal))
    return question.answer in text


def _budget(size: int, frugal: bool) -> dict[str, str | int]:
    return {"budget_tokens": size} if frugal else {}


def _read(text: str, asked: frozenset[str]) -> tuple[dict[str, int], dict[str, int]]:
    """The places to go and the grips of an answer, with how many of the question's words stand beside them.

    A bullet speaks for the node it stands under as well.
    """
    nodes: dict[str, int] = {}
    grips: dict[str, int] = {}
    node = ""
    for line in text.splitlines():
        if match := _NODE.fullmatch(line):
            node = match[1]
            nodes[node] = _shared(match[2], asked)
        elif match := _BULLET.fullmatch(line):
            score = _shared(match[1], asked)
            if node:
                nodes[node] = max(nodes[node], score)
            if match[2]:
                grips[match[2]] = score
    return nodes, grips


def _best(scores: dict[str, int], opened_ids: set[str]) -> tuple[str, int]:
    """The best that was not opened yet; of equals the deepest in the tree, then the one that stands first."""
    left = {name: score for name, score in scores.items() if name not in opened_ids}
    name = max(left, key=lambda name: (left[name], _depth(name)), default="")
    return name, left.get(name, 0)


def _depth(name: str) -> int:
    return next((level for level in Level if name.startswith(f"toc:{level.label}:")), Level.SEGMENT)


def _shared(text: str, asked: frozenset[str]) -> int:
    return len(asked & _stems(text))


def _stems(text: str) -> frozenset[str]:
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(stem(word) for word in words if word not in STOP_WORDS)
