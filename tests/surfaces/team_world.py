"""A team in which ada keeps some things to herself; and the same team if she had said none of that.

Each secret has a word of its own, which stands in nothing else. Whoever asks may know all ids of what is hidden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from mcp_memory.app import App
from mcp_memory.domain.events import PRIVATE
from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.people import Viewer
from mcp_memory.domain.toc import Level
from mcp_memory.store.team_port import TeamStore
from tests.surfaces.team_server import TeamDesk, team_server
from tests.surfaces.team_talk import ADA, BOB, CAROL, line, tell
from tests.surfaces.walk import PLAIN, Values

#: Said by ada: within a session of the team, in a session and in a project of her own, as notes; and in a project that
#: eve reads, too.
WITHIN, ALONE, PROJECT, NOTE, PINNED, CLOSED = "xylograph", "quagga", "oxlip", "nougat", "pumice", "kumquat"
OWN = (WITHIN, ALONE, PROJECT, NOTE, PINNED)
#: The session of hers alone, by more of its name than one would type.
HIDDEN_SESSION = "feedface-0a0a-4b4b-8c8c-0d0d0d0d0d0d"
#: What holds her notes.
NOTES = "notes:ada:remote:git.example.org/team/shop"
#: Beyond all that is said in it, so that it is the same whenever a test runs.
NOW = "2026-03-20T12:00:00Z"
DAY = "2026-03-11"

_WITHIN = [
    line("09:01:30", "user", f"Between us: the {WITHIN} customer pays nothing.", "ada-1", DAY),
    line("09:02:30", "assistant", f"Decision: the {WITHIN} retry is left out of src/{WITHIN}.py.", "ada-1", DAY),
]
_ALONE = [
    line("14:00:00", "user", f"Please mend the {ALONE} importer of the checkout.", HIDDEN_SESSION, DAY),
    line("14:01:00", "assistant", f"Decided: the {ALONE} importer writes to `src/{ALONE}.py`.", HIDDEN_SESSION, DAY)
    | {"metadata": {"tool": "Edit", "files": [f"src/{ALONE}.py"]}},
    line("14:02:00", "tool", f"Edit: src/{ALONE}.py\n+ {ALONE} = 1", HIDDEN_SESSION, DAY),
    line("14:03:00", "assistant", f"Fixed: the {ALONE} importer works; all 12 tests pass.", HIDDEN_SESSION, DAY),
]
_PROJECT = [
    line("15:00:00", "user", f"Plan the {PROJECT} release of the checkout.", f"{PROJECT}-1", DAY),
    line("15:01:00", "assistant", f"Decided: {PROJECT} is released on Friday.", f"{PROJECT}-1", DAY),
]
_CLOSED = [
    line("16:00:00", "user", f"How is the {CLOSED} payment signed?", f"{CLOSED}-1", DAY),
    line("16:01:00", "assistant", f"Decided: {CLOSED} is signed with Ed25519, in src/{CLOSED}.py.", f"{CLOSED}-1", DAY),
    line("16:02:00", "assistant", f"Done: the {CLOSED} payment is signed; all 9 tests pass.", f"{CLOSED}-1", DAY),
]


def _on(lines: list[dict[str, Any]], day: str) -> list[dict[str, Any]]:
    return [one | {"timestamp": f"{day}{one['timestamp'][10:]}"} for one in lines]


async def plain(app: App) -> None:
    """What all of the team may read."""
    await cast(TeamStore, app.store).become_team("UTC")
    for author, lines, day in (("ada", ADA, DAY), ("bob", BOB, DAY), ("carol", CAROL, "2026-03-17")):
        await tell(app, author, _on(lines, day))
    await _build(app, "ada-1", "bob-1")


async def with_secrets(app: App) -> None:
    """The same, and what is hidden from some."""
    await plain(app)
    await tell(app, "ada", _WITHIN, visibility=PRIVATE)
    await tell(app, "ada", _ALONE, visibility=PRIVATE)
    await tell(app, "ada", _PROJECT, remote="", name=PROJECT, visibility=PRIVATE)
    await tell(app, "ada", _CLOSED, remote="", name=CLOSED)
    ada = app.seen_by(Viewer("ada"))
    await ada.remember(f"The {NOTE} is in the fridge.", project="shop")
    await ada.remember(f"The {PINNED} stone floats.", pin=True, project="shop", kind="rule")
    await _build(app, f"{CLOSED}-1")


async def without_secrets(app: App) -> None:
    """As much, so that words are as rare as before; but none of it, and nowhere near."""
    await plain(app)
    many = len([*_WITHIN, *_ALONE, *_PROJECT, *_CLOSED]) + 2
    said = [line(f"09:00:{at:02}", "user", "Nothing in particular.", "elsewhere", "2025-01-01") for at in range(many)]
    await tell(app, "ada", said, remote="", name="elsewhere", visibility=PRIVATE)
    await _build(app)


async def _build(app: App, *condensed: str) -> None:
    await app.pipeline.until_idle()
    for session in condensed:
        await app.pipeline.compactor.compact(session, force=True)
    await app.pipeline.until_idle()
    await app.pipeline.lease.release()


@asynccontextmanager
async def team(home: Path, fill: Callable[[App], Awaitable[None]] = with_secrets) -> AsyncIterator[TeamDesk]:
    """The server of one of the two, on which members may ask as often as they like; eve reads the closed project."""
    async with team_server(home, fill, {"MCP_MEMORY_NOW": NOW}) as desk:
        desk.guard.rate.burst = desk.guard.failures.burst = 1e9
        await desk.add_user("eve")
        for name in ("ada", "eve") if fill is with_secrets else ():
            await desk.store.add_member(CLOSED, name)
        yield desk


async def values_of(desk: TeamDesk) -> Values:
    """What one passes who wants to see all of it and knows every id."""
    events = [event for _, event in await desk.store.log(0, None, 999)]
    hidden = {word: next(event for event in events if word in event.text) for word in (*OWN, CLOSED)}
    assert {event.visibility for word, event in hidden.items() if word != CLOSED} == {PRIVATE}
    grips = [f"grip:{event.timestamp_ms}:{event.event_id}" for event in hidden.values()]
    ids = [hidden[word].event_id for word in (WITHIN, CLOSED)]
    [segment] = await desk.store.nodes(NodeQuery.latest(CLOSED, Level.SEGMENT, 9))
    [shared, *_] = await desk.store.nodes(NodeQuery.latest("shop", Level.SEGMENT, 9))
    nodes = [f"{segment.node_id}@{CLOSED}", segment.node_id[:-16], shared.node_id]
    nodes += [f"toc:day:{DAY}{at}" for at in ("", f"@{CLOSED}", f"@team/{PROJECT}")]
    sessions = [HIDDEN_SESSION, HIDDEN_SESSION[:8], f"{PROJECT}-1", f"{CLOSED}-1", "ada-1", NOTES]
    return {
        **PLAIN,
        "project": ["*", PROJECT, f"team/{CLOSED}"],
        "node_id": nodes,
        "grip_id": [*grips, f"grip:{ids[0][10:18]}", ids[1]],
        "session": sessions,
        "session_id": sessions,
        "focus": [nodes[0], nodes[-1], grips[0], grips[3], grips[4], grips[5], *sessions[:4]],
        # In capitals, so that an answer that repeats the question is told from one that gives something away.
        "query": ["payment importer of the checkout last week", " ".join((*OWN, CLOSED)).upper()],
        "kind": ["event", "segment"],
        "topic": [f"importer {CLOSED.upper()}"],
        "when": [DAY, "2026"],
        "match": ["importer", *(word.upper() for word in (*OWN, CLOSED))],
        "since_ms": [0],
    }
