"""The commands that look into the memory, keep a note, record a session or change projects.

Each answers with a dictionary for --json, with a text, or with 0 if it has printed the answer itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from mcp_memory.app import App
from mcp_memory.domain.budget import offset_of
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import Kind, NodeQuery
from mcp_memory.domain.records import body_lines
from mcp_memory.domain.text import clean, safe
from mcp_memory.domain.toc import Level, parse_node_id
from mcp_memory.errors import UsageError
from mcp_memory.navigate import browse
from mcp_memory.navigate.answers import Answers, valid_around, valid_budget
from mcp_memory.navigate.browse import ALL, node_of, ref_of, topic_of
from mcp_memory.navigate.context import ContextRequest, levels_of
from mcp_memory.navigate.rendering import Page
from mcp_memory.navigate.sessions import fitting, record_shape, session_page, session_shape, session_view
from mcp_memory.navigate.shapes import event_shape, found_shape, iso, node_shape, time_shape
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer

BUDGET = 2_000
#: How many events a program may ask for around a grip.
_ALL_AROUND = 1_000
#: How many nodes of a level a table of contents without a budget shows.
_ALL_NODES = 100_000


def _budget(options: argparse.Namespace, default: int = BUDGET) -> int:
    return default if options.budget is None else valid_budget(int(options.budget))


def from_one_moment(
    command: Callable[[Answers, argparse.Namespace], Coroutine[Any, Any, Answer]],
) -> Callable[[App, argparse.Namespace], Coroutine[Any, Any, Answer]]:
    """Let a command read all that it shows as of one moment."""

    @wraps(command)
    async def run(app: App, options: argparse.Namespace) -> Answer:
        return await app.answers.at_once(lambda here: command(here, options))

    return run


def _fitted(answers: Answers, page: Page, budget: int) -> str:
    """An answer in text, cut if the budget is too small even for the shortest."""
    if page.tokens > budget:
        output.too_small(budget)
    return answers.renderer.fit(page.text, budget)


@from_one_moment
async def toc(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = _budget(options)
    if not options.json and options.budget is not None:
        return _fitted(answers, await answers.toc_root(options.project, options.topic, budget), budget)
    scope = await answers.scope(options.project)
    topic = await topic_of(answers.reader, options.topic, scope)
    deepest = next(level for level in Level if level.label == options.depth)
    nodes = await output.outline(answers.reader, scope.project, deepest, _ALL_NODES)
    if topic:
        nodes = [node for node in nodes if topic.keeps(node)]
    if options.json:
        return {"project": scope.project or ALL, "nodes": [node_shape(node, scope) for node in nodes]}
    if topic and not nodes:
        return f"Nothing is remembered about {topic.text[:60]!r} here; `mcp-memory search` looks for words."
    if topic:
        nodes = [replace(node, bullets=tuple(topic.bullets(node.bullets))) for node in nodes]
    return output.tree(nodes, scope, "" if nodes else await answers.waiting(scope))


@from_one_moment
async def node(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = _budget(options)
    if not options.json and not options.history:
        page = await answers.get_node(options.id, options.project, options.topic, budget, None)
        return _fitted(answers, page, budget)
    scope = await answers.scope(options.project)
    place, _ = await browse.get_node(answers.reader, scope, options.id, options.topic)
    shape = node_shape(place.node, scope)
    shape["children"] = [
        {"node_id": scope.id_of(child.node_id, child.project), "title": child.title, "bullets": len(child.bullets)}
        for child in place.children
    ]
    ways = {"parent": place.parent_id, "previous": place.previous, "next": place.following}
    shape |= {way: scope.id_of(node_id, place.node.project) if node_id else None for way, node_id in ways.items()}
    if options.history:
        ref, project = await ref_of(answers.reader, scope, options.id)
        shape["history"] = [
            node_shape(version, scope)
            for version in await answers.reader.nodes(NodeQuery(project, (ref,), versions=True))
        ]
    if options.json:
        return shape
    lines = []
    for version in shape["history"]:
        lines.append(f"v{version['version']} {version['written_by']} {safe(version['title'])}")
        lines += [f"  - {safe(Kind(bullet['kind']).shown(bullet['text']), 160)}" for bullet in version["bullets"]]
    return "\n".join(lines)


@from_one_moment
async def grip(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = _budget(options)
    if not options.json:
        page = await answers.expand_grip(options.id, options.before, options.after, budget)
        return _fitted(answers, page, budget)
    before, after = valid_around(options.before, _ALL_AROUND), valid_around(options.after, _ALL_AROUND)
    opened = await browse.expand_grip(answers.reader, options.id, before, after)
    record, cited = opened.record, opened.record.cited

    def shown(place: int) -> int:
        """Where a character of the cited text stands once the text is cleaned, as all JSON is."""
        return len(clean(cited.text[:place])) if cited else place

    def ended(event: Event) -> dict[str, Any]:
        return event_shape(event) | ({"outcome": event.outcome} if event.outcome else {})

    scope = await answers.scope(options.project)
    return {
        "grip_id": record.grip_id,
        "excerpt": record.excerpt,
        "state": opened.state,
        "start": shown(opened.start),
        "end": shown(opened.end),
        "event_id": cited.event_id if cited else None,
        "session_id": cited.session_id if cited else None,
        "project": cited.project if cited else None,
        "node_id": scope.id_of(record.node_id, cited.project) if record.node_id and cited else record.node_id,
        "before": [ended(event) for event in record.before],
        "events": [ended(event) for event in record.events],
        "after": [ended(event) for event in record.after],
    }


@from_one_moment
async def search(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = _budget(options, 20_000 if options.json else BUDGET)
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
        return _fitted(answers, page, _budget(options))
    shown = len(found.hits)
    if options.budget is not None:
        shown = page.shown if page.tokens <= budget else 0
    if found.hits and not shown:
        output.too_small(budget)
    more = found.more if shown == len(found.hits) else offset_of(options.cursor) + shown
    part = replace(found, hits=found.hits[:shown], more=more)
    # The titles of the segments that the events among the hits belong to.
    named = {hit.node_id: hit.project for hit in part.hits if hit.role and hit.node_id}
    refs = {node_id: (project, parse_node_id(node_id)[0]) for node_id, project in named.items()}
    nodes = {node_id: await node_of(answers.reader, *place) for node_id, place in refs.items()}
    titles = {node_id: node.title for node_id, node in nodes.items() if node}
    return found_shape(part, min(page.tokens, budget), titles)


@from_one_moment
async def timeline(answers: Answers, options: argparse.Namespace) -> Answer:
    budget = _budget(options)
    if not options.json:
        page = await answers.browse_time(options.when, options.project, options.topic, budget, None)
        return _fitted(answers, page, budget)
    scope = await answers.scope(options.project)
    when = answers.when(options.when)
    if when is None:
        raise UsageError('Name a time, such as yesterday, "last week" or 2024-01-15.')
    span, _ = await browse.browse_time(answers.reader, scope, when, options.topic)
    return {
        "when": time_shape(when),
        "level": span.level.label,
        "nodes": [node_shape(found, scope) for found in span.nodes],
    }


async def note(app: App, options: argparse.Namespace) -> Answer:
    event = await app.remember(options.text, options.pin, options.project, options.kind)
    grip_id = f"grip:{event.timestamp_ms}:{event.event_id}"
    if options.json:
        return {**event_shape(event), "grip_id": grip_id, "kind": options.kind, "pin": options.pin}
    return f"Remembered as {grip_id}."


async def show_status(app: App, options: argparse.Namespace) -> Answer:
    facts = await app.status()
    return facts if options.json else output.facts(facts)


async def projects(app: App, options: argparse.Namespace) -> Answer:
    if options.action != "list":
        return await _change_projects(app, options)
    found: list[dict[str, Any]] = [
        {
            "slug": info.slug,
            "path": info.root.removeprefix("label:"),
            "sessions": info.sessions,
            "events": info.events,
            "first": iso(info.first_ms) if info.first_ms is not None else None,
            "last": iso(info.last_ms) if info.last_ms is not None else None,
        }
        for info in await app.store.projects()
    ]
    if options.json:
        return {"projects": found}
    for project in found:
        counts = f"{project['sessions']} sessions, {project['events']} events"
        output.write(f"{output.bold(project['slug'])}  {counts}  {safe(project['path'])}\n")
    return 0 if found else "No project is in memory yet."


async def context(app: App, options: argparse.Namespace) -> Answer:
    request = ContextRequest(
        focus=options.focus,
        query=options.query,
        budget_tokens=options.budget,
        order=options.order,
        include_memo=not options.no_memo,
        levels=levels_of(options.levels.split(",") if options.levels is not None else None),
        detailed=options.detailed,
        top_k=options.top_k,
        since=options.since,
        at=options.at,
        project=options.project,
    )
    if not options.json:
        page = await app.contexts.page(request)
        if not page.whole:
            output.too_small(options.budget)
        return page.text
    found = await app.contexts.build(request)
    if not (found.blocks or found.kept or found.removed or options.since):
        output.too_small(options.budget)
    parts = ("kind", "anchor", "version", "text", "tokens")
    return {
        "snapshot": found.snapshot,
        "blocks": [{part: getattr(block, part) for part in parts} for block in found.blocks],
        "tokens": found.tokens,
        "removed": list(found.removed),
        "kept": list(found.kept),
    }


async def snapshot(app: App, options: argparse.Namespace) -> Answer:
    name = await app.contexts.snapshot()
    return {"snapshot": name} if options.json else name


async def session(app: App, options: argparse.Namespace) -> Answer:
    budget = BUDGET if options.budget is None else options.budget
    view, page = await session_page(app.answers, options.id, budget)
    if not options.json:
        return _fitted(app.answers, page, budget)
    shown = fitting(view, budget, app.answers.renderer.count)
    if not (shown.records or shown.tail):
        output.too_small(budget)
    return session_shape(shown, page.tokens)


async def compact(app: App, options: argparse.Namespace) -> Answer:
    result = await app.pipeline.compactor.compact(options.id, force=options.force)
    made, usage = result.record, result.usage
    if not options.json:
        if made:
            return "\n".join([f"Record {made.id}:", *body_lines(made.body)])
        full = f"{usage.tokens:,} of {usage.window:,} tokens"
        return f"No record was made: {result.decision.reason} ({full}). --force makes one all the same."
    # Read back, so that it names the events it was made from.
    records = (await session_view(app.answers, options.id)).records if made else []
    return {
        "compacted": made is not None,
        "reason": result.decision.reason,
        "record": next((record_shape(record) for record in records if made and record.id == made.id), None),
        "usage": {"tokens": usage.tokens, "window": usage.window, "ratio": round(usage.ratio, 3)},
    }


async def _change_projects(app: App, options: argparse.Namespace) -> Answer:
    from mcp_memory.surfaces.process_command import until_idle

    if options.action == "trust":
        return await _trust(app, options)
    if len(options.names) != 2:
        raise UsageError(f"`projects {options.action}` takes two slugs, the old one and the new one.")
    old, new = options.names
    if options.action == "rename":
        new = await app.store.rename(old, new)
    else:
        await app.store.merge(old, new)
        await until_idle(app)
    # The old name leads nowhere any more. Where it does, as a project's root, its text is written again.
    await app.inbox.drop([f"label:{old}"])
    shape = {"action": options.action, "from": old, "to": new}
    return shape if options.json else f"{old} is {new} now."


async def _trust(app: App, options: argparse.Namespace) -> Answer:
    """The user's consent that what is captured in this directory belongs to the project whose name it claims."""
    from mcp_memory.capture.project import detect
    from mcp_memory.domain.projects import slugify
    from mcp_memory.install.catalog import project_root
    from mcp_memory.surfaces.process_command import until_idle

    if len(options.names) != 1:
        raise UsageError("`projects trust` takes one name, the one that .mcp-memory.toml in this directory claims.")
    place, (name,) = detect(str(project_root()), {}), options.names
    if not place.label or slugify(place.label) != slugify(name):
        claimed = f"claims {place.label!r}" if place.label else "claims no name"
        file = Path(place.root) / ".mcp-memory.toml"
        raise UsageError(f'{file} {claimed}. Write project = "{name}" there first, or run this where it is written.')
    # What waits was captured before the user agreed.
    await until_idle(app)
    claim = await app.store.trust(place.root, place.label)
    if claim.owner:
        await until_idle(app)
    if options.json:
        project = claim.owner or slugify(name)
        return {"action": "trust", "project": project, "root": place.root, "changed": bool(claim.owner)}
    if not claim.owner:
        return f"No other project has the name {name}, or it counts here already: nothing to do."
    told = f"From the next session on, what is captured in {place.root} belongs to {claim.owner}, {claim.whose}, "
    told += "and agents there read it."
    if claim.own:
        told += f" Until now it was {claim.own}: `mcp-memory projects merge {claim.own} {claim.owner}` joins that too."
    return told
