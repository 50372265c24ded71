"""What to try when little or nothing was found: words as memory spells them, other times, other projects.

Only what a look by key can tell is offered, so that a question without an answer costs no more than one with.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mcp_memory.domain.matches import Within
from mcp_memory.domain.stems import porter
from mcp_memory.domain.terms import slips
from mcp_memory.domain.text import STOP_WORDS
from mcp_memory.domain.toc import Level
from mcp_memory.search.asked import Wanted
from mcp_memory.search.found import Advice, Found
from mcp_memory.search.nearest import nearest_days
from mcp_memory.search.question import asks_for_anything, question_of
from mcp_memory.search.recall import teleport
from mcp_memory.search.scope import Scope
from mcp_memory.store.port import Library

#: Below this score the best hit is a guess, and a word that memory does not know may be the reason.
_WEAK = 0.3
#: Below this one it is about something else, which may be told in another project.
_POOR = 0.15
_UNKNOWN, _NEAR, _DAYS, _OFFERED = 3, 3, 2, 40


async def advised(library: Library, scope: Scope, found: Found) -> Found:
    """The answer with advice, if it needs any."""
    if not found.hits:
        return replace(found, advice=await _where_nothing_is(library, scope, found))
    return found if found.hits[0].score >= _WEAK else await _where_little_is(library, scope, found)


async def _where_little_is(library: Library, scope: Scope, found: Found) -> Found:
    if scope.alone:  # which words are known, and where, would tell of other projects
        return found
    near = await _near(library, found.query)
    # Of a question in full sentences many words are nowhere; only one that may be a slip is worth a word.
    slipped = {word: others for word, others in near.items() if others}
    poor = scope.project is not None and found.hits[0].score < _POOR
    elsewhere = await _better(library, scope, found) if poor else found.elsewhere
    return replace(found, advice=Advice(slipped), elsewhere=elsewhere) if slipped or elsewhere else found


async def _where_nothing_is(library: Library, scope: Scope, found: Found) -> Advice:
    when, near = found.when, {} if scope.alone else await _near(library, found.query)
    outside = when is not None and _has_words(found.query)
    anytime = (await teleport(library, Wanted(scope, found.query, limit=1))).hits if outside else []
    nearest = await nearest_days(library, scope.project, when.start_ms, when.end_ms) if when else []
    days = nearest or await library.top(scope.project, Level.DAY, _DAYS, bullets=False)
    names = tuple(scope.id_of(day.node_id, day.project) for day in days)
    return Advice(near, names, anytime[0].start_ms if anytime else None, bool(nearest))


def _has_words(query: str) -> bool:
    return bool(question_of(query).terms) and not asks_for_anything(query)


async def _near(library: Library, query: str) -> dict[str, tuple[str, ...]]:
    """The words of a question that memory does not know, each with known ones that are spelled almost so."""
    if asks_for_anything(query):
        return {}
    terms = question_of(query).terms
    words = list(dict.fromkeys(word for term in terms for word in (term.phrases[0] if term.compound else term.words)))
    known = await library.known(words)
    unknown = [word for word in words if word not in known and slips(word)]
    return {word: await _spelled_almost(library, word) for word in unknown[:_UNKNOWN]}


async def _spelled_almost(library: Library, word: str) -> tuple[str, ...]:
    """The known words that are one slip away, the commonest first."""
    found = await library.known([other for other in slips(word) if other not in STOP_WORDS])
    # The index knows stems, and so calls every form of a known word known; the likeliest slip stands for them.
    forms: dict[str, str] = {}
    for other in found:
        forms.setdefault(porter(other), other)
    return tuple(sorted(forms.values(), key=lambda other: -found[other])[:_NEAR])


async def _better(library: Library, scope: Scope, found: Found) -> dict[str, int]:
    """How many documents of other projects hold more of the question than the best hit here."""
    question = question_of(found.query)
    here = max((len(hit.matched) for hit in found.hits), default=0)
    offered = await library.search(question.sought, Within(), kinds=frozenset(["event"]), limit=_OFFERED)
    better = [
        candidate.project
        for candidate in offered
        if candidate.project != scope.project and candidate.event and sum(question.holds(candidate.event.text)) > here
    ]
    return dict(Counter(better))
