"""Questions about the work itself, answered by what memory knows of it before words are looked for.

A file's edits with the reasons for them, what is still open, what the user asked for last, where the last session
stopped: each is one list, the latest first, of which a page is a part. Any other question is left to the search.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventQuery, EventType, TurnOutline
from mcp_memory.domain.nodes import Bullet, Kind, Node, NodeQuery
from mcp_memory.domain.records import is_settled
from mcp_memory.domain.terms import IndexEntry, terms_of
from mcp_memory.domain.toc import Level
from mcp_memory.lexicon import Expression, expressions, word_lists
from mcp_memory.search.hits import Hit, RankedEntry, Results, hits_of, with_lines
from mcp_memory.search.question import Query, asks_for_anything, question_of
from mcp_memory.store.port import ReadStore

#: How sure an answer is: what is known exactly, and what is only likely to be meant.
_EXACT, _LIKELY, _MENTIONED = 0.8, 0.55, 0.5
#: How much is listed at most, and of how many of the latest sessions and segments it is gathered.
_EDITS, _MENTIONS, _REQUESTS, _SESSIONS, _SEGMENTS = 500, 500, 50, 8, 40
#: Of how many projects it is told what is open where all are asked for: of those that were active last.
_PROJECTS = 8
#: How many of the user's last messages tell where a session stopped.
_LAST = 3
#: What is longer is no such question, even if it begins like one.
_LONGEST = 300
_WORDINGS = expressions("work_questions")
#: A name with an extension, a hidden file, or a path; a line number may follow.
_FILE = re.compile(r"(?:~|\.{1,2})?(?:[\w.@+-]*[/\\])*(?:[\w@+-][\w.@+-]*\.[a-z]\w{0,9}|\.[a-z][\w.-]+)(?::\d+)*", re.I)
_PATH = re.compile(r"(?:~|\.{1,2})?[/\\]?\w[\w.@+-]*(?:[/\\][\w.@+-]+)+", re.I)
_AROUND, _BEHIND = "\"'`“”‘’([{<", "\"'`“”‘’)]}>.,;:?!"
_NAMED = re.compile(r"[\w.@~+/\\-]+")
_MESSAGE = "\nCommit message: "

#: The source of one place in an answer, with its score: a node, the events of one turn, or a single event.
Row = tuple[float, Node | list[Event] | IndexEntry]


async def answer_by_structure(reader: ReadStore, query: Query) -> Results | None:
    """What memory knows of the work that is asked about; None if something else is asked for, or nothing is known."""
    file = file_asked(query.text)
    sort = "file" if file else _sort_of(query.text)
    rows = await _rows(reader, query, sort, file) if sort else []
    if rows and file and not _WORDINGS["changes"].search(query.text.replace(file, "")):
        # Only its name was given: what else speaks of it follows.
        mentions = await _mentions(reader, query, FileName.of(file), rows)
        return await _page(reader, query, rows + mentions, "edits first" if mentions else "latest first")
    return await _page(reader, query, rows) if rows else None


async def work_hits(reader: ReadStore, query: Query, sort: str, file: str = "") -> Results:
    """What memory knows of a sort: what is `open`, the last `requests`, where work `stopped`, what befell a `file`.

    Of the query only its scope, time, kind and place in the list count.
    """
    return await _page(reader, query, await _rows(reader, query, sort, file))


async def _rows(reader: ReadStore, query: Query, sort: str, file: str) -> list[Row]:
    rows = await (_edits(reader, query, FileName.of(file)) if sort == "file" else _ANSWERS[sort](reader, query))
    return [row for row in rows if query.kind in (None, "segment" if isinstance(row[1], Node) else "event")]


async def _page(reader: ReadStore, query: Query, rows: list[Row], order: str = "latest first") -> Results:
    hits = [await _hit(reader, query, *row) for row in rows[query.offset : query.end]]
    more = query.end if len(rows) > query.end else None
    return Results(query.text, query.when, hits, more, order=order)


def is_all(wording: Expression, text: str) -> bool:
    """Whether beside such words nothing is named that could be looked for."""
    return asks_for_anything(" ".join(wording.split(text)))


def file_asked(text: str) -> str:
    """The file whose history a question asks for; nothing if it asks for something else, or for more."""
    chunks = [chunk.lstrip(_AROUND).rstrip(_BEHIND).removesuffix("'s") for chunk in text[:_LONGEST].split()]
    forms = (_FILE, _PATH, _WORDINGS["plain_files"])
    named = [chunk for chunk in chunks if any(form.fullmatch(chunk) for form in forms)]
    if len(named) != 1 or len(text) > _LONGEST:
        return ""
    rest = " ".join(chunk for chunk in chunks if chunk != named[0])
    asks = not rest.strip() or _WORDINGS["changes"].search(rest)
    beside = " ".join(_WORDINGS["file_words"].split(rest))
    return re.sub(r"(?::\d+)+$", "", named[0]) if asks and is_all(_WORDINGS["changes"], beside) else ""


def _sort_of(text: str) -> str:
    """Which of the other questions it is, if any."""
    asked = text if len(text) <= _LONGEST else ""
    return next((sort for sort in _ANSWERS if _WORDINGS[sort].search(asked) and is_all(_WORDINGS[sort], asked)), "")


async def _edits(reader: ReadStore, query: Query, asked: FileName) -> list[Row]:
    """The turns that changed a file. Where a mere name may mean several files, all of them are likely."""
    tools = word_lists("tools")["edited"]
    turns = await reader.edits(asked.base.casefold(), tools, query.within(query.when), _EDITS)
    found: list[tuple[set[str], list[Event]]] = []
    for turn in turns:
        calls = {event.key: asked.among(_files_of(event)) for event in turn}
        if kept := [event for event in turn if calls[event.key]]:
            found.append((set().union(*calls.values()), kept))
    whole = "/" in asked.path or len({path for paths, _ in found for path in paths}) == 1
    return [(_EXACT if asked.is_named(paths, whole) else _LIKELY, kept) for paths, kept in found]


async def _mentions(reader: ReadStore, query: Query, asked: FileName, edits: Sequence[Row]) -> list[Row]:
    """The events that name a file and are not shown with its edits: messages first, each kind latest first."""
    shown = {event.key for _, events in edits if isinstance(events, list) for event in events}
    terms = terms_of(asked.base)[:1]  # the name as a whole
    pool = await reader.pool(terms, query.within(query.when), cited=False, limit=_MENTIONS)
    naming = [message for message in pool.messages[: pool.matched] if asked.among(asked.names_in(message.text))]
    naming.sort(key=lambda message: (message.role == "tool", -message.timestamp_ms, -message.number))
    entries = await reader.candidates([message.number for message in naming])
    found = [(message, entry) for message in naming if (entry := entries.get(message.number))]
    # An edit is shown with the message that opened its turn and the one that closed it.
    turns = {message.turn for message, entry in found if _key(entry) in shown}
    shown |= {event.key for event in (await reader.closings(list(turns))).values()}
    shown |= {_key(entry) for message, entry in found if message.number in turns}
    return [(_MENTIONED, entry) for _, entry in found if _key(entry) not in shown]


def _key(entry: IndexEntry) -> bytes:
    return entry.event.key if entry.event else b""


@dataclass(frozen=True, slots=True)
class FileName:
    """A file as a question names it. Capital letters in it count: Node.js is not node.js."""

    path: str

    @classmethod
    def of(cls, text: str) -> FileName:
        return cls(_plain_path(text))

    @property
    def base(self) -> str:
        return self.path.rpartition("/")[2]

    def names_in(self, text: str) -> Iterator[str]:
        """Yield the names and words of the lines that may hold this one."""
        for line in text.splitlines():
            if self.base.casefold() in line.casefold():
                yield from _NAMED.findall(line)

    def among(self, names: Iterable[str]) -> set[str]:
        """Return the paths that may be this file, as they are named."""
        paths = {_plain_path(name) for name in names}
        if self.path == self.path.casefold():
            paths = {path.casefold() for path in paths}
        return {path for path in paths if self.is_named({path}, True) or self.path.endswith(f"/{path}")}

    def is_named(self, paths: set[str], by_end: bool) -> bool:
        """Whether one of the paths is this one or, if that is enough, ends like it."""
        return self.path in paths or (by_end and any(_is_end(self.path, path) for path in paths))


def _plain_path(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./").rstrip(".-")


def _files_of(event: Event) -> Iterable[str]:
    """The files of a call, as it names them."""
    told = event.metadata.get("files") or _NAMED.findall(event.text.partition("\n")[0])
    return map(str, told)


def _is_end(asked: str, path: str) -> bool:
    """Whether a path ends like the one asked for, or a whole path like it."""
    return path.endswith(f"/{asked}") or (asked[:1] in "/~" and asked.endswith(f"/{path}"))


async def _open(reader: ReadStore, query: Query) -> list[Row]:
    """What is left open in a project, or in each of those that were active last: a busy one hides no other."""
    slugs = [query.scope.project]
    if query.scope.project is None:
        slugs = [project.slug for project in (await reader.active_projects())[:_PROJECTS]]
    scopes = [replace(query.scope, project=slug) for slug in slugs]
    rows = [row for scope in scopes for row in await _open_in_project(reader, replace(query, scope=scope))]
    return [(_LIKELY, node) for node in sorted(rows, key=lambda node: -node.start_ms)]


async def _open_in_project(reader: ReadStore, query: Query) -> list[Node]:
    """What segments leave open, and the latest records of their sessions, unless something later speaks of it."""
    told: list[str] = []
    rows: list[Node] = []
    sessions: set[str] = set()
    for node in await reader.nodes(_latest_segments(query)):
        left = [bullet for bullet in node.bullets if bullet.kind is Kind.OPEN]
        if node.session_id and node.session_id not in sessions and len(sessions) < _SESSIONS:
            sessions.add(node.session_id)
            for record in (await reader.records(node.session_id, None))[-1:]:
                context = record.body.context
                texts = [*(item.shown for item in context.action_items), *context.unresolved]
                left += [Bullet(text, kind=Kind.OPEN) for text in texts]
        kept: list[Bullet] = []
        for bullet in left:
            known = [*told, *(other.text for other in kept)]
            if bullet.text not in known and not is_settled(bullet.text, known):
                kept.append(bullet)
        if kept:
            rows.append(replace(node, bullets=tuple(kept)))
        told += [bullet.text for bullet in (*node.bullets, *kept)]
    return rows


async def _requests(reader: ReadStore, query: Query) -> list[Row]:
    return [(_EXACT, [event]) for event in await _asked(reader, query)]


async def _stopped(reader: ReadStore, query: Query) -> list[Row]:
    """The last segment of the last session, then the user's last messages in it; of a time the tree tells more."""
    requests = await _asked(reader, query) if query.when is None else []
    if not requests:
        return []
    last, rows = requests[0].session_id, list[Row]()
    if segment := await reader.last_segment(last):
        rows = [(_EXACT, node) for node in await reader.nodes(NodeQuery(segment[0], (segment[1],)))]
    return rows + [(_EXACT, [event]) for event in requests if event.session_id == last][:_LAST]


async def _asked(reader: ReadStore, query: Query) -> list[Event]:
    """The user's latest messages, newest first, without those that ask for the like: one of them is asked right now."""
    project, when = query.scope.project, query.when
    names = await reader.sessions("", _SESSIONS, project)
    names += [node.session_id for node in await reader.nodes(_latest_segments(query)) if node.session_id]
    after, through = ((when.start_ms, 0), (when.end_ms, 0)) if when else (None, None)
    asked = EventQuery(project, types=(EventType.USER_MESSAGE,), after=after, through=through, last=_REQUESTS)
    found = [event for name in dict.fromkeys(names) for event in await reader.events(replace(asked, session_id=name))]
    found = [event for event in found if not _sort_of(event.text)]
    return sorted(found, key=lambda event: (event.timestamp_ms, event.key), reverse=True)[:_REQUESTS]


def _latest_segments(query: Query) -> NodeQuery:
    latest = NodeQuery.latest(query.scope.project, Level.SEGMENT, _SEGMENTS)
    return replace(latest, between=(query.when.start_ms, query.when.end_ms)) if query.when else latest


_ANSWERS: dict[str, Callable[[ReadStore, Query], Awaitable[list[Row]]]] = {
    "open": _open,
    "requests": _requests,
    "stopped": _stopped,
}


async def _hit(reader: ReadStore, query: Query, score: float, told: Node | list[Event] | IndexEntry) -> Hit:
    """A node or event as it is; of a turn the reason, with what was done and how it ended as lines."""
    shown = replace(query, kind=None, offset=0, limit=1)
    if isinstance(told, IndexEntry):
        return (await hits_of(reader, shown, [RankedEntry(score, told)], question_of(query.text)))[0]
    entry, lines = IndexEntry(told) if isinstance(told, Node) else None, list[Event]()
    if not isinstance(told, Node):
        reason, *lines = _told_of(told, await reader.turn_of(told[0].key))
        words = await reader.words(reason.key, None)
        entry = IndexEntry(reason, segment_id=words.segment.node_id() if words and words.segment else "")
    ranked = [RankedEntry(score, entry), *(RankedEntry(score, IndexEntry(line)) for line in lines)]
    hit, *beside = await hits_of(reader, replace(shown, limit=len(ranked)), ranked, question_of(""))
    return with_lines(hit, beside)


def _told_of(done: list[Event], turn: TurnOutline) -> list[Event]:
    """What tells of a turn, the reason first: the user's message, or the commit where that only says to go on."""
    if done[0].event_type is EventType.USER_MESSAGE:
        return [done[0], *([turn.closing] if turn.closing else [])]
    edit = next((event for event in reversed(done) if _MESSAGE not in event.text), None)
    commit = replace(turn.commit, text=_commit_message(turn.commit)) if turn.commit else None
    opening = turn.opening
    told = [commit, opening] if opening and asks_for_anything(opening.text) else [opening, commit]
    reason = next((event for event in (*told, edit) if event), done[-1])
    lines = [event for event in (edit, commit, turn.closing) if event and event is not reason]
    return [reason, *lines]


def _commit_message(commit: Event) -> Clean:
    """What a call that committed tells, without the command; it is as clean as the whole."""
    place = commit.text.find(_MESSAGE)
    return Clean(commit.text[place + 1 :]) if place >= 0 else commit.text
