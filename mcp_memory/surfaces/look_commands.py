"""The commands that look into the tree: toc, node, grip, search, timeline; and how nodes and hits look to people.

Each answers with a dictionary for --json, and else draws. With --budget the text is the one that agents get.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import date
from functools import wraps
from typing import Any

from mcp_memory.app import App
from mcp_memory.domain.budget import cursor_of, offset_of
from mcp_memory.domain.events import Event, parse_ulid, short_session
from mcp_memory.domain.nodes import (
    Bullet,
    Kind,
    Node,
    NodeQuery,
    foremost,
    parse_grip_id,
    quoted_themes,
    quoted_title,
    short_grip_id,
)
from mcp_memory.domain.quoting import quoted, quoted_name, unposed_ids
from mcp_memory.domain.text import clean
from mcp_memory.domain.toc import Level, Scope, ancestors, local_day, parse_node_id
from mcp_memory.errors import NotFound, UsageError
from mcp_memory.navigate import browse
from mcp_memory.navigate.answers import Answers, valid_around, valid_budget
from mcp_memory.navigate.browse import ALL, NodeView, OpenedGrip, Topic, node_of, ref_of, topic_of
from mcp_memory.navigate.hit_rendering import GripLines
from mcp_memory.navigate.naming import grip_id_of, node_id_of
from mcp_memory.navigate.rendering import Page, altered
from mcp_memory.navigate.shapes import event_shape, found_shape, node_shape, time_shape
from mcp_memory.search.hits import Hit
from mcp_memory.store.port import ReadStore
from mcp_memory.surfaces import output, terminal
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.terminal import Listed
from mcp_memory.times.resolve import TimeRange

BUDGET = 2_000
#: Commands that name what they show by an id.
_BY_ID = ("node", "grip")
#: How many events a program may ask for around a grip.
_ALL_AROUND = 1_000
#: How many nodes of a level a table of contents without a budget shows.
_ALL_NODES = 100_000
#: How many bullets of a day stand in the table of contents, and of a node in a list; how many passages of a topic.
_FEW, _SAID = 3, 4
#: Characters of a title.
_TITLE_CHARS = 600
#: Characters of a passage, of a message around a grip, and of the grip's own words.
_PASSAGE, _AROUND, _WORDS = 300, 400, 4_000
_MONTH_DAYS = 31
#: What stands out beside the rest.
_TONES = {Kind.OPEN: "yellow", Kind.ERROR: "red", Kind.REFUSED: "red", Kind.DECISION: "green", Kind.RULE: "green"}
_PERIOD = "bold cyan"


def budget_of(options: argparse.Namespace, default: int = BUDGET) -> int:
    return default if options.budget is None else valid_budget(int(options.budget))


def from_one_moment(
    command: Callable[[Answers, argparse.Namespace], Coroutine[Any, Any, Answer]],
) -> Callable[[App, argparse.Namespace], Coroutine[Any, Any, Answer]]:
    """Let a command read all that it shows as of one moment.

    An answer as agents get it has the team's part, if the user has joined one; an id that is not found here is looked
    for there and told in that form. No one else can be asked while one moment is read.
    """

    @wraps(command)
    async def run(app: App, options: argparse.Namespace) -> Answer:
        answers = app.answers
        if answers.team and not options.json and getattr(options, "budget", None) is not None:
            return await command(answers, options)
        try:
            return await answers.at_once(lambda here: command(here, options))
        except NotFound:
            if answers.team is None or options.json or command.__name__ not in _BY_ID:
                raise
            options.budget = BUDGET
            return await command(answers, options)

    return run


def paged(answers: Answers, page: Page, budget: int) -> int:
    """Print an answer made for agents, cut if the budget is too small even for the shortest."""
    if page.tokens > budget:
        output.too_small(budget)
    return terminal.page(answers.renderer.fit(page.text, budget))


async def outline(reader: ReadStore, project: str | None, deepest: Level) -> list[Node]:
    """The tree down to a level: parents before their children, in time order."""
    levels = [level for level in Level if level <= deepest]
    nodes = [node for level in levels for node in await reader.nodes(NodeQuery.latest(project, level, _ALL_NODES))]
    return sorted(nodes, key=lambda node: (node.project, node.ref.day.toordinal(), node.level, node.start_ms))


@from_one_moment
async def toc(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = budget_of(options)
    if not options.json and options.budget is not None:
        return paged(answers, await answers.toc_root(options.project, options.topic, budget), budget)
    scope = await answers.scope(options.project)
    topic = await topic_of(answers.reader, options.topic, scope)
    deepest = next(level for level in Level if level.label == options.depth)
    nodes = await outline(answers.reader, scope.project, deepest)
    if topic:
        nodes = [node for node in nodes if topic.keeps(node)]
    if options.json:
        return {"project": scope.project or ALL, "nodes": [node_shape(node, scope) for node in nodes]}
    if topic and not nodes:
        return f"Nothing is remembered about {topic.text[:60]!r} here; `mcp-memory search` looks for words."
    if not nodes:
        step = " `mcp-memory import` loads old history; hooks capture the new."
        return f"Nothing is summarized yet.{await answers.waiting(scope) or step}"
    if topic:
        nodes = [replace(node, bullets=tuple(topic.bullets(node.bullets))) for node in nodes]
    return terminal.show(*_branches(nodes, scope))


def _branches(nodes: Sequence[Node], scope: Scope) -> list[Listed]:
    """The nodes as trees: each holds those that follow it and are of a lower level."""
    found: list[Listed] = []
    at = 0
    while at < len(nodes):
        node, end = nodes[at], at + 1
        while end < len(nodes) and nodes[end].level > node.level and nodes[end].project == node.project:
            end += 1
        bullets = foremost(node.bullets, _FEW) if node.level is Level.DAY else []
        below = [*(bullet_entry(bullet, gripped=False) for bullet in bullets), *_branches(nodes[at + 1 : end], scope)]
        found.append(replace(node_entry(node, scope, whole=True), below=below))
        at = end
    return found


def node_entry(node: Node, scope: Scope, *, whole: bool = False, facts: Sequence[str] = ()) -> Listed:
    """A node by its title. What the calendar calls it stands out."""
    lead, colon, themes = ("", "", node.title) if node.level is Level.SEGMENT else node.title.partition(": ")
    name = scope.id_of(node.node_id, node.project) if whole else scope.short_id_of(node.ref, node.project)
    shown = quoted_themes(themes, _TITLE_CHARS) if colon else quoted(themes or lead, starts_line=True)
    return Listed(shown, facts, name, lead=f"{lead}:" if colon else "", tone=_PERIOD if lead else "bold")


def bullet_entry(bullet: Bullet, *, gripped: bool = True) -> Listed:
    grip = short_grip_id(parse_grip_id(bullet.grip_ids[0])[1]) if gripped and bullet.grip_ids else ""
    label = bullet.kind.label
    tone = _TONES.get(bullet.kind, "cyan")
    return Listed(quoted(bullet.text), id=grip, lead=f"{label}:" if label else "", tone=tone, point=True)


def hit_entry(answers: Answers, hit: Hit, title: str = "", *, several: bool = False) -> Listed:
    """A hit: its words or its title, when and where that was, then what else belongs to it."""
    when, session = (
        answers.renderer.moment(hit.start_ms),
        f"s:{quoted_name(short_session(hit.session_id))}" if hit.session_id else "",
    )
    facts = [fact for fact in (when, quoted(title), hit.project if several else "", hit.author, session) if fact]
    if not hit.role:
        points = [line.removeprefix("- ") for line in hit.passage.text.splitlines()]
        return Listed(
            quoted_title(hit.title, _TITLE_CHARS, is_period=hit.kind != "segment", starts_line=True),
            facts,
            hit.short_id or hit.id,
            [Listed(point, point=True) for point in points],
        )
    lines = [_said(line) for line in hit.lines]
    if hit.contradicted:
        lines.append(replace(_said(hit.contradicted), lead="but later:", tone="red"))
    return replace(_said(hit), facts=facts, below=lines, point=False)


def _said(hit: Hit) -> Listed:
    """Something that was said, by whom, and the grip that opens it."""
    grip = short_grip_id(parse_ulid(hit.event_ids[0])[1])
    return Listed(quoted(hit.passage.window(_PASSAGE)), id=grip, lead=f"{hit.role}:", tone="bold cyan", point=True)


@from_one_moment
async def node(answers: Answers, options: argparse.Namespace) -> Answer:
    budget, named = budget_of(options), node_id_of(options.id, answers.now, answers.zone)
    if not options.json and not options.history and options.budget is not None:
        return paged(answers, await answers.get_node(named, options.project, options.topic, budget, None), budget)
    scope = await answers.scope(options.project)
    if not (options.json or options.history) and (several := await browse.nodes_named(answers.reader, scope, named)):
        entries = [
            replace(node_entry(each, scope, facts=[each.project]), below=[bullet_entry(b) for b in each.bullets])
            for each in several
        ]
        return terminal.show(*entries, "", "`mcp-memory node ID` shows what is beneath one of them.")
    place, topic = await browse.get_node(answers.reader, scope, named, options.topic)
    versions: list[Node] = []
    if options.history:
        ref, project = await ref_of(answers.reader, scope, named)
        versions = await answers.reader.nodes(NodeQuery(project, (ref,), versions=True))
    if not options.json:
        above = await _breadcrumbs(answers.reader, place.node)
        trail = " › ".join([place.node.project, *above])
        if options.history:
            return terminal.show(trail, *(_version(answers, version, scope) for version in versions))
        return _draw_node(answers, place, scope, topic, trail)
    shape = node_shape(place.node, scope)
    shape["children"] = [
        {"node_id": scope.id_of(child.node_id, child.project), "title": child.title, "bullets": len(child.bullets)}
        for child in place.children
    ]
    ways = {"parent": place.parent_id, "previous": place.previous, "next": place.following}
    shape |= {way: scope.id_of(node_id, place.node.project) if node_id else None for way, node_id in ways.items()}
    return shape | ({"history": [node_shape(version, scope) for version in versions]} if options.history else {})


async def _breadcrumbs(reader: ReadStore, node: Node) -> list[str]:
    """What is above a node, from the year down, by the names of the calendar."""
    return [ref.title for ref in reversed(ancestors(node.ref)) if await node_of(reader, node.project, ref)]


def _version(answers: Answers, version: Node, scope: Scope) -> Listed:
    written = [answers.renderer.moment(version.created_ms)] if version.created_ms else []
    facts = [*written, f"by {version.written_by}", *(["taken away"] if version.removed else [])]
    entry = node_entry(version, scope, whole=True, facts=facts)
    return replace(
        entry,
        lead=f"v{version.version} {entry.lead}".strip(),
        below=[bullet_entry(bullet) for bullet in version.bullets],
    )


def _draw_node(answers: Answers, view: NodeView, scope: Scope, topic: Topic | None, trail: str) -> int:
    """A node with what is above it, its bullets, what is beneath it, and its neighbours."""
    found, moment, facts = view.node, answers.renderer.moment, []
    if found.level is Level.SEGMENT:
        times = f"{moment(found.start_ms)} to {answers.renderer.clock(found.end_ms)}"
        facts = [times, *([found.author] if found.author else []), f"s:{short_session(found.session_id or '')}"]
    if found.written_by != "extractive":
        facts.append(f"by {found.written_by}")
    said = topic.said_in(found, _SAID) if topic else []
    below = [_said(hit) for hit in said]
    below += [bullet_entry(bullet) for bullet in (topic.bullets(found.bullets) if topic else found.bullets)]
    below += [node_entry(child, scope) for child in view.children]
    if topic and view.missed:
        below.append(Listed(f"Nothing beneath speaks of {topic.text[:60]!r}.", point=True))
    ways = (("up", view.parent_id), ("previous", view.previous), ("next", view.following))
    around = [f"{way} {scope.id_of(name, found.project)}" for way, name in ways if name]
    entry = replace(node_entry(found, scope, whole=True, facts=facts), below=below)
    return terminal.show(trail, entry, " · ".join(around))


@from_one_moment
async def grip(answers: Answers, options: argparse.Namespace) -> Answer:
    budget, named = budget_of(options), grip_id_of(options.id)
    if not options.json and options.budget is not None:
        return paged(answers, await answers.expand_grip(named, options.before, options.after, budget), budget)
    before, after = valid_around(options.before, _ALL_AROUND), valid_around(options.after, _ALL_AROUND)
    opened = await browse.expand_grip(answers.reader, named, before, after)
    if not options.json:
        return await _draw_grip(answers, opened, await answers.scope(options.project))
    record, cited = opened.record, opened.record.cited

    def ended(event: Event) -> dict[str, Any]:
        return event_shape(event) | ({"outcome": event.outcome} if event.outcome else {})

    scope = await answers.scope(options.project)
    shape = {
        "grip_id": record.grip_id,
        "excerpt": record.excerpt,
        "state": opened.state,
        "start": opened.start,
        "end": opened.end,
        "event_id": cited.event_id if cited else None,
        "session_id": cited.session_id if cited else None,
        "project": cited.project if cited else None,
        "node_id": scope.id_of(record.node_id, cited.project) if record.node_id and cited else record.node_id,
        "before": [ended(event) for event in record.before],
        "events": [ended(event) for event in record.events],
        "after": [ended(event) for event in record.after],
    }
    return output.stored_document(shape)


async def _draw_grip(answers: Answers, opened: OpenedGrip, scope: Scope) -> int:
    """The words within their conversation, in order of time, beneath the title of their segment."""
    record, cited = opened.record, opened.record.cited
    if cited is None or opened.state == "gone":
        return terminal.show(f"These words are gone from their message. They were: {quoted(record.excerpt)}")
    found = await node_of(answers.reader, cited.project, parse_node_id(record.node_id)[0]) if record.node_id else None
    stands = "the exact words" if opened.state == "exact" else "the words have moved within their message"
    stands += altered(cited.text[opened.start : opened.end])
    facts = [answers.renderer.moment(cited.timestamp_ms), stands, f"s:{quoted_name(short_session(cited.session_id))}"]
    head = Listed("Not in the summaries yet", facts, record.grip_id)
    if found:
        head = replace(node_entry(found, scope), facts=facts)
    lines = GripLines(opened, answers.renderer.clock)
    around = [line for piece in lines.around(_AROUND) for line in piece.forms]
    led = [line.removeprefix("before: ") for line in around if line.startswith("before: ")]
    rest = [line.removeprefix("with: ").removeprefix("after: ") for line in around if not line.startswith("before: ")]
    start = max(opened.start, opened.place) if opened.place < opened.end else opened.start
    words = f"{'…' * (start > opened.start)}{cited.text[start : opened.end].strip()}"
    if len(words) > _WORDS:
        words = f"{words[:_WORDS]}… (`mcp-memory grip ID --json` has all of it)"
    said = f"[{cited.role} {answers.renderer.clock(cited.timestamp_ms)}]{lines.mark(cited)}"
    lines_said = [f"> {line}" for line in unposed_ids(clean(words)).splitlines() if line.strip()]
    return terminal.show(head, "", *led, said, *lines_said, *rest)


async def titles_of(reader: ReadStore, hits: Sequence[Hit]) -> dict[str, str]:
    """The titles of the segments that the events among the hits belong to, by their ids."""
    named = {hit.node_id: hit.project for hit in hits if hit.role and hit.node_id}
    nodes = {name: await node_of(reader, project, parse_node_id(name)[0]) for name, project in named.items()}
    return {name: node.title for name, node in nodes.items() if node}


async def search(app: App, options: argparse.Namespace) -> Answer:
    """What this memory finds, as of one moment; and what the team's does, if the user has joined one."""
    if app.answers.team:
        return await _search(app.answers, options)
    return await app.answers.at_once(lambda here: _search(here, options))


async def _search(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = budget_of(options, 20_000 if options.json else BUDGET)
    found, page = await answers.teleport(
        options.query,
        options.project,
        options.when,
        budget=budget,
        kind=options.kind,
        limit=options.limit,
        cursor=options.cursor,
        diverse=options.diverse,
    )
    if not options.json:
        if not found.hits or options.budget is not None:
            return paged(answers, page, budget_of(options))
        marked = list(dict.fromkeys(word for hit in found.hits for word in hit.matched))
        titles, several = await titles_of(answers.reader, found.hits), len({hit.project for hit in found.hits}) > 1
        entries = [hit_entry(answers, hit, titles.get(hit.node_id, ""), several=several) for hit in found.hits]
        more = f"; --cursor {cursor_of(found.more)} goes on in the list" if found.more else ""
        step = f"`mcp-memory grip ID` shows what was said around the words{more}."
        head = page.text.partition("\n")[0].replace("Records, best first", "Best first")
        return terminal.show(head, "", *entries, "", step, marked=marked)
    shown = len(found.hits)
    if options.budget is not None:
        shown = page.shown if page.tokens <= budget else 0
    if found.hits and not shown:
        output.too_small(budget)
    more_at = found.more if shown == len(found.hits) else offset_of(options.cursor) + shown
    part = replace(found, hits=found.hits[:shown], more=more_at)
    return found_shape(part, min(page.tokens, budget), await titles_of(answers.reader, part.hits))


@from_one_moment
async def timeline(answers: Answers, options: argparse.Namespace) -> Answer:
    return await told_of(answers, options, options.when)


async def told_of(answers: Answers, options: argparse.Namespace, phrase: str) -> Answer:
    """What happened in a time."""
    budget = budget_of(options)
    if not options.json and options.budget is not None:
        page = await answers.browse_time(phrase, options.project, options.topic, budget, None)
        return paged(answers, page, budget)
    scope = await answers.scope(options.project)
    when = answers.when(phrase)
    if when is None:
        raise UsageError('Name a time, such as yesterday, "last week" or 2024-01-15.')
    span, topic = await browse.browse_time(answers.reader, scope, when, options.topic)
    if options.json:
        nodes = [node_shape(found, scope) for found in span.nodes]
        return {"when": time_shape(when), "level": span.level.label, "nodes": nodes}
    if not span.nodes:
        page = await answers.browse_time(phrase, options.project, options.topic, budget, None)
        return paged(answers, page, budget)
    entries = []
    for found in span.nodes:
        bullets = topic.bullets(found.bullets)[:_FEW] if topic else foremost(found.bullets, _FEW)
        facts = [answers.renderer.moment(found.start_ms)] if found.level is Level.SEGMENT else []
        below = [bullet_entry(bullet) for bullet in bullets]
        entries.append(replace(node_entry(found, scope, facts=facts), below=below))
    head = f"{when.told(answers.renderer.moment)}{f', about {topic.text[:60]}' if topic else ''}:"
    first, last = _days_of(answers, when, span.nodes)
    drawn = terminal.activity_line(await answers.reader.active_days(scope.project), first, last)
    return terminal.show(head, *([drawn] if drawn else []), "", *entries)


def _days_of(answers: Answers, when: TimeRange, nodes: Sequence[Node]) -> tuple[date, date]:
    """The days of a time up to today; those of a long one from where something first happened in it."""
    start, end = local_day(when.start_ms, answers.zone), local_day(when.end_ms - 1, answers.zone)
    if (end - start).days > _MONTH_DAYS:
        start = max(start, min(local_day(node.start_ms, answers.zone) for node in nodes))
    return start, max(start, min(end, answers.now.date()))
