"""Browsing the table of contents: the root, a node with its surroundings, the nodes that cover a time, a grip.

First comes which project a question is about, and what the ids mean that an agent gives back, however far they were
shortened. With a topic one goes down by it: a branch is worth what was said in it, not only what its summary says, in
which the words of a question seldom stand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from mcp_memory.domain.events import MESSAGES, Event, EventQuery, EventType
from mcp_memory.domain.nodes import (
    Bullet,
    GripRecord,
    Node,
    NodeQuery,
    State,
    locate,
    parse_grip_id,
    parse_short_grip_id,
    place_in,
)
from mcp_memory.domain.quoting import unquoted_name
from mcp_memory.domain.terms import Within, terms_of
from mcp_memory.domain.toc import TEAM, Level, NodeRef, Scope, ancestors, out_of_reach, parse_node_id
from mcp_memory.errors import (
    JOIN_TEAM,
    SEE_ALL,
    SEE_GRIPS,
    SEE_PROJECTS,
    SEE_WHOLE_GRIP,
    NoProject,
    NotFound,
    UsageError,
    did_you_mean,
)
from mcp_memory.search.hits import Hit, attributed, passage_of
from mcp_memory.search.question import LEVELS, Query, Question, question_of
from mcp_memory.search.retrieval import search
from mcp_memory.store.port import ReadStore
from mcp_memory.times.resolve import TimeRange

ALL = "*"
#: The beginning of a UUID: as much as is shown of it, or about that.
_SHORT_SESSION = re.compile(r"[0-9a-f]{4,8}|[0-9a-f]{8}-[0-9a-f-]{0,26}", re.I)
#: How many projects are named to choose from.
_NAMED = 8
_DAY_MS = 86_400_000
_LIMIT = 400
#: So many times more events are read as are asked for, to find the messages among them.
_WIDER = 4
#: What is no message: it stands among them only if it did not end well, or if there are too few of them.
_DONE = (EventType.TOOL_RESULT, EventType.ASSISTANT_STOP)
#: How many calls and turns that did not end well are shown on either side of a grip.
_MARKED = 3
_FIRST, _LAST = (-(1 << 62), 0), (1 << 62, 0)
YEARS, _MONTHS, _DAYS = 6, 4, 3
#: How many branches of a topic are shown, by their level.
_ABOUT = ((Level.YEAR, 2), (Level.MONTH, 4), (Level.DAY, 5))
_HITS, _NODES, _ENOUGH = 16, 40, 12
#: What a place in the ranking is worth beside the score, and what it is worth to be spoken of in a summary.
_PLACE, _SUMMARY = 0.15, 0.05
_SPEAKS = 0.02
#: A time filter reads all that lies in the time; in a longer one, everything is searched and what is outside left out.
_NARROW_MS = 40 * _DAY_MS

Branch = tuple[str, NodeRef]


class Reach(Enum):
    """What may be read: where no project is known, everything, as on a team's server, or nothing; or ever only home."""

    EVERYTHING = "everything"
    TEAM = "team"
    NAMED = "named"
    HOME = "home"


async def scope_of(reader: ReadStore, home: str | None, asked: str | None, reach: Reach, here: str) -> Scope:
    """The scope of a request: the project asked for, else home. `here` is how the place is called if it has none."""
    if reach is Reach.HOME and asked and asked != home:
        raise out_of_reach(home)
    team = reach is Reach.TEAM
    asked = asked.removeprefix(TEAM) if asked and team else asked
    if asked == ALL:
        return Scope(home, None, team=team)
    if asked and await reader.root_of(asked) is None:
        slugs = await reader.slugs()
        known = f"Known projects: {', '.join(slugs[:12]) or 'none yet'}; use '*' for all."
        raise NotFound(f"There is no project {asked!r} in memory.{did_you_mean(asked, slugs)} {known}")
    free = asked or home or team or reach is Reach.EVERYTHING
    if slugs := [] if free else await reader.slugs():  # an empty memory has nothing to refuse
        ways = ""
        if reach is Reach.NAMED:
            some = ", ".join(slugs[:_NAMED]) + (", …" if len(slugs) > _NAMED else "")
            ways = f' Pass project with a slug ({some}), or project="*" for all of them.'
        raise NoProject(
            f"Memory knows no project {here}, so nothing was looked up.{ways} A server that is started in a project's "
            "directory, or with MCP_MEMORY_PROJECT set to its slug, answers from that project. This place becomes one "
            "as soon as something is captured or remembered here."
        )
    return Scope(home, asked or home, reach is Reach.HOME, team)


async def node_of(reader: ReadStore, project: str, ref: NodeRef) -> Node | None:
    found = await reader.nodes(NodeQuery(project, (ref,)))
    return found[0] if found else None


async def ref_of(reader: ReadStore, scope: Scope, node_id: str) -> tuple[NodeRef, str]:
    """The node that an id means, and its project: named in the id, or the scope's, or the only one that has it."""
    ref, named = parse_node_id(node_id)
    named = scope.slug_of(named) if named else None
    if named and named.startswith(TEAM):
        raise NotFound(f"{node_id.strip()[:120]} is of a team's memory, not of this one.", JOIN_TEAM)
    scope.admit(named or scope.project or "")
    if ref.shortened:
        return await _whole(reader, scope, ref, named or scope.project)
    if named:
        if await reader.root_of(named) is None:
            raise NotFound(f"There is no project {named!r} in memory.", SEE_PROJECTS)
        return ref, named
    if scope.project:
        return ref, scope.project
    holders = [slug for slug in await reader.slugs() if await node_of(reader, slug, ref)]
    if len(holders) == 1:
        return ref, holders[0]
    if holders:
        choices = ", ".join(ref.node_id(scope.name_of(slug)) for slug in holders[:_NAMED])
        choices += f" or one of {len(holders) - _NAMED} more" if len(holders) > _NAMED else ""
        raise NotFound(f"{len(holders)} projects have a node {ref.node_id()}: say which one, {choices}.")
    raise NotFound(f"There is no node {ref.node_id()} in memory.", SEE_ALL)


async def nodes_named(reader: ReadStore, scope: Scope, node_id: str) -> list[Node]:
    """The nodes that an id without a project means where all projects are looked at, if they are several."""
    ref, named = parse_node_id(node_id)
    if named or scope.project or ref.shortened:
        return []
    found = [node for slug in await reader.slugs() if (node := await node_of(reader, slug, ref))]
    return found if len(found) > 1 else []


async def _whole(reader: ReadStore, scope: Scope, ref: NodeRef, project: str | None) -> tuple[NodeRef, str]:
    """The segment that a shortened id means."""
    found = [
        (whole.ref, slug)
        for slug in ([project] if project else await reader.slugs())
        for whole in await reader.nodes(NodeQuery(slug, level=Level.SEGMENT, beginning=ref.key, limit=2, bullets=False))
    ]
    if len(found) == 1:
        return found[0]
    if found:
        choices = ", ".join(whole.node_id(scope.name_of(slug)) for whole, slug in found[:8])
        raise NotFound(f"{ref.node_id()} is the beginning of several segments: say which one, {choices}.")
    raise NotFound(f"There is no segment {ref.node_id()} in memory.", SEE_ALL)


async def grip_key(reader: ReadStore, name: str) -> bytes:
    """The key that a grip id names, written out or shortened."""
    beginning = parse_short_grip_id(name)
    if beginning is None:
        return parse_grip_id(name)[1]
    keys = await reader.keys(beginning)
    if len(keys) > 1:
        raise NotFound(f"{name.strip()[:40]} is the beginning of several grips.", SEE_WHOLE_GRIP)
    if not keys:
        raise NotFound(f"There is no grip {name.strip()[:80]} in memory.", SEE_GRIPS)
    return keys[0]


async def session_name(reader: ReadStore, given: str) -> str:
    """The name of a session, written out or by its beginning; as it was given if there is none."""
    name = unquoted_name(given.strip().removeprefix("session:").removeprefix("s:").rstrip("…"))
    if not _SHORT_SESSION.fullmatch(name):
        return name
    found = await reader.sessions(name, 2)
    if len(found) > 1 and name not in found:
        raise NotFound(f"{name} is the beginning of several sessions: give more of the one you mean.")
    return found[0] if len(found) == 1 else name


#: What a session tells of itself, in contrast to titles and to how it began and ended.
_SAID = (*MESSAGES, EventType.TOOL_RESULT, EventType.COMPACTION)


async def kept_session(reader: ReadStore, given: str) -> str:
    """The name of a session; if others keep all that was said in it, that of the last of them."""
    name = await session_name(reader, given)
    if origins := await reader.continues(name):
        said = await reader.events(EventQuery(session_id=name, types=_SAID, last=1))
        return name if said else origins[-1]
    return name


@dataclass(frozen=True, slots=True)
class Root:
    """The top of the table: the latest years, months and days, newest first; of a topic those that speak of it most.

    Only the latest year, the days, and the branches of a topic come with their bullets.
    """

    years: list[Node]
    months: list[Node]
    days: list[Node]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node and where one can go from it; `missed`: how many children do not speak of the topic, if none does."""

    node: Node
    children: list[Node]
    previous: str | None
    following: str | None
    missed: int = 0

    @property
    def parent_id(self) -> str | None:
        parent = self.node.ref.parent
        return parent.node_id() if parent else None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The nodes that cover a time, of the finest level that is not too many; `missed`: how many do not speak of the
    topic, if none does."""

    when: TimeRange
    level: Level
    nodes: list[Node]
    missed: int = 0


@dataclass(frozen=True, slots=True)
class OpenedGrip:
    """A grip with its surroundings; `start` and `end` are where the excerpt stands now, `place` what to show of it.

    `refused` are the calls that the user turned down with words, by the key of these words.
    """

    record: GripRecord
    state: State
    start: int
    end: int
    place: int = 0
    refused: Mapping[bytes, Event] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Topic:
    """`worth` says how much each branch speaks of it; `hits` are the passages that do, best first."""

    text: str
    question: Question
    weights: tuple[float, ...]
    worth: Mapping[Branch, float]
    hits: tuple[Hit, ...]

    def keeps(self, node: Node) -> bool:
        """Whether something said in the node speaks of it, or its keywords and bullets hold all of it.

        Of a common word only the best passages are in `worth`.
        """
        if (node.project, node.ref) in self.worth:
            return True
        told = "\n".join([*node.keywords, *(bullet.shown for bullet in node.bullets)])
        return len(self.question.places([told])[0]) == len(self.question.units) > 0

    def ordered(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that speak of it, those that do most first."""
        kept = [node for node in nodes if self.keeps(node)]
        return sorted(kept, key=lambda node: -self.worth.get((node.project, node.ref), 0.0))

    def best(self, level: Level, many: int) -> list[Branch]:
        """The branches of a level that speak of it most."""
        found = [branch for branch in self.worth if branch[1].level is level]
        return sorted(found, key=lambda branch: (-self.worth[branch], branch))[:many]

    def bullets(self, bullets: Sequence[Bullet], beside: Sequence[Hit] = ()) -> list[Bullet]:
        """The bullets that name it, those that say most of it first; all if none does, since the branch was kept.

        Beside a passage only those that say more than it.
        """
        told = [(passage_of(self.question, bullet.shown, self.weights).worth, bullet) for bullet in bullets]
        least = max((hit.passage.worth for hit in beside), default=0.0)
        named = sorted((pair for pair in told if pair[0] > least), key=lambda pair: -pair[0])
        return [bullet for _, bullet in named] or ([] if beside else list(bullets))

    def said_in(self, node: Node, many: int) -> list[Hit]:
        """The best passages that were said within a node, without those that only stand beside one."""
        inside = [hit for hit in self.hits if (node.project, node.ref) in _branches(hit)]
        return [hit for at, hit in enumerate(inside) if at == 0 or hit.score >= _SPEAKS][:many]


async def topic_of(
    reader: ReadStore, text: str | None, scope: Scope, within: tuple[int, int] | None = None
) -> Topic | None:
    """The topic as it is spoken of, in a time if one is given; None if there is none."""
    if text is None or not text.strip():
        return None
    if not terms_of(text):
        raise UsageError(f"The topic {text[:60]!r} holds no word to look for; leave it out or name one.")
    narrow = within is not None and within[1] - within[0] <= _NARROW_MS
    when = TimeRange("", *within) if within and narrow else None
    question = question_of(text)
    found = await search(reader, Query(scope, text, when, kind="event", limit=_HITS))
    worth: dict[Branch, float] = {}
    if len(found.hits) < _ENOUGH:
        # Branches whose summaries speak of it; where many events do, these tell enough.
        nodes = await reader.search(question.sought, Within(scope.project), kinds=frozenset(LEVELS), limit=_NODES)
        for node in (each.node for each in nodes if each.node):
            worth.update(dict.fromkeys([(node.project, ref) for ref in (node.ref, *ancestors(node.ref))], _SUMMARY))
    for place, hit in enumerate(found.hits):
        for branch in _branches(hit):
            worth[branch] = worth.get(branch, 0.0) + hit.score + _PLACE / (1 + place)
    return Topic(text, question, found.weights, worth, tuple(found.hits))


def _branches(hit: Hit) -> list[Branch]:
    """The segment that a hit lies in, and all above it."""
    ref = parse_node_id(hit.node_id)[0] if hit.node_id else None
    return [(hit.project, each) for each in (ref, *ancestors(ref))] if ref else []


async def toc_root(reader: ReadStore, scope: Scope, topic: Topic | None) -> Root:
    if topic:
        levels: list[list[Node]] = []
        for level, many in _ABOUT:
            found = [await node_of(reader, project, ref) for project, ref in topic.best(level, many)]
            levels.append(await attributed(reader, [node for node in found if node], team=scope.team))
        return Root(*levels)
    years = await reader.nodes(NodeQuery.latest(scope.project, Level.YEAR, 1))
    older = await reader.nodes(NodeQuery.latest(scope.project, Level.YEAR, YEARS, bullets=False))
    months = await reader.nodes(NodeQuery.latest(scope.project, Level.MONTH, _MONTHS, bullets=False))
    days = await reader.nodes(NodeQuery.latest(scope.project, Level.DAY, _DAYS))
    years, days = [await attributed(reader, nodes, team=scope.team) for nodes in (years, days)]
    return Root([*years, *older[1:]], months, days)


async def get_node(
    reader: ReadStore, scope: Scope, node_id: str, about: str | None, *, outline: bool = False
) -> tuple[NodeView, Topic | None]:
    """A node and, if a topic is given, what is spoken of it there. With `outline` the children come without bullets."""
    ref, project = await ref_of(reader, scope, node_id)
    found = await node_of(reader, project, ref)
    if found is None:
        latest = await reader.nodes(NodeQuery.latest(project, ref.level, 1))
        hint = f" The latest {ref.level.label} is {latest[0].node_id}." if latest else ""
        raise NotFound(f"There is no node {ref.node_id()} in project {project}.{hint}", SEE_ALL)
    (node,) = await attributed(reader, [found], team=scope.team)
    topic = await topic_of(reader, about, replace(scope, project=project), (node.start_ms, node.end_ms + 1))
    bullets = not outline or topic is not None
    children = [] if ref.level is Level.SEGMENT else await reader.nodes(NodeQuery(project, parent=ref, bullets=bullets))
    kept = topic.ordered(children) if topic else children
    missed = 0 if kept else len(children)
    return NodeView(node, kept, *await reader.neighbours(project, ref), missed=missed), topic


async def browse_time(
    reader: ReadStore, scope: Scope, when: TimeRange, about: str | None
) -> tuple[Timeline, Topic | None]:
    """Days for a few weeks, weeks for some months, months beyond; segments for a single day.

    With a topic only those that speak of it, those that do most first.
    """
    topic = await topic_of(reader, about, scope, (when.start_ms, when.end_ms))
    days = (when.end_ms - when.start_ms) / _DAY_MS
    levels = (Level.MONTH, Level.YEAR) if days > 100 else (Level.WEEK, Level.MONTH)
    if days <= 16:
        levels = (Level.DAY, Level.WEEK) if days > 1.1 else (Level.SEGMENT, Level.DAY)
    for level in levels:
        nodes = []
        for node in await reader.nodes(NodeQuery.touching(scope.project, level, when.start_ms, when.end_ms, _LIMIT)):
            # Something must have been said in the part that lies in the time: 2026 begins in the last week of 2025.
            start, end = max(node.start_ms, when.start_ms), min(node.end_ms, when.end_ms)
            whole = level is Level.SEGMENT or (start, end) == (node.start_ms, node.end_ms)
            if whole or await reader.nodes(NodeQuery.touching(node.project, Level.SEGMENT, start, end, 1)):
                nodes.append(node)
        if nodes:
            kept = await attributed(reader, topic.ordered(nodes) if topic else nodes, team=scope.team)
            return Timeline(when, level, kept, missed=0 if kept else len(nodes)), topic
    return Timeline(when, Level.DAY, []), topic


async def expand_grip(reader: ReadStore, grip_id: str, before: int, after: int, *, spoken: bool = False) -> OpenedGrip:
    """A grip with the events before and after it; with `spoken`, messages are preferred to tool results.

    What was refused, failed or was interrupted between the messages stays in its place.
    """
    wider = _WIDER if spoken else 1
    record = await reader.grip(await grip_key(reader, grip_id), before * wider, after * wider)
    if record is None:
        raise NotFound(f"There is no grip {grip_id.strip()[:80]} in memory.", SEE_GRIPS)
    record = await _with_stops(reader, record, before * wider, after * wider)
    refused = _refused([*record.before, *record.events, *record.after])
    choose = _spoken if spoken else _nearest
    earlier = choose(record.before[::-1], before, refused)[::-1]
    record = replace(record, before=earlier, after=choose(record.after, after, refused))
    if record.cited is None:
        return OpenedGrip(record, "gone", 0, 0, refused=refused)
    place = min(place_in(grip_id), max(len(record.cited.text) - 1, 0))
    found = locate(record.cited.text, record.excerpt, record.start, record.end)
    return OpenedGrip(record, *found, place, refused)


async def _with_stops(reader: ReadStore, record: GripRecord, before: int, after: int) -> GripRecord:
    """The record with the turns that the user or an error ended. They say nothing, so no reader of what was said has
    them. They are looked for as far as the record reaches: to the session's ends where fewer events came than asked.
    """
    within = [*record.events, *([record.cited] if record.cited else [])]
    if not within or not (before or after):
        return record
    start, end = (bound(event.timestamp_ms for event in within) for bound in (min, max))
    first = (record.before[0].timestamp_ms, 0) if len(record.before) == before > 0 else _FIRST if before else (start, 0)
    last = (record.after[-1].timestamp_ms + 1, 0) if len(record.after) == after > 0 else _LAST if after else (end, 0)
    session = EventQuery(session_id=within[0].session_id, client=within[0].client, after=first, through=last)
    stops = await reader.events(replace(session, types=(EventType.ASSISTANT_STOP,)))
    stops = [stop for stop in stops if stop.outcome]

    def merged(events: Sequence[Event], found: Sequence[Event]) -> tuple[Event, ...]:
        return tuple(sorted([*events, *found], key=lambda event: event.timestamp_ms))

    return replace(
        record,
        before=merged(record.before, [stop for stop in stops if stop.timestamp_ms < start]),
        events=merged(record.events, [stop for stop in stops if start <= stop.timestamp_ms < end]),
        after=merged(record.after, [stop for stop in stops if stop.timestamp_ms >= end]),
    )


def _refused(events: Sequence[Event]) -> dict[bytes, Event]:
    """The calls that were turned down with words, by the key of these words, which come right after."""
    calls: dict[str, Event] = {}
    found: dict[bytes, Event] = {}
    for event in events:
        tool = str(event.metadata.get("refuses") or event.metadata.get("tool"))
        if event.event_type is EventType.TOOL_RESULT and event.outcome == "refused":
            calls[tool] = event
        elif "refuses" in event.metadata and tool in calls:
            found[event.key] = calls.pop(tool)
    return found


def _nearest(events: tuple[Event, ...], many: int, _: Mapping[bytes, Event]) -> tuple[Event, ...]:
    return events[:many]


def _spoken(events: tuple[Event, ...], many: int, refused: Mapping[bytes, Event]) -> tuple[Event, ...]:
    """Of events from the nearest on: as many messages, and what did not end well among them, in their order.

    A call is told by the words that it was turned down with. Other tool results come only where messages are too few.
    """
    said = [event for event in events if event.event_type not in _DONE][:many]
    reach = events.index(said[-1]) if 0 < len(said) == many else len(events) * bool(many)
    told = {call.key for words, call in refused.items() if words in {event.key for event in said}}
    done = [event for event in events[:reach] if event.event_type in _DONE and event.key not in told]
    marked = sorted((event for event in done if event.outcome), key=lambda event: event.outcome == "failed")[:_MARKED]
    rest = [event for event in done if not event.outcome][: max(0, many - len(said) - len(marked))]
    return tuple(event for event in events if event in said or event in marked or event in rest)
