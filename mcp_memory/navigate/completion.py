"""Completing what a user types where an id, a time or a topic is asked for, with what there is in the project in scope.

Each look reads a bounded number of rows by their keys, however long the history is: clients ask at every key stroke.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable

from mcp_memory.domain.toc import Level, parse_node_id
from mcp_memory.errors import BadId
from mcp_memory.navigate.answers import Answers

#: As many as the protocol allows in one answer.
MOST = 100
_PHRASES = ("today", "yesterday", "this week", "last week", "this month", "last month", "this year")
#: The latest nodes of each level whose keywords are offered as topics.
_TOPICS = {Level.DAY: 40, Level.WEEK: 20, Level.MONTH: 12, Level.YEAR: 3}
_TIME_DIGITS = 13
_DIGITS = re.compile(r"[0-9]{0,15}")


async def node_ids(answers: Answers, typed: str) -> list[str]:
    """Ids that begin so; after `@` the projects that have the node."""
    if "@" in typed:
        return await _elsewhere(answers, typed)
    project = (await answers.view()).home
    found: list[str] = []
    for level in Level if project else ():
        prefix = f"toc:{level.label}:"
        if prefix.startswith(typed[: len(prefix)]):
            left = MOST + 1 - len(found)
            named = await answers.library.nodes_named(project or "", level, typed[len(prefix) :], left)
            found += [ref.node_id() for ref in named]
    return found


async def _elsewhere(answers: Answers, typed: str) -> list[str]:
    name, _, beginning = typed.partition("@")
    try:
        ref, _ = parse_node_id(name)
    except BadId:
        return []
    seen = await answers.view()
    known = [seen.home or ""] if seen.alone else await answers.library.slugs()
    slugs = [slug for slug in known if slug.startswith(beginning)]
    return [f"{name}@{slug}" for slug in slugs[:MOST] if await answers.library.node(slug, ref)]


async def grip_ids(answers: Answers, typed: str) -> list[str]:
    """Ids of grips that begin so, the latest first; their first part is a time, which tells where to look."""
    project = (await answers.view()).home
    digits = typed[5:].partition(":")[0]
    if not project or not "grip:".startswith(typed[:5]) or not _DIGITS.fullmatch(digits):
        return []
    missing = max(_TIME_DIGITS - len(digits), 0)
    first = int(digits or "0") * 10**missing
    last = first + 10**missing - 1 if digits else 10**_TIME_DIGITS
    found = await answers.library.grips_between(project, first, last, MOST + 1)
    return [grip_id for grip_id in found if grip_id.startswith(typed)]


async def sessions(answers: Answers, typed: str) -> list[str]:
    project = (await answers.view()).home
    return await answers.library.sessions_of(project, typed, MOST + 1) if project else []


async def times(answers: Answers, typed: str) -> list[str]:
    """Phrases for times in which something was said, then the days, weeks and months there are."""
    project = (await answers.view()).home
    if not project:
        return []
    found = []
    for phrase in (phrase for phrase in _PHRASES if phrase.startswith(typed.lower())):
        time = answers.when(phrase)
        if time and await answers.library.between(project, Level.DAY, time.start_ms, time.end_ms, 1):
            found.append(phrase)
    for level in (Level.DAY, Level.WEEK, Level.MONTH):
        named = await answers.library.nodes_named(project, level, typed, MOST + 1 - len(found))
        found += [ref.key for ref in named]
    return found


async def topics(answers: Answers, typed: str) -> list[str]:
    """What the latest nodes speak of most, if a word of it begins so."""
    project = (await answers.view()).home
    words: Iterable[str] = ()
    if project:
        levels = [await answers.library.top(project, level, many, bullets=False) for level, many in _TOPICS.items()]
        words = dict.fromkeys(word for nodes in levels for node in nodes for word in node.keywords)
    wanted = typed.casefold()
    return [word for word in words if word.casefold().startswith(wanted)]


Completer = Callable[[Answers, str], Awaitable[list[str]]]
#: By the name of the argument, of a prompt or of a resource's address.
COMPLETERS: dict[str, Completer] = {
    "node_id": node_ids,
    "grip_id": grip_ids,
    "session_id": sessions,
    "session": sessions,
    "when": times,
    "topic": topics,
}
