"""What a memory tells of its capture and its records, and what of that is trouble, whichever engine it lies on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from mcp_memory.domain.events import PIN_ASKED, ulid
from mcp_memory.domain.failures import RETRY, FailedWork, Pause, grouped_failures
from mcp_memory.domain.nodes import grip_id
from mcp_memory.domain.records import digest
from mcp_memory.domain.tombstones import Tombstones
from mcp_memory.errors import UPDATE, Problem

MINUTE = 60_000
PROCESS = "mcp-memory process"
#: A running server takes up what waits within seconds.
LATE_MS = 10 * MINUTE
_AHEAD_MS = 10 * MINUTE
#: After this many failures in a row the pipeline is stuck rather than unlucky.
_AGAIN = 2
#: How many notes that wait to be pinned are named.
_MOST_PINS = 3
_COMPACT = "mcp-memory compact"
#: When each client was last heard of, and whether a hook ever told anything that is stored.
LAST = """
    SELECT s.client, max((SELECT max(e.timestamp_ms) FROM event e WHERE e.session = s.id))
    FROM session s GROUP BY 1
"""
HOOKED = """SELECT EXISTS (SELECT 1 FROM event WHERE metadata LIKE '%"via": "hook"%')"""
PINS_ASKED = (
    f"SELECT timestamp_ms, key FROM event WHERE type = 'note' AND metadata LIKE '%\"{PIN_ASKED}\": true%' ORDER BY id"
)
#: Each source of a record, and what it says by now.
SOURCES = """
    SELECT s.session_id, c.created_ms, c.key, e.id IS NULL, o.sha256, e.text
    FROM compaction_source o JOIN compaction c ON c.id = o.compaction JOIN session s ON s.id = c.session
    LEFT JOIN event e ON e.id = o.event ORDER BY c.id
"""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database tells about capture. `last_ms` is the latest event of each client, waiting ones included.

    `unknown` are the payloads of no known form: how many of each client, and when the last of them came.
    """

    last_ms: dict[str, int] = field(default_factory=dict)
    oldest_waiting_ms: int | None = None
    waiting: int = 0
    newest_ms: int | None = None
    holder: str = ""
    lease_until_ms: int = 0
    set_aside: tuple[tuple[str, int, str], ...] = ()
    unknown: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: Whether something was erased and has not been scrubbed from the file yet.
    unscrubbed: bool = False
    #: Which tables of a server may still hold it, and when they are rewritten.
    to_rewrite: str = ""
    #: What is kept about models, by name: why one was stopped, and how often it failed.
    models: dict[str, Any] = field(default_factory=dict)
    #: How many nodes are of which revision of the extractive summarizer.
    revisions: dict[int, int] = field(default_factory=dict)
    #: Whether it is a team's: then laptops tell it something, and no client of this machine.
    of_team: bool = False
    #: What the pipeline could not do and has set aside, and what keeps all of it from going on.
    failed: tuple[FailedWork, ...] = ()
    #: The time and key of the notes that an agent wants pinned, to which the user has not agreed.
    pins_asked: tuple[tuple[int, bytes], ...] = ()
    pause: Pause | None = None
    #: What is refused because it was forgotten.
    tombstones: Tombstones = Tombstones()


def joined(known: Facts, local: Facts) -> Facts:
    """What a memory tells, with what waits in the inbox of this machine."""
    last = {**known.last_ms}
    for client, heard_ms in local.last_ms.items():
        last[client] = max(heard_ms, last.get(client, heard_ms))
    return replace(
        known,
        last_ms=last,
        newest_ms=max(last.values(), default=None),
        oldest_waiting_ms=local.oldest_waiting_ms,
        waiting=local.waiting,
        set_aside=local.set_aside,
        unknown=local.unknown,
        unscrubbed=known.unscrubbed or local.unscrubbed,
        pause=local.pause,
    )


def differing(sources: Iterable[Any]) -> list[Problem]:
    """The records of which a source is gone or says something else."""
    told = "{} of the events it was made from are gone, {} say something else than they did."
    found: dict[tuple[str, str], list[int]] = {}
    for session, created_ms, key, missing, sha256, text in sources:
        if missing or digest(text) != sha256:
            counts = found.setdefault((session, ulid(created_ms, key)), [0, 0])
            counts[0 if missing else 1] += 1
    return [
        Problem(f"record {record} does not match its events", told.format(*counts), f"{_COMPACT} {session} --force")
        for (session, record), counts in found.items()
    ]


def _tombstone_problems(tombstones: Tombstones, now_ms: int) -> Iterator[Problem]:
    """Yield what keeps tombstones from doing what they should."""
    if tombstones.key_lost:
        why = (
            f"The key of {tombstones.events:,} tombstones was in an inbox.db that is gone. What they stand for is not "
            "in memory, but importing a transcript that still holds it would bring it back."
        )
        fix = "Put the old inbox.db back, or after an import look for it: mcp-memory search …, then mcp-memory forget …"
        yield Problem("what was forgotten may come back", why, fix)
    for forgetting in tombstones.forgettings:
        if (forgetting.before_ms or 0) > now_ms + _AHEAD_MS:
            why = "The clock was ahead when it was made, and lines dated before that time are refused until then."
            fix = f"mcp-memory forget --lift {forgetting.id}, then forget the same once more"
            yield Problem(f"forgetting {forgetting.id} lies in the future", why, fix)


def unread(client: str, count: int) -> str:
    return (
        f"{count} payloads of {client} are of no known form"
        if count > 1
        else f"1 payload of {client} is of no known form"
    )


def unread_payloads(facts: Facts) -> list[Problem]:
    """What a client's hook told that no one could read."""
    fix = f"{UPDATE}; then mcp-memory process reads them. If this is the latest version, tell its makers of the client."
    problems = []
    for client, (count, last_ms) in facts.unknown.items():
        last = datetime.fromtimestamp(last_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        why = f"They are kept, and not in memory. The last came on {last}."
        problems.append(Problem(unread(client, count), why, fix))
    return problems


def unanswered_pins(facts: Facts) -> list[Problem]:
    """Return the notes that an agent wants shown at the start of every session, of which the user has to decide."""
    notes = [grip_id(timestamp_ms, bytes(key)) for timestamp_ms, key in facts.pins_asked]
    if not notes:
        return []
    what = (
        f"{len(notes)} notes of agents wait to be pinned" if len(notes) > 1 else "a note of an agent waits to be pinned"
    )
    why = "Its client could not ask you whether to show it at the start of every session, so it is kept unpinned."
    fix = " or ".join(f"mcp-memory remember --pin {name}" for name in notes[:_MOST_PINS])
    return [Problem(what, why, f"{fix}; or pin, edit or forget it on the viewer's page of notes")]


def flow(facts: Facts, now_ms: int) -> list[Problem]:
    """Whether what was captured is taken up, and whether its times can be true."""
    problems = []
    if facts.oldest_waiting_ms is not None and facts.oldest_waiting_ms < now_ms - LATE_MS:
        age = (now_ms - facts.oldest_waiting_ms) // MINUTE
        if facts.lease_until_ms > now_ms:
            why = f"{facts.holder} holds the lease but has left {facts.waiting} events untouched for {age} minutes."
            fix = f"kill {facts.holder.rpartition(':')[2]}; then: {PROCESS}"
            problems.append(Problem("the lease of the pipeline is stuck", why, fix))
        else:
            why = f"No server has run since, so {facts.waiting} events wait, the oldest for {age} minutes."
            problems.append(Problem("captured events are waiting", why, PROCESS))
    problems += [Problem(what, f"{why} All other work goes on.", RETRY) for what, why in grouped_failures(facts.failed)]
    if facts.pause and facts.pause.times >= _AGAIN:
        since = datetime.fromtimestamp(facts.pause.since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        why = f"{facts.pause.error} It failed {facts.pause.times} times since {since}; nothing new is summarized."
        fix = f"Do what the error says, then: {PROCESS}. If it names no step: {UPDATE}, and report the error."
        problems.append(Problem("the pipeline pauses", why, fix))
    if facts.newest_ms is not None and facts.newest_ms > now_ms + _AHEAD_MS:
        minutes = (facts.newest_ms - now_ms) // MINUTE
        why = f"The latest is {minutes} minutes ahead of this machine's clock, which is or was wrong."
        fix = "Set the clock (timedatectl set-ntp true); what is in the future comes right by itself with time."
        problems.append(Problem("events lie in the future", why, fix))
    if facts.unscrubbed:
        why = "A program was reading an earlier state when something was forgotten, or the disk was full."
        fix = "End programs that have the memory open and free some space, then: mcp-memory status"
        problems.append(Problem("what was forgotten is still in the file", why, fix))
    problems += _tombstone_problems(facts.tombstones, now_ms)
    if facts.to_rewrite:
        why = f"{facts.to_rewrite[:1].upper()}{facts.to_rewrite[1:]}."
        fix = "End what it names, or leave it: a running mcp-memory serve rewrites the tables by itself"
        problems.append(Problem("what was forgotten is still in the server's files", why, fix))
    for path, line, reason in facts.set_aside:
        if os.path.lexists(path):
            where = f" (line {line})" if line else ""
            fix = f"It is read again once it has changed; to try now: mcp-memory import {shlex.quote(path)}"
            problems.append(Problem(f"{path} was set aside", f"{reason[:1].upper()}{reason[1:]}{where}.", fix))
    return problems
