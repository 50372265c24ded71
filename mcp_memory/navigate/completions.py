"""What the argument of a prompt or of a resource's address may go on with: ids, sessions, times and topics.

Clients ask at every key stroke, so each look reads a bounded number of rows by their keys, however long the history is.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from mcp_memory.domain.nodes import NodeQuery
from mcp_memory.domain.toc import Level, Scope, parse_node_id
from mcp_memory.errors import BadId
from mcp_memory.navigate.answers import Answers
from mcp_memory.navigate.browse import node_of

#: As many as the protocol allows in one answer.
MOST = 100
_PHRASES = ("today", "yesterday", "this week", "last week", "this month", "last month", "this year")
#: The latest nodes of each level whose keywords are offered as topics.
_TOPICS = {Level.DAY: 40, Level.WEEK: 20, Level.MONTH: 12, Level.YEAR: 3}
_TIME_DIGITS = 13
_DIGITS = re.compile(r"[0-9]{0,15}")


async def complete(answers: Answers, argument: str, typed: str) -> list[str]:
    """What an argument of this name may go on with, in the project in scope."""
    scope, completer = await answers.view(), _COMPLETERS.get(argument)
    if argument in ("session", "session_id"):
        return await answers.reader.sessions(typed, MOST + 1, scope.home) if scope.home else []
    return await completer(answers, scope, typed) if completer else []


async def _node_ids(answers: Answers, scope: Scope, typed: str) -> list[str]:
    """Ids that begin so; after `@` the projects that have the node."""
    name, at, beginning = typed.partition("@")
    if at:
        try:
            ref, _ = parse_node_id(name)
        except BadId:
            return []
        known = [scope.home or ""] if scope.alone else await answers.reader.slugs()
        slugs = [slug for slug in known if slug.startswith(beginning)]
        return [f"{name}@{slug}" for slug in slugs[:MOST] if await node_of(answers.reader, slug, ref)]
    found: list[str] = []
    for level in Level if scope.home else ():
        prefix = f"toc:{level.label}:"
        if prefix.startswith(typed[: len(prefix)]):
            left = MOST + 1 - len(found)
            query = NodeQuery(scope.home, level=level, beginning=typed[len(prefix) :], limit=left, bullets=False)
            found += [node.node_id for node in await answers.reader.nodes(query)]
    return found


async def _grip_ids(answers: Answers, scope: Scope, typed: str) -> list[str]:
    """Ids of grips that begin so, the latest first; their first part is a time, which tells where to look."""
    digits = typed[5:].partition(":")[0]
    if not scope.home or not "grip:".startswith(typed[:5]) or not _DIGITS.fullmatch(digits):
        return []
    missing = max(_TIME_DIGITS - len(digits), 0)
    first = int(digits or "0") * 10**missing
    last = first + 10**missing - 1 if digits else 10**_TIME_DIGITS
    found = await answers.reader.grips_between(scope.home, first, last, MOST + 1)
    return [grip_id for grip_id in found if grip_id.startswith(typed)]


async def _times(answers: Answers, scope: Scope, typed: str) -> list[str]:
    """Phrases for times in which something was said, then the days, weeks and months there are."""
    found: list[str] = []
    if not scope.home:
        return found
    for phrase in (phrase for phrase in _PHRASES if phrase.startswith(typed.lower())):
        time = answers.when(phrase)
        if time and await answers.reader.nodes(
            NodeQuery.touching(scope.home, Level.DAY, time.start_ms, time.end_ms, 1)
        ):
            found.append(phrase)
    for level in (Level.DAY, Level.WEEK, Level.MONTH):
        query = NodeQuery(scope.home, level=level, beginning=typed, limit=MOST + 1 - len(found), bullets=False)
        found += [node.ref.key for node in await answers.reader.nodes(query)]
    return found


async def _topics(answers: Answers, scope: Scope, typed: str) -> list[str]:
    """What the latest nodes speak of most, if a word of it begins so."""
    if not scope.home:
        return []
    queries = [NodeQuery.latest(scope.home, level, many, bullets=False) for level, many in _TOPICS.items()]
    levels = [await answers.reader.nodes(query) for query in queries]
    words = dict.fromkeys(word for nodes in levels for node in nodes for word in node.keywords)
    return [word for word in words if word.casefold().startswith(typed.casefold())]


#: By the name of the argument.
_COMPLETERS: dict[str, Callable[[Answers, Scope, str], Awaitable[list[str]]]] = {
    "node_id": _node_ids,
    "grip_id": _grip_ids,
    "when": _times,
    "topic": _topics,
}
