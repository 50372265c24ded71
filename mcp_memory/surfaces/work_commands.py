"""The commands that tell of the work itself: where one is, the sessions, the last one, today, what is open, a file.

Each answers with a dictionary for --json, and else draws.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcp_memory.domain.events import short_session
from mcp_memory.domain.inventory import SessionInfo
from mcp_memory.domain.nodes import Kind, NodeQuery
from mcp_memory.domain.quoting import quoted, quoted_name
from mcp_memory.domain.toc import Level, Scope
from mcp_memory.errors import UsageError, did_you_mean
from mcp_memory.navigate.answers import Answers
from mcp_memory.navigate.browse import ALL
from mcp_memory.navigate.overview import (
    changed_files,
    open_now,
    session_cards,
)
from mcp_memory.navigate.shapes import hit_shape, iso, picked
from mcp_memory.navigate.work_questions import work_hits
from mcp_memory.search.hits import Hit
from mcp_memory.search.question import Query
from mcp_memory.surfaces import terminal
from mcp_memory.surfaces.look_commands import from_one_moment, hit_entry, titles_of, told_of
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.terminal import Listed

_MOST = 500
#: How much stands where one is: what is open, and among how many sessions the last one is looked for.
_OPEN = 3
_CHART_DAYS = 56
_OPEN_LABEL = f"{Kind.OPEN.label}: "
_FIRST_STEPS = (
    "This memory is empty. Begin with one of these:",
    "",
    "  mcp-memory import      brings in what your agents did so far",
    "  mcp-memory install     connects an agent, so that its sessions are captured from now on",
    "  mcp-memory demo        loads an invented history to look around in",
)
_ONWARD = (
    "  mcp-memory last              where the last session stopped",
    '  mcp-memory search "WORDS"    find what was said',
    "  mcp-memory --help            everything else",
)


@from_one_moment
async def here(answers: Answers, options: argparse.Namespace) -> Answer:
    """Where one is: the project of this directory, its last session, what is open, and what to do next."""
    reader, home = answers.reader, (await answers.view()).home
    slugs = await reader.slugs()
    if not slugs:
        return terminal.show(*_FIRST_STEPS)
    scope = Scope(home, home)
    parts: list[str | Listed] = []
    if home is None:
        named = ", ".join(slugs[:8]) + (", …" if len(slugs) > 8 else "")
        noted = await reader.project_of_root(answers.root, answers.label, answers.remote)
        held = "No session, only notes are" if noted else "Nothing is"
        parts.append(f"{held} remembered of {answers.root or answers.label} yet. Memory holds: {named}.")
    else:
        parts.append(Listed(home, await _standing(answers, home)))
    card, left = await _last_card(answers, home), (await open_now(reader, scope, _OPEN)).hits
    if card:
        parts += ["", "Last session:", _card_entry(answers, card, several=home is None, beside=left)]
    if left:
        parts += ["", "Open:", *_open_points(left)[:_OPEN]]
    if not card and (waiting := await answers.waiting(scope)):
        parts.append(waiting.strip())
    return terminal.show(*parts, "", *_ONWARD)


async def _standing(answers: Answers, project: str) -> list[str]:
    """How active a project was lately."""
    days = await answers.reader.active_days(project)
    if not days:
        return []
    today = answers.now.date()
    first = max(days[0].day, today.fromordinal(today.toordinal() - _CHART_DAYS + 1))
    return [terminal.activity_line(days, min(first, today), today) or f"last active {days[-1].day}"]


async def _last_card(answers: Answers, project: str | None) -> SessionInfo | None:
    cards = await session_cards(answers.reader, project, limit=1)
    return cards[0] if cards else None


def _left_open(hit: Hit) -> list[str]:
    """What a segment left open, without the label: it stands in a list of such things."""
    return [line.removeprefix("- ").removeprefix(_OPEN_LABEL) for line in hit.passage.text.splitlines()]


def _open_points(hits: Sequence[Hit]) -> list[Listed]:
    """What is open, a line each, with the segment that left it so."""
    return [Listed(text, id=hit.short_id or hit.id, point=True) for hit in hits for text in _left_open(hit)]


def _card_entry(answers: Answers, card: SessionInfo, *, several: bool, beside: Sequence[Hit] = ()) -> Listed:
    """A session by its title, when it was, how long it took, and how it ended, unless that stands `beside` as open."""
    facts = [
        # Where the date of its end would be named, that of its beginning is enough.
        *([terminal.ago(card.end_ms, answers.now)] if terminal.is_recent(card.end_ms, answers.now) else []),
        answers.renderer.moment(card.start_ms),
        terminal.lasted(card.start_ms, card.end_ms),
        f"{card.events} event{'s' * (card.events != 1)}",
        card.client,
        *([card.project] if several else []),
        *(["still open"] if card.open else []),
    ]
    told = card.outcome if not (beside and card.outcome.startswith(_OPEN_LABEL)) else ""
    below = [Listed(told, lead="→", tone="cyan")] if told else []
    return Listed(
        quoted(card.title, starts_line=True), facts, f"s:{quoted_name(short_session(card.session_id))}", below
    )


def _card_shape(card: SessionInfo) -> dict[str, Any]:
    times = {"start_time": iso(card.start_ms), "end_time": iso(card.end_ms)}
    return {
        **picked(card, "session_id client project title"),
        **times,
        **picked(card, "events segments outcome open"),
    }


@from_one_moment
async def sessions(answers: Answers, options: argparse.Namespace) -> Answer:
    return await list_sessions(answers, options.project, options.client, options.limit, as_json=options.json)


async def list_sessions(
    answers: Answers, project: str | None, client: str | None, limit: int, *, as_json: bool
) -> Answer:
    """The sessions, those first that were active last."""
    if not 1 <= limit <= _MOST:
        raise UsageError(f"--limit takes a number from 1 to {_MOST}, not {limit}.")
    scope = await answers.scope(project)
    known = await answers.reader.clients()
    if client and client not in known:
        named = f"Known are: {', '.join(known) or 'none yet'}.{did_you_mean(client, known)}"
        raise UsageError(f"Nothing in memory is of a client {client!r}. {named}")
    cards = await session_cards(answers.reader, scope.project, client, limit=limit)
    if as_json:
        return {"project": scope.project or ALL, "sessions": [_card_shape(card) for card in cards]}
    if not cards:
        return await _no_session(answers, scope)
    return terminal.show(*(_card_entry(answers, card, several=scope.project is None) for card in cards))


async def _no_session(answers: Answers, scope: Scope) -> Answer:
    step = " `mcp-memory import` loads old history, and `mcp-memory process` sorts it in."
    told = f"No session is in the summaries here yet.{await answers.waiting(scope) or step}"
    return terminal.show(f"{told}{_everywhere(scope, 'sessions')}")


def _everywhere(scope: Scope, command: str) -> str:
    """Where one project was looked at: how to look at all."""
    return f" `mcp-memory {command} --project '*'` looks in all projects." if scope.project else ""


@from_one_moment
async def last(answers: Answers, options: argparse.Namespace) -> Answer:
    """Where the last session stopped: its title, what was asked last, how it ended, and what is open."""
    scope = await answers.scope(options.project)
    found = (await work_hits(answers.reader, Query(scope, "", None), "stopped")).hits
    asked = [hit for hit in found if hit.role][:1]
    named = asked[0].session_id if asked else None
    cards = await session_cards(answers.reader, scope.project, session_id=named, limit=1) if named else []
    left = (await open_now(answers.reader, scope, _OPEN)).hits
    if options.json:
        return {
            "project": scope.project or ALL,
            "session": _card_shape(cards[0]) if cards else None,
            "asked": hit_shape(asked[0], asked[0].title) if asked else None,
            "open": [hit_shape(hit, hit.title) for hit in left],
        }
    if not cards:
        return await _no_session(answers, scope)
    parts: list[str | Listed] = [_card_entry(answers, cards[0], several=scope.project is None, beside=left)]
    for hit in asked:
        parts += ["", "Asked last:", hit_entry(answers, hit)]
    if left:
        parts += ["", "Open:", *_open_points(left)]
    step = f"`mcp-memory session {short_session(cards[0].session_id)}` shows its latest messages."
    return terminal.show(*parts, "", step)


@from_one_moment
async def today(answers: Answers, options: argparse.Namespace) -> Answer:
    """What was done today; if nothing was, when it was last."""
    scope = await answers.scope(options.project)
    asked = argparse.Namespace(**vars(options) | {"topic": None, "budget": None})
    day = answers.when("today")
    assert day is not None
    done = await answers.reader.nodes(
        NodeQuery.touching(scope.project, Level.SEGMENT, day.start_ms, day.end_ms, limit=1)
    )
    if done and not options.json:
        return await told_of(answers, asked, "today")
    card = await _last_card(answers, scope.project)
    if options.json:
        told = await told_of(answers, asked, "today")
        assert isinstance(told, dict)
        return told | {"last": _card_shape(card) if card else None}
    head = f"Nothing of today is in the summaries yet.{await answers.waiting(scope)}"
    if not card:
        return head
    return terminal.show(head, "", "The last session:", _card_entry(answers, card, several=scope.project is None))


@from_one_moment
async def open_work(answers: Answers, options: argparse.Namespace) -> Answer:
    """What is open now, the latest first."""
    scope = await answers.scope(options.project)
    found = await open_now(answers.reader, scope, _limit(options))
    if options.json:
        hits = [hit_shape(hit, hit.title) for hit in found.hits]
        return {"project": scope.project or ALL, "open": hits}
    if not found.hits:
        return terminal.show(f"Nothing is known to be open here.{_everywhere(scope, 'open')}")
    several = len({hit.project for hit in found.hits}) > 1
    return terminal.show(
        *(
            replace(
                hit_entry(answers, hit, several=several),
                below=[Listed(text, point=True) for text in _left_open(hit)],
            )
            for hit in found.hits
        )
    )


@from_one_moment
async def file(answers: Answers, options: argparse.Namespace) -> Answer:
    """What was done to a file, when and why, the latest first."""
    scope = await answers.scope(options.project)
    found = await work_hits(answers.reader, Query(scope, "", limit=_limit(options)), "file", options.path)
    titles = await titles_of(answers.reader, found.hits)
    if options.json:
        hits = [hit_shape(hit, titles.get(hit.node_id, hit.title)) for hit in found.hits]
        return {"project": scope.project or ALL, "path": options.path, "changes": hits}
    if not found.hits:
        known = [one.path for one in await changed_files(answers.reader, scope.project)]
        near = did_you_mean(options.path, known, [path.rpartition("/")[2] for path in known])
        told = f"No change of {options.path} is known here.{near} A change by a command such as `sed` is not seen."
        return terminal.show(f"{told}{_everywhere(scope, f'file {shlex.quote(options.path)}')}")
    several = len({hit.project for hit in found.hits}) > 1
    entries = [hit_entry(answers, hit, titles.get(hit.node_id, ""), several=several) for hit in found.hits]
    more = ["There is more: raise --limit."] if found.more else []
    return terminal.show(*entries, *more)


def _limit(options: argparse.Namespace) -> int:
    if not 1 <= options.limit <= _MOST:
        raise UsageError(f"--limit takes a number from 1 to {_MOST}, not {options.limit}.")
    return int(options.limit)
