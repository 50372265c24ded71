"""What must survive a compaction, found without a model: decisions, things to do, open questions, people and names.

It reads the same statements as the extractive summarizer, and prefers to miss something over making something up: a
decision is what the user chose or agreed to, and open is what the end of a session left open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mcp_memory import lexicon
from mcp_memory.domain.events import Event, Role
from mcp_memory.domain.nodes import Kind
from mcp_memory.domain.quoting import quoted
from mcp_memory.domain.records import MAX_ITEM, ActionItem, Facets
from mcp_memory.domain.text import folded, one_line, similar
from mcp_memory.summaries.bullets import exactness
from mcp_memory.summaries.calls import Source, call_of
from mcp_memory.summaries.keywords import Vocabulary, WeighedText
from mcp_memory.summaries.messages import speaker_of, speakers, spoken
from mcp_memory.summaries.statements import Exchange, Mood, Statement, collect
from mcp_memory.summaries.truth import settle

_WORDINGS = lexicon.expressions("facets")
_REFERENCE = re.compile(r"(?:PR|pull request|MR|issue|ticket) #?\d+|#\d{2,}|\b[A-Z]{2,10}-\d+\b")
_QUANTITY = re.compile(r"(?<![\w#./:-])(?:[$€£]\s?)?\d+(?:[.,]\d+)*\s?(?:%|[a-zA-Zµ]+\b)|\bv?\d+\.\d+(?:\.\d+)?\b")
_MARKED = re.compile(r"\n\[([x~> ])\] ")
_NAMES, _FILES, _MOST_REFERENCES, _NAMES_CHARS, _DECISIONS, _TASKS, _OPEN, _POINTS = 15, 6, 4, 6_000, 8, 6, 6, 5
#: So alike are two that say the same; so much of a task is spoken of later where it was done; so short is a heading.
_ALIKE, _DONE, _HEADING = 0.6, 0.5, 60


def facets_of(events: Sequence[Event]) -> Facets:
    turns = collect(events)
    settled = settle(turns)
    refuted = set(map(id, settled.refuted))
    told = sorted(settled.standing, key=lambda one: (one.turn, one.event.timestamp_ms, one.start))
    plans = {id(one): replace(one, text=f"Plan: {one.text}") for one in told if one.source is Source.PLAN}
    chosen = [one for one in told if one.kind is Kind.DECISION or id(one) in plans]
    turned = [one for one in told if any(_reverses(one, other) for other in chosen)]
    either = {id(one) for one in (*chosen, *turned) if not any(_reverses(later, one) for later in turned)}
    decided = _different([plans.get(id(one), one) for one in told if id(one) in either])
    # Of many, some from the beginning to the end.
    few = {round(place * (len(decided) - 1) / (_DECISIONS - 1)) for place in range(_DECISIONS)}
    ending = _ending(turns)
    opened = _different([one for one in _opened(ending, told) if id(one) not in refuted])
    tasks = [one for one in _tasks(turns, ending) if id(one) not in refuted]
    left = _different([one for one in tasks if not any(_settles(later, one) for later in told)])
    said = [event for event in events if event.role in (Role.USER, Role.ASSISTANT) and event.says_something]
    return Facets(
        participants=tuple(sorted(speakers(events))) or tuple(dict.fromkeys(str(event.role) for event in said)),
        decisions=tuple(one_line(one.text, MAX_ITEM) for place, one in enumerate(decided) if place in few),
        action_items=tuple(action_item(one.text, one.event.role) for one in left[-_TASKS:]),
        unresolved=tuple(one_line(one.text, MAX_ITEM) for one in opened[-_OPEN:]),
        domain_entities=tuple(_names(events, said)),
    )


def points_of(events: Sequence[Event]) -> tuple[str, ...]:
    """The statements with the most exact facts, in the order in which they were said; decisions stand elsewhere."""
    told = [one for one in settle(collect(events)).standing if one.mood is Mood.FACT and one.kind not in _NO_POINTS]
    exact = [one for one in _different(told) if _QUANTITY.search(one.text)]
    best = sorted(exact, key=lambda one: -exactness(one.text))[:_POINTS]
    return tuple(one.kind.shown(quoted(one_line(one.text, MAX_ITEM))) for one in exact if one in best)


_NO_POINTS = frozenset(
    {Kind.DECISION, Kind.REQUEST, Kind.STEP, Kind.PLANNED, Kind.RESULT, Kind.DID, Kind.HEADING, Kind.ERROR}
)


def _ending(turns: Sequence[Exchange]) -> list[Exchange]:
    """The last turn in which something was said, and those before it that the user only nodded to."""
    ending: list[Exchange] = []
    for turn in reversed(turns):
        if turn.statements:
            ending.append(turn)
            if turn.calls or any(one.by_user and one.kind is not Kind.NOISE for one in turn.statements):
                break
    return ending[::-1]


def _opened(ending: Sequence[Exchange], told: Sequence[Statement]) -> Iterator[Statement]:
    """What the end leaves open: what is said to be, a question that nobody answered, an error, work broken off."""
    yield from (one for one in told if one.kind is Kind.OPEN and one.source is Source.NOTE)
    # The last turn tells every error that lasted, also one of a call that was made before the user spoke again.
    last_call = next((turn.calls[-1] for turn in reversed(ending) if turn.calls), None)
    for turn in ending:
        for one in turn.statements:
            low, last = folded(one.text), turn is ending[-1]
            if one.source is Source.CLOSING or one.kind is Kind.SAID:
                asks = last and one.mood is Mood.QUESTION and one.kind is not Kind.SAID
                asks = asks and bool(_WORDINGS["to_decide"].search(low)) and not _WORDINGS["offer"].match(low)
                if asks or (one.mood in (Mood.FACT, Mood.GUESS) and _WORDINGS["open_now"].search(low)):
                    yield one
            elif last and one.kind is Kind.ERROR and one.event is last_call:
                yield one
        broken = (one for one in told if one.kind is Kind.OPEN and one.by_user and one.turn == turn.number)
        yield from (one for one in broken if one.source is not Source.NOTE)


def _tasks(turns: Sequence[Exchange], ending: Sequence[Exchange]) -> Iterator[Statement]:
    """What someone said is to be done later, what the end hands to the user, and the last list's items that wait."""
    works = any(turn.calls for turn in turns)
    for turn in turns:
        for one in turn.statements:
            low = folded(one.text)
            if one.mood is Mood.FACT and one.source is Source.MESSAGE and _WORDINGS["later"].search(low):
                yield one
            elif one.source is Source.CLOSING and one.mood in (Mood.FACT, Mood.STEP, Mood.PROPOSAL):
                listed = len(one.lead) < _HEADING and _WORDINGS["list_head"].search(folded(one.lead))
                left = _WORDINGS["to_do"].search(low)
                # Of an assistant that only talks, it is advice.
                if (works and turn in ending and (listed or left)) or (left and _WORDINGS["due"].search(one.text)):
                    yield one
    yield from _waiting(turns)


def _waiting(turns: Sequence[Exchange]) -> Sequence[Statement]:
    """What is not done of the last list of to-dos, or of the tasks that were made one by one."""
    waiting: dict[str, Statement] = {}
    for turn in turns:
        steps = [one for one in turn.statements if one.source is Source.TODO]
        for event in turn.calls:
            own, number = [one for one in steps if one.event is event], str(event.metadata.get("task", ""))
            mark = _MARKED.search(event.text)
            if mark and not number:
                waiting = {one.text: one for one in own if one.kind is Kind.PLANNED}
            elif mark and mark[1] == "x":
                waiting.pop(number, None)
            elif mark and own:
                waiting[number] = own[0]
    return list(waiting.values())


def _settles(later: Statement, task: Statement) -> bool:
    """Whether something that was said after a task tells of it what was done."""
    if later.event.timestamp_ms <= task.event.timestamp_ms or later.source is Source.TODO:
        return False
    done = later.by_user or later.kind in (Kind.OUTCOME, Kind.COMMIT, Kind.FIXED, Kind.CAUSE)
    return done and len(task.terms & later.terms) >= _DONE * len(task.terms)


def _reverses(later: Statement, decision: Statement) -> bool:
    """Whether a user decides otherwise later on: of the same matter, and against something."""
    if not later.by_user or later.turn <= decision.turn or later.kind not in (Kind.CORRECTION, Kind.DECISION):
        return False
    shared = len(later.terms & decision.terms)
    return 2 * shared >= len(decision.terms) > 1 and _WORDINGS["otherwise"].search(folded(later.text)) is not None


def _different(found: Sequence[Statement]) -> list[Statement]:
    """Of those that say the same, the last."""
    kept: list[Statement] = []
    for one in reversed(found):
        if not any(similar(one.terms, other.terms) >= _ALIKE for other in kept):
            kept.append(one)
    return kept[::-1]


def action_item(text: str, role: Role) -> ActionItem:
    """A sentence as a task, with who is to do it and when, where it says so."""
    speaker = speaker_of(text)
    body = text.removeprefix(f"{speaker}: ")
    due, match = _WORDINGS["due"].search(body), _WORDINGS["owner"].search(body)
    owner = (match["at"] or match["name"] or "") if match else ""
    if match and not owner:
        other = {Role.USER: "assistant", Role.ASSISTANT: "user"}
        owner = speaker or str(role) if match["i"] else "" if speaker else other.get(role, "")
    return ActionItem(one_line(body.rstrip(" .;:"), MAX_ITEM), owner, due[1] if due else "")


def _names(events: Sequence[Event], said: Sequence[Event]) -> list[str]:
    """Files that were changed, then references such as PR numbers, then the names that come up most."""
    passages = [WeighedText(spoken(one.text)[:_NAMES_CHARS], 2.0 if one.role is Role.USER else 1.0) for one in said]
    words = Vocabulary(passages, speakers(events)).keywords(_NAMES)
    calls = [call_of(event) for event in events if event.role is Role.TOOL]
    edits = Counter(call.target for call in calls if call and call.verb == "Edited" and call.target)
    named = Counter(match[0] for passage in passages for match in _REFERENCE.finditer(passage.text))
    files = [name for name, _ in edits.most_common(_FILES)]
    references = [name for name, _ in named.most_common(_MOST_REFERENCES)]
    return list(dict.fromkeys([*files, *references, *words]))[:_NAMES]
