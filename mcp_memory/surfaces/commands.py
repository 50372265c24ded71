"""The commands that look into the memory, and the one that adds a note: the answer is printed as text or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from mcp_memory.app import App
from mcp_memory.domain.text import clean
from mcp_memory.domain.toc import Level, parse_node_id
from mcp_memory.errors import UsageError
from mcp_memory.navigate import browse
from mcp_memory.navigate.answers import checked, few
from mcp_memory.navigate.browse import topic_of
from mcp_memory.navigate.packing import Page
from mcp_memory.navigate.scope import ALL, ref_of
from mcp_memory.navigate.shapes import event_shape, found_shape, iso, node_shape, status, time_shape
from mcp_memory.pipeline.ingest import remember
from mcp_memory.search.hits import Hit, Search, offset_of
from mcp_memory.surfaces import output, writing

BUDGET = 2_000
#: How many events a program may ask for around a grip.
_ALL_AROUND = 1_000
#: How many nodes of a level a table of contents without a budget shows.
_ALL_NODES = 100_000


def _budget(options: argparse.Namespace, default: int = BUDGET) -> int:
    return default if options.budget is None else checked(int(options.budget))


def _told(app: App, page: Page, budget: int) -> int:
    return output.answer(app.answers.renderer, page, budget)


async def toc(app: App, options: argparse.Namespace) -> int:
    budget = _budget(options)
    if not options.json and options.budget is not None:
        return _told(app, await app.answers.toc_root(options.project, options.topic, budget), budget)
    scope = await app.answers.scope(options.project)
    topic = await topic_of(app.library, options.topic, scope)
    deepest = next(level for level in Level if level.label == options.depth)
    nodes = await browse.outline(app.library, scope.project, deepest, _ALL_NODES)
    if topic:
        nodes = [node for node in nodes if topic.keeps(node)]
    if options.json:
        return output.document({"project": scope.project or ALL, "nodes": [node_shape(node, scope) for node in nodes]})
    if topic and not nodes:
        return output.text(
            f"Nothing is remembered about {topic.text[:60]!r} here; `mcp-memory search` looks for words."
        )
    if topic:
        nodes = [replace(node, bullets=tuple(topic.bullets(node.bullets))) for node in nodes]
    return output.tree(nodes, scope, "" if nodes else await app.answers.waiting(scope))


async def node(app: App, options: argparse.Namespace) -> int:
    budget = _budget(options)
    if not options.json and not options.history:
        page = await app.answers.get_node(options.id, options.project, options.topic, budget, None)
        return _told(app, page, budget)
    scope = await app.answers.scope(options.project)
    place, _ = await browse.get_node(app.library, scope, options.id, options.topic)
    shape = node_shape(place.node, scope)
    shape["children"] = [
        {
            "node_id": scope.id_of(child.node_id, child.project),
            "title": child.title,
            "bullets": len(child.bullets),
        }
        for child in place.children
    ]
    ways = {"parent": place.parent_id, "previous": place.previous, "next": place.following}
    shape |= {way: scope.id_of(node_id, place.node.project) if node_id else None for way, node_id in ways.items()}
    if options.history:
        ref, project = await ref_of(app.library, scope, options.id)
        shape["history"] = [node_shape(version, scope) for version in await app.library.history(project, ref)]
    return output.document(shape) if options.json else output.history(shape)


async def grip(app: App, options: argparse.Namespace) -> int:
    budget = _budget(options)
    if not options.json:
        page = await app.answers.expand_grip(options.id, options.before, options.after, budget)
        return _told(app, page, budget)
    before, after = few(options.before, _ALL_AROUND), few(options.after, _ALL_AROUND)
    opened = await browse.expand_grip(app.library, options.id, before, after)
    record, cited = opened.record, opened.record.cited

    def shown(place: int) -> int:
        """Where a character of the cited text stands once the text is cleaned, as all JSON is."""
        return len(clean(cited.text[:place])) if cited else place

    scope = await app.answers.scope(options.project)
    return output.document(
        {
            "grip_id": record.grip_id,
            "excerpt": record.excerpt,
            "state": opened.state,
            "start": shown(opened.start),
            "end": shown(opened.end),
            "event_id": cited.event_id if cited else None,
            "session_id": cited.session_id if cited else None,
            "project": cited.project if cited else None,
            "node_id": scope.id_of(record.node_id, cited.project) if record.node_id and cited else record.node_id,
            "before": [event_shape(event) for event in record.before],
            "events": [event_shape(event) for event in record.events],
            "after": [event_shape(event) for event in record.after],
        }
    )


async def search(app: App, options: argparse.Namespace) -> int:
    budget = _budget(options, 20_000 if options.json else BUDGET)
    asked = Search(
        options.query, options.project, options.when, options.kind, options.limit, options.cursor, options.diverse
    )
    found, page = await app.answers.teleport(asked, budget)
    if not options.json:
        return _told(app, page, _budget(options))
    shown = len(found.hits)
    if options.budget is not None:
        shown = page.shown if page.tokens <= budget else 0
    if found.hits and not shown:
        output.too_small(budget)
    more = found.more if shown == len(found.hits) else offset_of(options.cursor) + shown
    part = replace(found, hits=found.hits[:shown], more=more)
    return output.document(found_shape(part, min(page.tokens, budget), await _titles(app, part.hits)))


async def _titles(app: App, hits: Sequence[Hit]) -> dict[str, str]:
    """The titles of the segments that the events among the hits belong to, by their ids."""
    named = {hit.node_id: hit.project for hit in hits if hit.role and hit.node_id}
    nodes = {node_id: await app.library.node(project, parse_node_id(node_id)[0]) for node_id, project in named.items()}
    return {node_id: node.title for node_id, node in nodes.items() if node}


async def timeline(app: App, options: argparse.Namespace) -> int:
    budget = _budget(options)
    if not options.json:
        page = await app.answers.browse_time(options.when, options.project, options.topic, budget, None)
        return _told(app, page, budget)
    scope = await app.answers.scope(options.project)
    when = app.answers.when(options.when)
    if when is None:
        raise UsageError('Name a time, such as yesterday, "last week" or 2024-01-15.')
    span, _ = await browse.browse_time(app.library, scope, when, options.topic)
    return output.document(
        {
            "when": time_shape(when),
            "level": span.level.label,
            "nodes": [node_shape(found, scope) for found in span.nodes],
        }
    )


async def note(app: App, options: argparse.Namespace) -> int:
    event = await remember(app, options.text, options.pin, options.project)
    grip_id = f"grip:{event.timestamp_ms}:{event.event_id}"
    if options.json:
        return output.document({**event_shape(event), "grip_id": grip_id, "pin": options.pin})
    return output.text(f"Remembered as {grip_id}.")


async def show_status(app: App, options: argparse.Namespace) -> int:
    facts = await status(app)
    return output.document(facts) if options.json else output.facts(facts)


async def projects(app: App, options: argparse.Namespace) -> int:
    if options.action != "list":
        return await writing.change_projects(app, options)
    found = [
        {
            "slug": info.slug,
            "path": info.root.removeprefix("label:"),
            "sessions": info.sessions,
            "events": info.events,
            "first": iso(info.first_ms) if info.first_ms is not None else None,
            "last": iso(info.last_ms) if info.last_ms is not None else None,
        }
        for info in await app.library.projects()
    ]
    return output.document({"projects": found}) if options.json else output.projects(found)
