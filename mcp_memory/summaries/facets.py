"""What must survive a compaction, found without a model: decisions, things to do, open questions, people and names.

It reads the same sentences as the extractive summarizer, and prefers to miss something over making something up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.records import MAX_ITEM, ActionItem, Facets
from mcp_memory.domain.sentences import sentences
from mcp_memory.domain.text import folded, one_line, similar, terms
from mcp_memory.summaries import cues
from mcp_memory.summaries.extractive import candidates
from mcp_memory.summaries.keywords import Vocabulary, WeighedText
from mcp_memory.summaries.messages import call_of, plain, speakers, spoken
from mcp_memory.summaries.statements import Candidate

_WORDINGS = lexicon.expressions("facets")
_DECISIONS, _ACTIONS, _OPEN, _NAMES, _POINTS = 8, 6, 6, 15, 5
_SAME = 0.6
_DONE = 0.5
_SHORTEST = 25
_SHORTEST_TASK, _LONGEST_TASK, _LONGEST_HEAD = 12, 400, 60
#: Of the names so many are files and references at most; they are looked for in so much of each message.
_FILES, _MOST_REFERENCES, _NAMES_CHARS = 6, 4, 6_000

_REFERENCE = re.compile(
    r"(?<![\w&])(?:(?:PR|issue|MR|ticket|bug)\s?)?#\d{1,6}\b|\b[A-Z]{2,8}-\d{1,6}\b|\bv\d+\.\d+(?:\.\d+)?\b"
)

# What every reference holds, and hardly any text does.
_MAY_REFER = re.compile(r"[#v-]\d")
_QUANTITY = re.compile(
    r"(?<![\w#./:-])(?:[$€£]\s?)?\d+(?:[.,]\d+)*\s?(?:%|[a-zA-Zµ]+\b)(?!\s*passed)|\bv?\d+\.\d+(?:\.\d+)?\b|\b\d{4}-\d\d-\d\d\b"
)
_NAMED = re.compile(r"`[^`\n]+`|\b[a-z]+[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w*|\b\w+_\w+")


def facets_of(events: Sequence[Event]) -> Facets:
    found = candidates(events)
    return Facets(
        participants=tuple(_participants(events)),
        decisions=tuple(_decisions(found)),
        action_items=tuple(_actions(events, found)),
        unresolved=tuple(_unresolved(events, found)),
        domain_entities=tuple(_names(events)),
    )


def points_of(events: Sequence[Event]) -> tuple[str, ...]:
    """The sentences with the most exact facts, in the order in which they were said."""
    told = [pick for pick in candidates(events) if pick.kind in _FACTS and not cues.is_question(pick.shown)]
    ranked = [(_exactness(pick.shown), pick) for pick in told]
    best = _different(sorted((one for one in ranked if one[0] > 0), key=lambda one: -one[0]), _POINTS)
    return tuple(pick.shown for pick in sorted(best, key=lambda pick: pick.order))


_FACTS = frozenset(
    {Kind.STATED, Kind.RULE, Kind.FIGURE, Kind.FINDING, Kind.CAUSE, Kind.OUTCOME, Kind.DECISION, Kind.SAID, Kind.REPORT}
)


def _exactness(text: str) -> float:
    """How much a reader would lose with the words: numbers with what they count, versions, and names."""
    numbers = len(_QUANTITY.findall(text))
    return numbers + 0.5 * min(2, len(_NAMED.findall(text))) if numbers else 0.0


def _participants(events: Sequence[Event]) -> list[str]:
    people = sorted(speakers(events))
    if people:
        return people
    roles = [str(role) for role in (Role.USER, Role.ASSISTANT) if any(event.role is role for event in events)]
    agents = {str(event.metadata.get("agent_type", "")) for event in events if event.event_type in _AGENTS}
    return roles + sorted(f"subagent {name}" for name in agents if name)


_AGENTS = frozenset({EventType.SUBAGENT_START, EventType.SUBAGENT_STOP})


def _decisions(found: Sequence[Candidate]) -> list[str]:
    """What was chosen: notes and the user's word first, then what is called a decision, then what gives its reason."""
    ranked = [(rank, pick) for pick in found if (rank := _decides(pick)) is not None]
    best = _different(sorted(ranked, key=lambda one: -one[0]), _DECISIONS)
    return [_bare(pick) for pick in sorted(best, key=lambda pick: pick.order)]


def _decides(pick: Candidate) -> float | None:
    """How surely something was chosen by it; none if not at all."""
    if pick.kind is Kind.NOTE:
        return _NOTED
    low = folded(pick.shown)
    if pick.event.role is Role.USER and pick.kind in _USERS and _WORDINGS["user_choice"].search(low):
        return None if cues.is_question(pick.shown) else _CHOSEN_BY_USER
    if (pick.kind is not Kind.DECISION and pick.kind not in _TOLD) or len(pick.shown) < _SHORTEST:
        return None
    chosen = _WORDINGS["chosen"].search(low) is not None
    # A reason alone, as in "since it was never set", explains more often than it decides.
    explains = not chosen and (pick.kind in _TOLD or low.startswith("since "))
    return None if explains else 1.0 + chosen + pick.bonus


_NOTED, _CHOSEN_BY_USER = 3.0, 2.0
_USERS = frozenset({Kind.REQUEST, Kind.SAID, Kind.REPORT})
_TOLD = frozenset({Kind.CAUSE, Kind.OUTCOME, Kind.RULE, Kind.FIGURE, Kind.STATED})


def _different(ranked: Sequence[tuple[float, Candidate]], most: int) -> list[Candidate]:
    chosen: list[Candidate] = []
    for _, pick in ranked:
        if len(chosen) == most:
            break
        if not any(similar(terms(pick.shown), terms(other.shown)) >= _SAME for other in chosen):
            chosen.append(pick)
    return chosen


def _bare(pick: Candidate) -> str:
    """What was said without the word that says who spoke; a decision is one whoever made it."""
    return pick.text if pick.label in _SPOKEN else pick.shown.removeprefix("Decision: ")


_SPOKEN = frozenset({Kind.REQUEST.label, Kind.REMARK.label, Kind.REPORT.label, Kind.NOTE.label})


def _actions(events: Sequence[Event], found: Sequence[Candidate]) -> list[ActionItem]:
    """What is left to do, latest last; what an outcome speaks of later has been done."""
    done = [pick for pick in found if pick.kind is Kind.OUTCOME]
    kept: list[ActionItem] = []
    for event, item in reversed([*_told_to_do(events)]):
        wanted = terms(item.task)
        later = [terms(pick.shown) for pick in done if pick.event.timestamp_ms > event.timestamp_ms]
        if any(len(wanted & told) >= _DONE * len(wanted) for told in later):
            continue
        if not any(similar(terms(item.task), terms(other.task)) >= _SAME for other in kept):
            kept.append(item)
        if len(kept) == _ACTIONS:
            break
    return kept[::-1]


def _told_to_do(events: Sequence[Event]) -> Iterator[tuple[Event, ActionItem]]:
    """Sentences that leave something to be done, and the items of lists that are headed so."""
    for event in events:
        if event.role not in (Role.USER, Role.ASSISTANT) or not event.says_something:
            continue
        text = _said(event)
        listed = False
        for sentence in sentences(text):
            body = plain(text[sentence.start : sentence.end])
            low = folded(body)
            headed = len(body) < _LONGEST_HEAD and _WORDINGS["list_head"].search(low) is not None
            listed = headed or (listed and sentence.form == "item")
            if headed or not _SHORTEST_TASK <= len(body) <= _LONGEST_TASK:
                continue
            leaves = _WORDINGS["to_do"].search(low) and not cues.is_question(body)
            # What an assistant is about to do is not left to be done.
            narrated = event.role is Role.ASSISTANT and cues.NARRATION.match(folded(cues.unopened(body)))
            if listed or (leaves and not narrated):
                yield event, action_item(body, event.role)


def _said(event: Event) -> str:
    return spoken(event.text) if event.role is Role.USER else event.text


def action_item(body: str, role: Role) -> ActionItem:
    """A sentence as a task, with who is to do it and when, where it says so."""
    owner, due = "", _WORDINGS["due"].search(body)
    other = {Role.USER: "assistant", Role.ASSISTANT: "user"}
    match = _WORDINGS["owner"].search(body)
    if match:
        owner = match["at"] or match["name"] or ""
        owner = owner or (str(role) if match["i"] else other.get(role, ""))
    return ActionItem(one_line(body.rstrip(" .;:"), MAX_ITEM), owner, due[1] if due else "")


def _unresolved(events: Sequence[Event], found: Sequence[Candidate]) -> list[str]:
    """What is called open, and questions after which the other side has said nothing."""
    answered_until = max((e.timestamp_ms for e in events if e.role is Role.USER and e.says_something), default=0)
    asked, called = [], []
    for pick in found:
        low = folded(pick.shown)
        if pick.kind in _NEVER_OPEN:
            continue
        if cues.is_question(pick.shown):
            # An assistant's question, other than whether to go on, that nobody has answered.
            unanswered = pick.event.role is Role.ASSISTANT and pick.event.timestamp_ms > answered_until
            asked += [pick] if unanswered and not _WORDINGS["offer"].match(low) else []
        elif pick.kind is not Kind.OUTCOME and _WORDINGS["open_now"].search(low):
            called.append(pick)
    # The later of equals is the more likely to be open still.
    told = [(2.0 + pick.order / 1e4, pick) for pick in asked] + [(1.0 + pick.order / 1e4, pick) for pick in called]
    best = _different(sorted(told, key=lambda one: -one[0]), _OPEN)
    return [_bare(pick) for pick in sorted(best, key=lambda pick: pick.order)]


_NEVER_OPEN = frozenset({Kind.REQUEST, Kind.HEADING, Kind.STEP, Kind.DID})


def _names(events: Sequence[Event]) -> list[str]:
    """Files that were changed, then references such as PR numbers, then the names that come up most."""
    said = [event for event in events if event.role in (Role.USER, Role.ASSISTANT) and event.says_something]
    passages = [WeighedText(_said(event)[:_NAMES_CHARS], 2.0 if event.role is Role.USER else 1.0) for event in said]
    words = Vocabulary(passages, speakers(events)).keywords(_NAMES)
    calls = [call_of(event) for event in events if event.role is Role.TOOL]
    edits = Counter(call.target for call in calls if call and call.verb == "Edited" and call.target)
    may_refer = [passage.text for passage in passages if _MAY_REFER.search(passage.text)]
    named = Counter(match[0] for text in may_refer for match in _REFERENCE.finditer(text))
    files = [name for name, _ in edits.most_common(_FILES)]
    references = [name for name, _ in named.most_common(_MOST_REFERENCES)]
    return list(dict.fromkeys([*files, *references, *words]))[:_NAMES]
