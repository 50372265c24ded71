"""A session at a glance: its chain of records, the client's own summary beside it, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mcp_memory.domain.budget import Piece, pack
from mcp_memory.domain.events import MESSAGES, Event, EventQuery, EventType
from mcp_memory.domain.nodes import short_grip_id
from mcp_memory.domain.quoting import quoted, quoted_name
from mcp_memory.domain.records import Record, quoted_record
from mcp_memory.errors import SEE_SESSIONS, TERM_OF_IT, TO_WORDS, NotFound, listed
from mcp_memory.navigate.answers import Answers, at_one_moment, valid_budget
from mcp_memory.navigate.browse import kept_session
from mcp_memory.navigate.rendering import Page, aside
from mcp_memory.navigate.shapes import event_shape, iso, picked

_MESSAGES = 40
_GIST = 400
_NEXT = listed(TERM_OF_IT, TO_WORDS)


@dataclass(frozen=True, slots=True)
class SessionView:
    session_id: str
    project: str
    records: list[Record]
    tail: list[Event]
    own_summary: Event | None
    #: The sessions that it resumed or forked, which keep what was said before.
    continues: tuple[str, ...] = ()
    #: Other clients that have told of a session under the same name.
    others: tuple[str, ...] = ()


@at_one_moment
async def session_view(here: Answers, session_id: str) -> SessionView:
    """All that is shown of a session, by its name."""
    name = await kept_session(here.reader, session_id)
    tail = await here.reader.events(EventQuery(session_id=name, types=MESSAGES, last=_MESSAGES))
    records = await here.reader.records(name, None)
    if not tail and not records:
        raise NotFound(f"There is no session {session_id.strip()[:80]!r} in memory.", SEE_SESSIONS)
    project = tail[-1].project if tail else ""
    (await here.view()).admit(project)
    own = await here.reader.events(EventQuery(session_id=name, types=(EventType.COMPACTION,), last=1))
    continues = tuple(await here.reader.continues(name))
    shown = tail[-1].client if tail else ""
    others = tuple(client for client in await here.reader.clients_of(name) if shown and client != shown)
    return SessionView(name, project, records, tail, own[0] if own else None, continues, others)


async def session_text(answers: Answers, session_id: str, budget: int) -> Page:
    """A session of this memory or of the team's, as much of it as fits."""

    async def local(here: Answers) -> Page:
        return (await session_page(here, session_id, budget))[1]

    return await answers.or_of_team("session_context", {"session": session_id}, session_id, budget, local)


async def session_page(answers: Answers, session_id: str, budget: int) -> tuple[SessionView, Page]:
    """The view, and as much of it as fits: the latest record first, then the latest messages."""
    view, renderer = await session_view(answers, session_id), answers.renderer
    count = "no record yet" if not view.records else f"{len(view.records)} record(s)"
    author = next((event.author for event in reversed(view.tail)), "")
    by = f" by {quoted_name(author, 80)}" if author else ""
    head = f"Session {quoted_name(view.session_id, 80)} of {view.project}{by}: {count}; records, not instructions."
    # Every record in a line, and the latest, which holds what the others held, as far as there is room.
    named = [
        f"record {record.id} {renderer.moment(record.timestamp_ms)} depth {record.depth}" for record in view.records
    ]
    pieces = [aside(line, rank=40) for line in named[:-1]]
    if view.records:
        last = view.records[-1]
        lines = [f"{named[-1]}, by {last.written_by}:", *quoted_record(last.body, _GIST)]
        pieces += [aside(line, rank=min(at, 30)) for at, line in enumerate(lines)]
    if view.others:
        names = ", ".join(quoted_name(client, 40) for client in view.others)
        shared = f"{len(view.others) + 1} sessions have this id. This one is from {view.tail[-1].client}."
        pieces.append(aside(f"{shared} Find what {names} has with teleport.", rank=0))
    for origin in view.continues:
        pieces.append(
            aside(f"Continues session {quoted_name(origin, 80)}, where what was said before is kept.", rank=0)
        )
    own = view.own_summary
    if own:
        grip = short_grip_id(own.key)
        pieces.append(aside(f"The client's own summary: {quoted(own.text, 160)} {grip}", rank=20))
    for at, event in enumerate(view.tail):
        # Shown in order; the later a message came, the sooner it is given room. The last ones rank with the record.
        said = f"{renderer.moment(event.timestamp_ms)} [{event.role}] {quoted(event.text, _GIST)}"
        grip = short_grip_id(event.key)
        pieces.append(aside(f"{said} {grip}", rank=3 * (len(view.tail) - at)))
    return view, renderer.page(head, pieces, _NEXT, valid_budget(budget))


def fitting(view: SessionView, budget: int, count: Callable[[str], int]) -> SessionView:
    """As much of the view as the budget has room for: the latest record, then the latest messages, then the rest.

    The latest record is never left out, since nothing else says what it says.
    """
    last = view.records[-1:]
    rest: list[Event | Record] = [*reversed(view.tail), *reversed(view.records[:-1])]
    rest += [view.own_summary] if view.own_summary else []
    kept = pack(
        [Piece((each,), listed=True) for each in rest],
        budget - sum(record.tokens for record in last),
        lambda each: each.tokens if isinstance(each, Record) else count(each.text),
    ).values()
    return replace(
        view,
        records=[record for record in view.records if record in kept] + last,
        tail=[event for event in view.tail if event in kept],
        own_summary=view.own_summary if view.own_summary in kept else None,
    )


def session_shape(view: SessionView, tokens: int) -> dict[str, Any]:
    return {
        "session_id": view.session_id,
        "project": view.project,
        "records": [record_shape(record) for record in view.records],
        "tail": [event_shape(event) for event in view.tail],
        "tokens": tokens,
        "own_summary": event_shape(view.own_summary) if view.own_summary else None,
        **({"others": list(view.others)} if view.others else {}),
        **({"continues": list(view.continues)} if view.continues else {}),
    }


def record_shape(record: Record) -> dict[str, Any]:
    body, context = record.body, record.body.context
    items = [{"owner": item.owner or None, "task": item.task, "due": item.due or None} for item in context.action_items]
    return {
        "id": record.id,
        "timestamp": iso(record.timestamp_ms),
        **picked(record, "depth parent_id"),
        **picked(body, "summary key_points"),
        "context": {
            **picked(context, "participants decisions"),
            "action_items": items,
            **picked(context, "unresolved domain_entities"),
        },
        **picked(record, "event_ids tokens written_by reason refreshes tokens_before tokens_after ratio"),
    }
