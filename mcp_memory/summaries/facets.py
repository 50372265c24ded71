"""What must survive a compaction, found without a model: decisions, things to do, open questions, people and names.

It reads the same sentences as the extractive summarizer, and prefers to miss something over making something up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from mcp_memory.domain.events import Event, EventType, Role
from mcp_memory.domain.records import MAX_ITEM, ActionItem, Facets
from mcp_memory.domain.text import folded, one_line, similar, terms
from mcp_memory.summaries import cues, patterns
from mcp_memory.summaries.candidate import Candidate
from mcp_memory.summaries.candidates import candidates
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.expressions import Expression
from mcp_memory.summaries.keywords import Passage, Vocabulary
from mcp_memory.summaries.messages import plain, speakers, spoken
from mcp_memory.summaries.sentences import sentences
from mcp_memory.summaries.toolcalls import call_of

_DECISIONS, _ACTIONS, _OPEN, _NAMES, _POINTS = 8, 6, 6, 15, 5
_SAME = 0.6
_DONE = 0.5
_SHORTEST = 25
_SHORTEST_TASK, _LONGEST_TASK, _LONGEST_HEAD = 12, 400, 60
#: Of the names so many are files and references at most; they are looked for in so much of each message.
_FILES, _MOST_REFERENCES, _NAMES_CHARS = 6, 4, 6_000

#: Wordings that leave no doubt that something was chosen, by whoever says it.
_CHOSEN = Expression(
    r"\b(?:decision|decided|we(?:'ll| will) (?:use|keep|go with|stick)|let'?s (?:use|keep|go with|stick|not|do)|"
    r"going with|go with|went with|opted|settled on|chose|instead of|rather than|in favou?r of|prefer|"
    r"must (?:not|never|always)|never use|always use|don'?t use|we agreed|agreed to|"
    r"the (?:right|correct|best|simplest|cleanest) (?:approach|fix|way|solution))\b",
)
_USER_CHOICE = Expression(
    r"\b(?:let'?s (?:use|keep|go|stick|not|do|make|call|move|remove|drop|start)|i(?:'d)? (?:prefer|rather)|go with|"
    r"use .{2,60} instead|instead of|rather than|we (?:should|shouldn'?t|must|will)|don'?t (?:use|add|change|"
    r"touch|do)|never |always |keep (?:the|it|this)|option \w+)\b",
)
_TO_DO = Expression(
    r"\b(?:to-?do|fix ?me|follow[- ]?ups?|next steps?|action items?|still (?:need|needs|have|has) to|remains? to|"
    r"(?:left|remaining) (?:to do|work|tasks?|items?)|needs? to be|remind (?:me|us)|don'?t forget|later we|"
    r"in a (?:separate|follow-up|later) (?:pr|commit|change|issue)|as a follow[- ]?up|before (?:we )?(?:merge|merging|"
    r"releas\w+|ship\w*)|you(?:'ll need to| will need to| should| need to| must| may want)|"
    r"(?:we|i) (?:still )?(?:need|have) to|we should(?: also)?|"
    r"i'?ll (?:do|check|test|review|merge|ask|send|write|update|try) .{3,}\b(?:later|tomorrow|"
    r"tonight|next|after|on monday|by)|\w+ will (?:take|review|handle|write|send|own|fix|do|test)\b)",
)
_LIST_HEAD = Expression(
    r"(?:next steps?|remaining(?: work| tasks| items)?|to-?dos?|action items?|follow[- ]?ups?|what(?:'s| is) left|"
    r"still (?:open|to do)|outstanding)\W*$",
)
_OWNER = Expression(
    r"@(?P<at>[\w-]{2,30})|"
    r"^(?!you|they|she|this|that|the\b|there)(?P<name>(?-i:[A-Z])[a-z]{2,20}) (?:will|should|to|is going to|takes)\b|"
    r"\b(?P<i>i(?:'ll| will| need to| have to| should)|remind me)\b|"
    r"\b(?P<you>you(?:'ll| will| should| need to| can| may))\b",
    flags=re.I,
)
_DUE = Expression(
    r"\b(?:by|before|until|on|due|no later than)\s+((?:the )?(?:end of (?:the )?(?:day|week|month|sprint)|eod|eow|"
    r"(?:next |this )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight|next (?:week|month|sprint|release)|"
    r"\d{4}-\d\d-\d\d|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,2}|\d{1,2} (?:jan|feb|mar|apr|may|"
    r"jun|jul|aug|sep|oct|nov|dec)[a-z]*|(?:the )?(?:release|merge|launch|deploy|v?\d+\.\d+(?:\.\d+)?)))\b",
    flags=re.I,
)
_OPEN_NOW = Expression(
    r"\b(?:unresolved|open question|unclear|not sure|unknown (?:why|whether|how)|still (?:fail|broken|open|flaky|"
    r"investigat|miss|need)\w*|not yet|couldn'?t (?:reproduce|find|determine|verify)|could not (?:reproduce|find|"
    r"determine|verify)|blocked|to be decided|tbd|remains? (?:open|unclear|to be seen)|known (?:issue|"
    r"limitation)|limitation|needs? (?:investigation|a decision)|waiting (?:for|on))\b",
)
_OFFER = Expression(
    r"^(?:would you like|do you want|shall i|should i (?:continue|proceed|go|commit|push|also)|want me to|ready to|"
    r"is there anything|does that|sound good|let me know|anything else|what would you)",
)
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
    told = [pick for pick in candidates(events) if pick.kind in _FACTS and not cues.is_question(pick.text)]
    ranked = [(_exactness(pick.text), pick) for pick in told]
    best = _different(sorted((one for one in ranked if one[0] > 0), key=lambda one: -one[0]), _POINTS)
    return tuple(pick.text for pick in sorted(best, key=lambda pick: pick.order))


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
    return [_bare(pick.text) for pick in sorted(best, key=lambda pick: pick.order)]


def _decides(pick: Candidate) -> float | None:
    """How surely something was chosen by it; none if not at all."""
    if pick.kind is Kind.NOTE:
        return _NOTED
    low = folded(pick.text)
    if pick.event.role is Role.USER and pick.kind in _USERS and _USER_CHOICE.search(low):
        return None if cues.is_question(pick.text) else _CHOSEN_BY_USER
    if (pick.kind is not Kind.DECISION and pick.kind not in _TOLD) or len(pick.text) < _SHORTEST:
        return None
    chosen = _CHOSEN.search(low) is not None
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
        if not any(similar(terms(pick.text), terms(other.text)) >= _SAME for other in chosen):
            chosen.append(pick)
    return chosen


def _bare(text: str) -> str:
    """A bullet without the word that says who spoke; a decision is one whoever made it."""
    head, mark, rest = text.partition(": ")
    return rest if mark and head in ("Asked", "User", "Reported", "Note", "Decision") else text


def _actions(events: Sequence[Event], found: Sequence[Candidate]) -> list[ActionItem]:
    """What is left to do, latest last; what an outcome speaks of later has been done."""
    done = [pick for pick in found if pick.kind is Kind.OUTCOME]
    items = [item for event, item in _told_to_do(events) if not _is_done(event, item, done)]
    kept: list[ActionItem] = []
    for item in reversed(items):
        if not any(similar(terms(item.task), terms(other.task)) >= _SAME for other in kept):
            kept.append(item)
        if len(kept) == _ACTIONS:
            break
    return kept[::-1]


def _is_done(event: Event, item: ActionItem, done: Sequence[Candidate]) -> bool:
    wanted = terms(item.task)
    later = [pick for pick in done if pick.event.timestamp_ms > event.timestamp_ms]
    return any(len(wanted & terms(pick.text)) >= _DONE * len(wanted) for pick in later)


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
            headed = len(body) < _LONGEST_HEAD and _LIST_HEAD.search(low) is not None
            listed = headed or (listed and sentence.form == "item")
            if headed or not _SHORTEST_TASK <= len(body) <= _LONGEST_TASK:
                continue
            if listed or _leaves_to_do(body, low, event.role):
                yield event, action_item(body, event.role)


def _said(event: Event) -> str:
    return spoken(event.text) if event.role is Role.USER else event.text


def _leaves_to_do(body: str, low: str, role: Role) -> bool:
    if not _TO_DO.search(low) or cues.is_question(body):
        return False
    return not (role is Role.ASSISTANT and patterns.NARRATION.match(folded(cues.unopened(body))))


def action_item(body: str, role: Role) -> ActionItem:
    """A sentence as a task, with who is to do it and when, where it says so."""
    owner, due = "", _DUE.search(body)
    other = {Role.USER: "assistant", Role.ASSISTANT: "user"}
    match = _OWNER.search(body)
    if match:
        owner = match["at"] or match["name"] or ""
        owner = owner or (str(role) if match["i"] else other.get(role, ""))
    return ActionItem(one_line(body.rstrip(" .;:"), MAX_ITEM), owner, due[1] if due else "")


def _unresolved(events: Sequence[Event], found: Sequence[Candidate]) -> list[str]:
    """What is called open, and questions after which the other side has said nothing."""
    answered_until = max((e.timestamp_ms for e in events if e.role is Role.USER and e.says_something), default=0)
    asked = [pick for pick in found if _asks_still(pick, answered_until)]
    called = [pick for pick in found if _is_called_open(pick)]
    # The later of equals is the more likely to be open still.
    told = [(2.0 + pick.order / 1e4, pick) for pick in asked] + [(1.0 + pick.order / 1e4, pick) for pick in called]
    best = _different(sorted(told, key=lambda one: -one[0]), _OPEN)
    return [_bare(pick.text) for pick in sorted(best, key=lambda pick: pick.order)]


_NEVER_OPEN = frozenset({Kind.REQUEST, Kind.HEADING, Kind.STEP, Kind.DID})


def _asks_still(pick: Candidate, answered_until: int) -> bool:
    """Whether it is an assistant's question, other than whether to go on, that nobody has answered."""
    if pick.kind in _NEVER_OPEN or not cues.is_question(pick.text) or pick.event.role is not Role.ASSISTANT:
        return False
    return pick.event.timestamp_ms > answered_until and not _OFFER.match(folded(pick.text))


def _is_called_open(pick: Candidate) -> bool:
    if pick.kind in _NEVER_OPEN or pick.kind is Kind.OUTCOME or cues.is_question(pick.text):
        return False
    return _OPEN_NOW.search(folded(pick.text)) is not None


def _names(events: Sequence[Event]) -> list[str]:
    """Files that were changed, then references such as PR numbers, then the names that come up most."""
    said = [event for event in events if event.role in (Role.USER, Role.ASSISTANT) and event.says_something]
    passages = [Passage(_said(event)[:_NAMES_CHARS], 2.0 if event.role is Role.USER else 1.0) for event in said]
    words = Vocabulary(passages, speakers(events)).keywords(_NAMES)
    return list(dict.fromkeys([*_files(events), *_references(passages), *words]))[:_NAMES]


def _files(events: Sequence[Event]) -> list[str]:
    calls = [call_of(event) for event in events if event.role is Role.TOOL]
    edits = Counter(call.target for call in calls if call and call.verb == "Edited" and call.target)
    return [name for name, _ in edits.most_common(_FILES)]


def _references(passages: Sequence[Passage]) -> list[str]:
    may_refer = [passage.text for passage in passages if _MAY_REFER.search(passage.text)]
    found = Counter(match[0] for text in may_refer for match in _REFERENCE.finditer(text))
    return [name for name, _ in found.most_common(_MOST_REFERENCES)]
