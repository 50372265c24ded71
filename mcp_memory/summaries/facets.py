"""What must survive a compaction, found without a model: decisions, things to do, open questions, people and names.

It reads the same statements as the extractive summarizer, and prefers to miss something over making something up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.records import MAX_ITEM, ActionItem, Facets
from mcp_memory.domain.text import one_line, similar
from mcp_memory.summaries.bullets import bullets_of
from mcp_memory.summaries.calls import Source, call_of
from mcp_memory.summaries.keywords import Vocabulary, WeighedText
from mcp_memory.summaries.messages import speakers, spoken
from mcp_memory.summaries.statements import Statement, collect
from mcp_memory.summaries.truth import settle

_WORDINGS = lexicon.expressions("facets")
_REFERENCE = re.compile(r"(?:PR|pull request|MR|issue|ticket) #?\d+|#\d{2,}|\b[A-Z]{2,10}-\d+\b")
_NAMES, _FILES, _MOST_REFERENCES, _NAMES_CHARS, _DECISIONS, _TASKS, _OPEN, _POINTS = 12, 5, 3, 4_000, 8, 8, 5, 8
_ALIKE = 0.6


def facets_of(events: Sequence[Event]) -> Facets:
    turns = collect(events)
    standing = settle(turns).standing
    decided = [one for one in standing if one.kind is Kind.DECISION]
    last = max((turn.number for turn in turns), default=0)
    opened = [one for one in standing if one.kind is Kind.OPEN and (one.turn == last or one.source is Source.NOTE)]
    todos = _waiting(turns[-1].statements if turns else [])
    tasks = [action_item(one.text, one.event.role) for one in _different(todos, _TASKS)]
    return Facets(
        participants=tuple(sorted(speakers(events))) or _roles(events),
        decisions=tuple(one_line(one.text, MAX_ITEM) for one in _different(decided, _DECISIONS)),
        action_items=tuple(tasks),
        unresolved=tuple(one_line(one.text, MAX_ITEM) for one in _different(opened, _OPEN)),
        domain_entities=tuple(_names(events)),
    )


def points_of(events: Sequence[Event]) -> tuple[str, ...]:
    vocabulary = Vocabulary(
        [WeighedText(spoken(event.text)[:_NAMES_CHARS], 1.0) for event in events if event.says_something]
    )
    standing = settle(collect(events)).standing
    return tuple(one.kind.shown(one.text) for one in bullets_of(standing, vocabulary.names))


def _roles(events: Sequence[Event]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(str(e.role) for e in events if e.role in (Role.USER, Role.ASSISTANT) and e.says_something)
    )


def _waiting(statements: Iterable[Statement]) -> list[Statement]:
    return [one for one in statements if one.source is Source.TODO and one.kind is Kind.PLANNED]


def _different(found: Sequence[Statement], most: int) -> list[Statement]:
    kept: list[Statement] = []
    for one in reversed(found):
        if len(kept) < most and not any(similar(one.terms, other.terms) >= _ALIKE for other in kept):
            kept.append(one)
    return kept[::-1]


def action_item(body: str, role: Role) -> ActionItem:
    """A sentence as a task, with who is to do it and when, where it says so."""
    owner, due = "", _WORDINGS["due"].search(body)
    other = {Role.USER: "assistant", Role.ASSISTANT: "user"}
    match = _WORDINGS["owner"].search(body)
    if match:
        owner = match["at"] or match["name"] or ""
        owner = owner or (str(role) if match["i"] else other.get(role, ""))
    return ActionItem(one_line(body.rstrip(" .;:"), MAX_ITEM), owner, due[1] if due else "")


def _names(events: Sequence[Event]) -> list[str]:
    """Files that were changed, then references such as PR numbers, then the names that come up most."""
    said = [event for event in events if event.role in (Role.USER, Role.ASSISTANT) and event.says_something]
    passages = [
        WeighedText(spoken(event.text)[:_NAMES_CHARS], 2.0 if event.role is Role.USER else 1.0) for event in said
    ]
    words = Vocabulary(passages, speakers(events)).keywords(_NAMES)
    calls = [call_of(event) for event in events if event.role is Role.TOOL]
    edits = Counter(call.target for call in calls if call and call.verb == "Edited" and call.target)
    named = Counter(match[0] for passage in passages for match in _REFERENCE.finditer(passage.text))
    files = [name for name, _ in edits.most_common(_FILES)]
    references = [name for name, _ in named.most_common(_MOST_REFERENCES)]
    return list(dict.fromkeys([*files, *references, *words]))[:_NAMES]
