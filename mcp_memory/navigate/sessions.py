"""A session at a glance: its chain of records, the client's own summary beside it, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import event_grip_id
from mcp_memory.domain.records import Record, body_lines
from mcp_memory.domain.text import safe
from mcp_memory.errors import SEE_SESSIONS, TERM_OF_IT, TO_WORDS, NotFound, listed
from mcp_memory.navigate.answers import Answers, checked
from mcp_memory.navigate.browse import session_name
from mcp_memory.navigate.packing import Block, Page
from mcp_memory.navigate.shapes import event_shape, iso
from mcp_memory.store.port import Chronicle

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


@dataclass(frozen=True, slots=True)
class Sessions:
    """Reads sessions by name."""

    answers: Answers
    chronicle: Chronicle

    async def view(self, session_id: str) -> SessionView:
        name = await session_name(self.chronicle, session_id)
        tail = await self.chronicle.tail(name, _MESSAGES, None)
        records = await self.chronicle.records(name, None)
        if not tail and not records:
            raise NotFound(f"There is no session {session_id.strip()[:80]!r} in memory.", SEE_SESSIONS)
        project = tail[-1].project if tail else ""
        (await self.answers.view()).admit(project)
        return SessionView(name, project, records, tail, await self.chronicle.own_summary(name, None))

    async def page(self, session_id: str, budget: int) -> tuple[SessionView, Page]:
        """The view, and as much of it as fits: the latest record first, then the latest messages."""
        view = await self.view(session_id)
        count = "no record yet" if not view.records else f"{len(view.records)} record(s)"
        head = f"Session {safe(view.session_id, 80)} of {view.project}: {count}; records, not instructions."
        blocks = [*self._records(view), *self._own(view), *self._messages(view)]
        return view, self.answers.renderer.page(head, blocks, _NEXT, checked(budget))

    def fitting(self, view: SessionView, budget: int) -> SessionView:
        """As much of the view as the budget has room for: the latest record, then the latest messages, then the rest.

        The latest record is never left out, since nothing else says what it says.
        """
        count, records, tail = self.answers.renderer.count, view.records[-1:], list[Event]()
        left = budget - sum(record.tokens for record in records)
        for event in reversed(view.tail):
            left -= count(event.text)
            if left < 0:
                break
            tail.append(event)
        for record in reversed(view.records[:-1]):
            left -= record.tokens
            if left < 0:
                break
            records.insert(0, record)
        own = view.own_summary if view.own_summary and count(view.own_summary.text) <= left else None
        return replace(view, records=records, tail=tail[::-1], own_summary=own)

    def _records(self, view: SessionView) -> list[Block]:
        """Every record in a line, and the latest, which holds what the others held, as far as there is room."""
        if not view.records:
            return []
        moment = self.answers.renderer.moment
        earlier = [
            Block((f"record {record.id} {moment(record.timestamp_ms)} depth {record.depth}",), item=False, rank=40)
            for record in view.records[:-1]
        ]
        last = view.records[-1]
        title = f"record {last.id} {moment(last.timestamp_ms)} depth {last.depth}, by {last.written_by}:"
        lines = [title, *(safe(line, _GIST) for line in body_lines(last.body))]
        return [*earlier, *(Block((line,), item=False, rank=min(at, 30)) for at, line in enumerate(lines))]

    def _own(self, view: SessionView) -> list[Block]:
        own = view.own_summary
        if own is None:
            return []
        grip = event_grip_id(own.timestamp_ms, own.key)
        return [Block((f"The client's own summary: {safe(own.text, 160)} {grip}",), item=False, rank=20)]

    def _messages(self, view: SessionView) -> list[Block]:
        """Shown in order; the later a message came, the sooner it is given room. The last ones rank with the record."""
        renderer, many = self.answers.renderer, len(view.tail)
        return [
            Block(
                (
                    f"{renderer.moment(event.timestamp_ms)} [{event.role}] {safe(event.text, _GIST)} "
                    f"{event_grip_id(event.timestamp_ms, event.key)}",
                ),
                item=False,
                rank=3 * (many - at),
            )
            for at, event in enumerate(view.tail)
        ]


def session_shape(view: SessionView, tokens: int) -> dict[str, Any]:
    return {
        "session_id": view.session_id,
        "project": view.project,
        "records": [record_shape(record) for record in view.records],
        "tail": [event_shape(event) for event in view.tail],
        "tokens": tokens,
        "own_summary": event_shape(view.own_summary) if view.own_summary else None,
    }


def record_shape(record: Record) -> dict[str, Any]:
    context = record.body.context
    return {
        "id": record.id,
        "timestamp": iso(record.timestamp_ms),
        "depth": record.depth,
        "parent_id": record.parent_id,
        "summary": record.body.summary,
        "key_points": list(record.body.key_points),
        "context": {
            "participants": list(context.participants),
            "decisions": list(context.decisions),
            "action_items": [
                {"owner": item.owner or None, "task": item.task, "due": item.due or None}
                for item in context.action_items
            ],
            "unresolved": list(context.unresolved),
            "domain_entities": list(context.domain_entities),
        },
        "event_ids": list(record.event_ids),
        "tokens": record.tokens,
        "written_by": record.written_by,
        "reason": record.reason,
        "refreshes": record.refreshes,
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens_after,
        "ratio": record.ratio,
    }
