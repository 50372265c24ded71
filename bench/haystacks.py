"""How often the right session comes back from a haystack of fifty, which is how others measure LongMemEval.

Its questions come with haystacks of their own, of about fifty sessions; the data at hand hold one store for all. So
each question gets its evidence and as many other sessions, drawn by a fixed seed. Without the data, nothing is done.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from bench.measure import SHARED, Figure
from bench.recall import LONGMEMEVAL, MANY, evidence_of, set_of
from mcp_memory.app import open_app
from mcp_memory.clients import CLIENTS
from mcp_memory.config import Calendar, Settings
from mcp_memory.pipeline.importing import import_files

SESSIONS = 50
_TOLD = "told.jsonl"


def run(scratch: Path, *, large: bool) -> list[Figure]:
    questions = set_of("LongMemEval")
    if not questions.at_hand():
        return []
    lines, session_of = _sessions(SHARED / LONGMEMEVAL.path)
    asked = questions.asked()
    ranks = []
    for number, question in enumerate(asked):
        meant = {session_of[name] for name in evidence_of(question)}
        home = scratch / f"haystack-{number}"
        home.mkdir()
        told = [line for session in _haystack(number, meant, sorted(lines)) for line in lines[session]]
        (home / _TOLD).write_text("".join(f"{line}\n" for line in told), "utf-8")
        ranks.append(anyio.run(_rank, home, question, meant))
    note = f"{len(ranks)} questions, each in {SESSIONS} sessions"
    return [
        Figure(f"LongMemEval, any right session among the first {k}", _share(ranks, k), unit="", note=note)
        for k in (1, 5)
    ]


def _sessions(corpus: Path) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The lines of each session, and the session of each line by its name."""
    lines: dict[str, list[str]] = defaultdict(list)
    session_of: dict[str, str] = {}
    for line in corpus.read_text("utf-8").splitlines():
        told = json.loads(line)
        lines[told["session_id"]].append(line)
        session_of[told["source_id"]] = told["session_id"]
    return lines, session_of


def _haystack(number: int, meant: set[str], sessions: Sequence[str]) -> list[str]:
    others = [session for session in sessions if session not in meant]
    return sorted([*meant, *random.Random(number).sample(others, SESSIONS - len(meant))])


async def _rank(home: Path, question: Mapping[str, Any], meant: set[str]) -> int:
    """The rank of the first session that holds evidence, sessions being ranked by their best hit; 0 if none does."""
    async with open_app(Settings(home=home, calendar=Calendar("UTC")), cwd=home) as app:
        await import_files(app.store, app.inbox, [(CLIENTS["jsonl"], home / _TOLD)], app.intaker)
        found, _ = await app.answers.search(question["question"], "*", limit=MANY)
    ranked = list(dict.fromkeys(hit.session_id for hit in found.hits if hit.session_id))
    return next((rank for rank, session in enumerate(ranked, 1) if session in meant), 0)


def _share(ranks: Sequence[int], k: int) -> float:
    return sum(0 < rank <= k for rank in ranks) / len(ranks)
