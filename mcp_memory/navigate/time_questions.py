"""What a question that names no topic asks of a time: its first or last thing, one project's part, or just the latest.

And a question that asks for a date is told the best hit's in words.
"""

from __future__ import annotations

import re
from datetime import datetime

from mcp_memory.domain.toc import Level, Scope
from mcp_memory.search.hits import Hit, Order
from mcp_memory.search.question import asks_for_anything
from mcp_memory.store.port import Library
from mcp_memory.times.resolve import TimeRange

_EVER_MS = 1 << 53
#: What is recent: the latest days on which anything was.
_RECENT_DAYS = 4
_GUESS = 0.1
_FIRST = re.compile(r"\b(?:first|earliest|beg[iau]n|start(?:ed)?)\b", re.I)
_LAST = re.compile(r"\b(?:last|latest|final(?:ly)?|most recent(?:ly)?|end(?:ed)?)\b", re.I)
_RECENT = re.compile(r"\b(?:recent(?:ly)?|lately|new|these days|up to)\b", re.I)
#: Where work was taken up again, said in many ways that are no topics.
_LEFT_OFF = re.compile(r"\b(?:leave|left|break|broke) off\b|\bstop(?:ped)?\b|\bend(?:ed)?\b|\bstart(?:ed)?\b", re.I)
_ASKS = re.compile(r"\b(?:what|where|which|how|anything|recap|catch|summari[sz]e|summary|show|list|remind)\b", re.I)
_OUTCOMES = re.compile(
    r"\b(?:decid(?:e|ed|ing)|decisions?|fix(?:es|ed|ing)?|bugs?|br(?:eak|eaks|oke|oken)|fail(?:s|ed|ures?)?|errors?|issues?"
    r"|problems?|ship(?:ped)?|deploy(?:ed|s|ments?)?|releases?|released|buil[dt]|add(?:ed)?|writ(?:e|ten)|wrote|learn(?:ed|t)?)\b",
    re.I,
)
_IN_PROJECT = re.compile(
    r"\b(?:in|on|of|for|at|within|from)\s+(?:the\s+)?(?:project\s+|repo(?:sitory)?\s+)?[`'\"]?(?P<slug>\w[\w.-]*\w)[`'\"]?"
    r"(?:\s+(?:project|repo(?:sitory)?)\b)?",
    re.I,
)
_WHEN = re.compile(
    r"^\W*(?:and |so |remind me |tell me |do you (?:know|remember) )*(?:since )?"
    r"(?:when|(?:on )?(?:what|which) (?:day|date|time|week|month|year)|how long ago"
    r"|how many (?:days|weeks|months|years) ago)\b",
    re.I,
)


def order_of(asked: str) -> Order:
    """Whether the first or the last of what there was is asked for."""
    return "last" if _LAST.search(asked) else "first" if _FIRST.search(asked) else ""


def asks_for_latest(query: str) -> bool:
    """Whether a question names neither a topic nor a time: what were we doing, where did we leave off?"""
    return bool(_ASKS.search(query)) and asks_for_anything(_LEFT_OFF.sub(" ", query))


async def asks_for_time(library: Library, scope: Scope, asked: str) -> Scope | None:
    """Where to look for whatever there was, if a question names no topic; it may name a project."""
    if asks_for_anything(asked):
        return scope
    if scope.project not in (None, scope.home) or scope.alone:
        return None
    for match in _IN_PROJECT.finditer(asked):
        if asks_for_anything(f"{asked[: match.start()]} {asked[match.end() :]}"):
            slugs = {slug.lower(): slug for slug in await library.slugs()}
            if slug := slugs.get(match["slug"].lower()):
                return Scope(scope.home, slug)
    return None


async def latest(library: Library, project: str | None, asked: str) -> tuple[TimeRange, Order] | None:
    """The day on which anything was last, or first if that is asked for; of recent things, the days up to it.

    And from which end it is told.
    """
    first = order_of(asked) == "first"
    recent = not first and bool(_RECENT.search(asked))
    days = (
        await library.between(project, Level.DAY, 0, _EVER_MS, 1)
        if first
        else await library.top(project, Level.DAY, _RECENT_DAYS if recent else 1, bullets=False)
    )
    phrase = "the first day" if first else "the latest days" if recent else "the latest day"
    order: Order = "first" if first else "" if recent else "last"
    return (TimeRange(phrase, days[-1].start_ms, days[0].end_ms), order) if days else None


def asks_for_outcomes(asked: str) -> bool:
    """Whether beside a time only a kind of outcome is named: the decisions of any other time are no answer."""
    return asks_for_anything(_OUTCOMES.sub(" ", asked))


def told_when(query: str, best: Hit, now: datetime) -> str:
    """The date of the best hit, for a question that asks for one, unless it is hardly more than a guess."""
    if not _WHEN.match(query) or best.score < _GUESS:
        return ""
    day = datetime.fromtimestamp(best.start_ms / 1000, now.tzinfo)
    days = (now.date() - day.date()).days
    ago = {0: "today", 1: "yesterday"}.get(days, f"{days} days ago" if days > 0 else "")
    return f" The first is of {day:%A, %Y-%m-%d}{', ' * bool(ago)}{ago}."
