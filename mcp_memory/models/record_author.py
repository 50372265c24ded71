"""Records of sessions written by a model: an account, and what must not be lost of it, each in a list of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_memory.domain.events import Event
from mcp_memory.domain.records import MAX_ITEM, MAX_NAME, MAX_SUMMARY, ActionItem, Body, Facets, fold
from mcp_memory.domain.text import one_line
from mcp_memory.errors import ContextTooLong
from mcp_memory.models import prompts
from mcp_memory.models.calling import Caller
from mcp_memory.models.evidence import transcript
from mcp_memory.models.structured import RecordAnswer, clean_line, clean_prose

#: How much of one answer is taken, whatever it holds.
_POINTS, _DECISIONS, _ACTIONS, _OPEN, _NAMES = 10, 8, 6, 6, 15


class ModelRecords:
    """Implements the `RecordAuthor` port."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def condense(self, events: Sequence[Event], *, prior: str, node_id: str) -> tuple[Body, str]:
        try:
            asked = await self._caller.ask(prompts.record("session", transcript(events), prior=prior), node_id)
        except ContextTooLong:
            if len(events) < 2:
                raise
            middle = len(events) // 2
            first, _ = await self.condense(events[:middle], prior=prior, node_id=node_id)
            second, wrote = await self.condense(events[middle:], prior=prior, node_id=node_id)
            return fold([first, second]), wrote
        return body_of(asked.answer), asked.written_by

    async def narrate(self, summaries: Sequence[str], *, node_id: str) -> str:
        sections = "\n\n".join(f"Section {number}:\n{text}" for number, text in enumerate(summaries, 1))
        question = prompts.prose("session merge", sections, "record", content_type="conversation", prior="")
        return _account((await self._caller.ask(question, node_id)).answer.summary)


def body_of(answer: RecordAnswer) -> Body:
    """The answer's texts as plain lines within their limits."""
    items = [
        ActionItem(clean_line(item.task, MAX_ITEM), clean_line(item.owner, MAX_NAME), clean_line(item.due, MAX_NAME))
        for item in answer.action_items[:_ACTIONS]
    ]
    return Body(
        _account(answer.summary),
        _lines(answer.key_points, _POINTS),
        Facets(
            decisions=_lines(answer.decisions, _DECISIONS),
            action_items=tuple(item for item in items if item.task),
            unresolved=_lines(answer.unresolved, _OPEN),
            domain_entities=_lines(answer.entities, _NAMES, MAX_NAME),
        ),
    )


def _account(text: str) -> str:
    return one_line(clean_prose(text), MAX_SUMMARY // 2)


def _lines(given: Iterable[str], most: int, length: int = MAX_ITEM) -> tuple[str, ...]:
    lines = [clean_line(text, length) for text in given]
    return tuple(dict.fromkeys(line for line in lines if line))[:most]
