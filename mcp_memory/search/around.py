"""What came before or after something: "what did we do after the migration to Postgres?"

The best hit of what is named tells when it was, and the segments just before or after it answer. Only a question that
asks for nothing else is read so: in any other, its words find the answer better than the time does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.events import Event, parse_ulid
from mcp_memory.domain.matches import Candidate
from mcp_memory.domain.nodes import Node
from mcp_memory.domain.text import STOP_WORDS, words
from mcp_memory.domain.toc import Level
from mcp_memory.search.asked import Wanted
from mcp_memory.search.found import Found, Hit
from mcp_memory.search.nearest import day_after, day_before
from mcp_memory.search.of_time import segment_hits
from mcp_memory.search.question import question_of
from mcp_memory.search.ranked import Ranked, hits_of
from mcp_memory.search.recall import teleport
from mcp_memory.store.port import Library

_AROUND = (
    re.compile(r"(?P<head>.{0,40}?\bwh(?:at|ich)\b.{0,80}?)\b(?P<how>before|after)\s+(?P<named>.+)", re.I | re.S),
    re.compile(r"\W*(?P<how>before|after)\s+(?P<named>.{3,120}?),?\s+(?P<head>wh(?:at|ich)\b.{0,80})", re.I | re.S),
)
#: "The day before the outage" asks for what came before it.
_UNIT = re.compile(r"\b(?:day|week|night|evening|morning|hour|session)s?\s*$", re.I)
#: Words are asked for, and whose.
_SAID = re.compile(
    r"\b(?:did|do|have|had) (?P<who>i|we|you) (?:\w+ )?(?:ask|asked|say|said|tell|told|write|wrote|want|wanted)\b", re.I
)
#: What may stand beside words without a topic: they ask for whatever there was.
_PLAIN = frozenset(
    """
    accomplish accomplished achieve achieved activities activity busy catch change changed changes chat chats
    conversation conversations deal dealt directly discuss discussed discussing discussion discussions event events
    far happen happened happening happens highlights immediately lately latest list mention mentioned new news next
    notes overview progress project projects recap recent recently remember remind session sessions shortly show
    spend spent summarise summarize summary talk talked talking time topic topics update updates work worked working
    """.split()
)
#: Below this score a hit that does not hold all that was named may be about something else, and so may its time.
_SURE = 0.3
_MANY, _READ = 3, 200
#: How many events beside the hit are read to find a message among them.
_NEAR = 60
_DAY_MS = 24 * 3_600_000
#: From the nearest day on which anything was, so much is looked through.
_REACH_MS = 14 * _DAY_MS


@dataclass(frozen=True, slots=True)
class Around:
    """`named` is what it came before, or after; `speaker` whose words are asked for, if those are."""

    later: bool
    named: str
    speaker: str = ""


def asks_for_anything(text: str) -> bool:
    """Whether a text names no topic, so that only a time or a place tells what is asked for."""
    return all(word in STOP_WORDS or word in _PLAIN for word in words(text))


def around(query: str) -> Around | None:
    """What a question asks to look around for; None if it asks for anything else as well."""
    match = next((match for each in _AROUND if (match := each.fullmatch(query))), None)
    if match is None or not asks_for_anything(_UNIT.sub("", match["head"])):
        return None
    named = match["named"].strip(" ?!.")
    telling = any(word not in STOP_WORDS for word in words(named))
    said = _SAID.search(match["head"])
    speaker = ("assistant" if said["who"].lower() == "you" else "user") if said else ""
    return Around(match["how"].lower() == "after", named, speaker) if telling else None


async def found_around(library: Library, wanted: Wanted) -> Found | None:
    """What is named, what came before or after it, nearest first, and the other hits; None if its time is not sure."""
    asked = around(wanted.query)
    if asked is None:
        return None
    end = wanted.end
    found = await teleport(library, replace(wanted, query=asked.named, limit=end, offset=0))
    best = found.hits[0] if found.hits else None
    if best is None or best.kind != "event" or (best.missing and best.score < _SURE):
        return None
    question = question_of(asked.named)
    said = await _said_beside(library, best, asked) if asked.speaker else []
    words = await hits_of(library, wanted.scope, [Ranked(Candidate(event), best.score) for event in said], question)
    nodes = await _beside(library, best, later=asked.later)
    beside = await segment_hits(library, wanted.scope, nodes, question, best.score)
    if not words and not beside:
        return None
    told = {hit.id for hit in words}
    hits = [*words, best, *beside, *(hit for hit in found.hits[1:] if hit.id not in told)]
    more = end if found.more or len(hits) > end else None
    return replace(found, query=wanted.query, hits=hits[wanted.offset : end], more=more)


async def _said_beside(library: Library, best: Hit, asked: Around) -> list[Event]:
    """What the one whose words are asked for said last before the hit in its session, or first after it."""
    key = parse_ulid(best.event_ids[0])[1]
    record = await library.grip(key, 0 if asked.later else _NEAR, _NEAR if asked.later else 0)
    near = (record.after if asked.later else record.before[::-1]) if record else ()
    return [event for event in near if event.role == asked.speaker and event.text.strip()][:1]


async def _beside(library: Library, best: Hit, *, later: bool) -> Sequence[Node]:
    """The segments of the hit's project that ended before it, or began after it, nearest first."""
    start, end = (best.start_ms, best.start_ms + _DAY_MS) if later else (best.start_ms - _DAY_MS, best.start_ms)
    near = await _segments(library, best, start, end, later=later)
    day = None if near else await (day_after if later else day_before)(library, best.project, best.start_ms)
    if day is None:
        return near
    start, end = (day.start_ms, day.start_ms + _REACH_MS) if later else (day.end_ms - _REACH_MS, day.end_ms)
    return await _segments(library, best, start, end, later=later) or await _segments(
        library, best, day.start_ms, day.end_ms, later=later
    )


async def _segments(library: Library, best: Hit, start: int, end: int, *, later: bool) -> Sequence[Node]:
    """A few of them; none where there are too many to read up to the nearest."""
    nodes = await library.between(best.project, Level.SEGMENT, start, end, _READ)
    if later:
        return [node for node in nodes if node.start_ms > best.start_ms][:_MANY]
    ended = [node for node in reversed(nodes) if node.end_ms < best.start_ms][:_MANY]
    return ended if len(nodes) < _READ else ()
