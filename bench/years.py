"""Invented years at several desks: many projects and clients, a few of them rare, files, notes, one long session.

What is rare lies at the beginning, where a list that goes from the latest back finds it last.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from bench.histories import LANGUAGE, SESSIONS_PER_BATCH
from mcp_memory.app import App
from mcp_memory.domain.events import Captured, EventType, Intake, Role
from mcp_memory.domain.handed import Handed

PROJECTS = ("harbour", "orchard", "quarry", "foundry", "granary", "mill", "tannery", "smithy")
CLIENTS = ("claude-code", "codex", "cursor")
#: Those of the first sessions alone.
SMALL_PROJECT, RARE_CLIENT = "lighthouse", "gemini"
_RARE = range(40, 200, 40)
LONG_SESSION = "long-one"
_LONG_EVENTS = 5_000
_SESSION_EVENTS = 30
_SESSIONS_A_DAY = 9
_BEGIN = datetime(2015, 1, 5, 8, tzinfo=UTC)
_STEP = timedelta(seconds=40)
_TURN = 6
#: How much agents were handed, the more the larger a memory is.
_EVENTS_PER_ANSWER = 100


async def add_years(app: App, events: int) -> None:
    """So many events: sessions of a usual length, and one that goes on for days."""
    long = min(_LONG_EVENTS, events // 10)
    sessions = (events - long) // _SESSION_EVENTS
    batch: list[Intake] = []
    for number in range(sessions):
        told = list(_session(number))
        batch.append(Intake(tuple(app.intaker.prepare(told)), "", project_of(number)))
        if len(batch) == SESSIONS_PER_BATCH:
            await app.store.add(batch)
            batch = []
    middle = list(_events(sessions, LONG_SESSION, CLIENTS[0], _start(sessions // 2), long))
    await app.store.add([*batch, Intake(tuple(app.intaker.prepare(middle)), "", PROJECTS[0])])
    await _hand_over(app, events // _EVENTS_PER_ANSWER, sessions)


async def _hand_over(app: App, many: int, sessions: int) -> None:
    """What agents were told in the last days."""
    rng = random.Random(many)
    for nth in range(many):
        number = sessions - 1 - (many - nth) * min(300, sessions) // (many + 1)
        at_ms = round(_start(number).timestamp() * 1000)
        told = (f"session:s{number - rng.randrange(40)}", f"toc:day:{_start(number - 9):%Y-%m-%d}")
        kind, label = rng.choice(("brief", "teleport", "get_node")), project_of(number)
        row = Handed(at_ms, kind, CLIENTS[0], f"s{number}", label=label, ids=told, tokens=400)
        await app.inbox.note_handed(row, (), ("", ""))


def project_of(number: int) -> str:
    """Each project has about half as many sessions as the one before it."""
    if number in _RARE:
        return SMALL_PROJECT
    return random.Random(number).choices(PROJECTS, [0.5**nth for nth in range(len(PROJECTS))])[0]


def _session(number: int) -> Iterator[Captured]:
    client = RARE_CLIENT if number in _RARE else random.Random(f"client {number}").choices(CLIENTS, (6, 3, 1))[0]
    yield from _events(number, f"s{number}", client, _start(number), _SESSION_EVENTS)


def _start(number: int) -> datetime:
    day, nth = divmod(number, _SESSIONS_A_DAY)
    return _BEGIN + timedelta(days=day, hours=nth, minutes=number * 7 % 30)


def _events(number: int, name: str, client: str, start: datetime, many: int) -> Iterator[Captured]:
    rng = random.Random(number)
    files = [f"src/{LANGUAGE.words[rng.randrange(60)]}/{LANGUAGE.words[rng.randrange(400)]}.py" for _ in range(3)]
    for index in range(many):
        kind, role, text, metadata = _turn(rng, index, many, files)
        yield Captured(
            client=client,
            session_id=name,
            source_key=str(index),
            timestamp_ms=round((start + _STEP * index).timestamp() * 1000),
            event_type=kind,
            role=role,
            text=text,
            source_ids=(f"{name}/{index}",),
            metadata=metadata,
        )


def _turn(
    rng: random.Random, index: int, many: int, files: list[str]
) -> tuple[EventType, Role, str, dict[str, object]]:
    """A request, calls and what was said between them; at the end of some sessions a title or a note."""
    if index == many - 1 and rng.random() < 0.5:
        title = " ".join(LANGUAGE.phrase(rng, 5))
        return EventType.SESSION_TITLE, Role.SYSTEM, title, {}
    if index == many - 2 and rng.random() < 0.02:
        return EventType.NOTE, Role.USER, LANGUAGE.text(rng, 1), {"pin": rng.random() < 0.1}
    if index % _TURN == 0:
        return EventType.USER_MESSAGE, Role.USER, f"Please fix {LANGUAGE.text(rng, rng.randrange(1, 4))}", {}
    if index % _TURN == 3:
        file = rng.choice(files)
        change = "\n".join(f"{sign}{LANGUAGE.text(rng, 1)}" for sign in "-++")
        return EventType.TOOL_RESULT, Role.TOOL, f"Edit: {file}\n{change}", {"tool": "Edit", "files": [file]}
    if index % 2:
        output = "\n".join(LANGUAGE.text(rng, 1) for _ in range(rng.randrange(2, 10)))
        return EventType.TOOL_RESULT, Role.TOOL, f"Bash: pytest {LANGUAGE.name(rng)}\n{output}", {"tool": "Bash"}
    return EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, LANGUAGE.text(rng, rng.randrange(1, 6)), {}
