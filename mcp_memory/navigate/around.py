"""What came before or after something: "what did we do after the migration to Postgres?"

The best hit of what is named tells when it was, and the segments just before or after it answer. Only a question that
asks for nothing else is read so: in any other, its words find the answer better than the time does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_memory.domain.summaries import Node
from mcp_memory.domain.text import STOP_WORDS, words
from mcp_memory.domain.toc import Level
from mcp_memory.navigate.question import question_of
from mcp_memory.navigate.recall import Found, Hit, segment_hits, teleport
from mcp_memory.navigate.scope import Scope
from mcp_memory.ports.library import Library

_AROUND = re.compile(r"(?P<head>\W*wh(?:at|ich)\b.{0,80}?)\b(?P<how>before|after)\s+(?P<named>.+)", re.I | re.S)
#: What may stand beside words without a topic: they ask for whatever there was.
_PLAIN = frozenset(
    """
    accomplish accomplished achieve achieved activities activity busy chat chats conversation conversations deal dealt
    directly discuss discussed discussing discussion discussions event events happen happened happening happens
    highlights immediately list mention mentioned next notes overview progress recap remember remind session sessions
    shortly show spend spent summarise summarize summary talk talked talking time topic topics work worked working
    """.split()
)
#: Below this score a hit that does not hold all that was named may be about something else, and so may its time.
_SURE = 0.3
_MANY, _READ = 3, 60
_DAY_MS = 24 * 3_600_000
#: How far away it may lie, in days; a longer time is only looked at if the shorter holds nothing.
_REACH = (1, 14)


@dataclass(frozen=True, slots=True)
class Around:
    """`named` is what it came before, or after."""

    later: bool
    named: str


def asks_for_anything(text: str) -> bool:
    """Whether a text names no topic, so that only a time or a place tells what is asked for."""
    return all(word in STOP_WORDS or word in _PLAIN for word in words(text))


def around(query: str) -> Around | None:
    """What a question asks to look around for; None if it asks for anything else as well."""
    match = _AROUND.fullmatch(query)
    if match is None or not asks_for_anything(match["head"]):
        return None
    named = match["named"].strip(" ?!.")
    telling = any(word not in STOP_WORDS for word in words(named))
    return Around(match["how"].lower() == "after", named) if telling else None


async def found_around(
    library: Library, scope: Scope, query: str, limit: int, offset: int, *, diverse: bool
) -> Found | None:
    """What is named, what came before or after it, nearest first, and the other hits; None if its time is not sure."""
    asked = around(query)
    if asked is None:
        return None
    end = offset + limit
    found = await teleport(library, scope, asked.named, limit=end, diverse=diverse)
    best = found.hits[0] if found.hits else None
    if best is None or best.kind != "event" or (best.missing and best.score < _SURE):
        return None
    nodes = await _beside(library, best, later=asked.later)
    beside = await segment_hits(library, scope, nodes, question_of(asked.named), best.score)
    if not beside:
        return None
    hits = [best, *beside, *found.hits[1:]]
    more = end if found.more or len(hits) > end else None
    return replace(found, query=query, hits=hits[offset:end], more=more)


async def _beside(library: Library, best: Hit, *, later: bool) -> Sequence[Node]:
    """The segments of the hit's project that ended before it, or began after it, nearest first."""
    for days in _REACH:
        start, end = (0, days * _DAY_MS) if later else (-days * _DAY_MS, 0)
        nodes = await library.between(best.project, Level.SEGMENT, best.start_ms + start, best.start_ms + end, _READ)
        if later:
            near = [node for node in nodes if node.start_ms > best.start_ms]
        else:
            near = [node for node in reversed(nodes) if node.end_ms < best.start_ms]
        if near:
            return near[:_MANY]
    return ()
