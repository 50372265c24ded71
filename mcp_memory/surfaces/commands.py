"""The commands that keep a note, tell how memory is, pack a context, show or record a session, or change projects.

Each answers with a dictionary for --json, with a text, or with 0 if it has printed the answer itself.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread

from mcp_memory.app import App
from mcp_memory.domain.events import PIN_ASKED, EventType
from mcp_memory.domain.nodes import note_author, note_kind, note_shown, parse_grip_id, parse_short_grip_id
from mcp_memory.domain.projects import ProjectInfo
from mcp_memory.domain.records import body_lines
from mcp_memory.errors import BadId, NotFound, UsageError
from mcp_memory.navigate.browse import grip_key, session_name
from mcp_memory.navigate.context import ContextRequest, levels_of
from mcp_memory.navigate.naming import grip_id_of
from mcp_memory.navigate.sessions import fitting, record_shape, session_page, session_shape, session_view
from mcp_memory.navigate.shapes import event_shape, iso
from mcp_memory.surfaces import output, terminal
from mcp_memory.surfaces.forgettings import account
from mcp_memory.surfaces.look_commands import BUDGET, paged
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.terminal import Listed

#: How many days the chart of `status` shows, and how many sessions are listed where none is named.
_CHART_DAYS, _SESSIONS = 56, 20
#: Characters that are shown of a note that has just been pinned.
_PINNED_CHARS = 300


async def note(app: App, options: argparse.Namespace) -> Answer:
    if options.pin and (key := _note_key(options.text)):
        return await _pin(app, key, as_json=options.json)
    event = await app.remember(options.text, options.pin, options.project, options.kind)
    grip_id = f"grip:{event.timestamp_ms}:{event.event_id}"
    if options.json:
        return {**event_shape(event), "grip_id": grip_id, "kind": options.kind, "pin": options.pin}
    return f"Remembered in project {event.project} as {grip_id}."


def _note_key(text: str) -> str:
    """Return the grip id that is given instead of a note's words; nothing if these are words."""
    given = grip_id_of(text)
    try:
        if parse_short_grip_id(given) is None:
            parse_grip_id(given)
    except BadId:
        return ""
    return given


async def _pin(app: App, grip_id: str, *, as_json: bool) -> Answer:
    """Pin a note that is kept already, such as one that an agent wanted pinned."""
    record = await app.store.grip(await grip_key(app.store, grip_id), 0, 0)
    event = record.cited if record else None
    if event is None or event.event_type is not EventType.NOTE:
        raise NotFound(f"{grip_id} is no note. `mcp-memory doctor` lists the notes that an agent wants pinned.")
    await app.pin(event, True)
    if as_json:
        facts = {name: value for name, value in event.metadata.items() if name != PIN_ASKED} | {"pin": True}
        kind = str(note_kind(event))
        return {**event_shape(replace(event, metadata=facts)), "grip_id": grip_id, "kind": kind, "pin": True}
    return f"Pinned{note_author(event)}: {note_shown(event, _PINNED_CHARS)}"


async def show_status(app: App, options: argparse.Namespace) -> Answer:
    from mcp_memory.surfaces.doctor import CaptureState, examine

    facts = await app.status()
    health = await to_thread.run_sync(partial(examine, thorough=False), app.settings)
    if options.json:
        return facts | {"health": health.shape()}
    now = app.answers.now
    wrong = [Listed(problem.fix, lead=f"{problem.what}:", tone="yellow", point=True) for problem in health.problems]
    days, first = await app.store.active_days(None), (now - timedelta(days=_CHART_DAYS - 1)).date()
    drawn = terminal.activity_line(days, first, now.date())
    last = (await app.store.counts()).last_event_ms
    told = f"{_many(facts['events'], 'event')} in {_many(facts['sessions'], 'session')}, {_waiting(facts)}"
    latest = "last captured" if health.capture is CaptureState.CAPTURING else "last event"
    told = f"{latest} {terminal.ago(last, now)}, {told}" if last else told
    head = Listed(f"{told}.", lead="All is well:", tone="bold green")
    is_empty = not last and not (facts["inbox"] + facts["spool"])
    if is_empty and not health.note:
        head = Listed("`mcp-memory import` loads old history, `mcp-memory install` connects a client.", lead="Empty:")
    elif wrong:
        needs = "One thing needs you:" if len(wrong) == 1 else f"{len(wrong)} things need you:"
        head = Listed(f"{told}.", lead=needs, tone="bold yellow")
    notes = [health.note] if health.note else []
    onward = "`mcp-memory doctor` says why." if wrong else "`mcp-memory status --verbose` tells more."
    forgotten = [account(facts["forgotten"])] if facts["forgotten"]["times"] else []
    lines = [*forgotten, f"Data in {facts['home']}", *([] if options.verbose else [onward])]
    terminal.show(head, *wrong, *notes, *([drawn] if drawn else []), *lines)
    return output.facts(facts) if options.verbose else 0


def _waiting(facts: Mapping[str, Any]) -> str:
    """What is not in the tree yet, and what the team's server is still to be told."""
    team = facts.get("team", {})
    untold = sum(team.get(name, 0) for name in ("waiting", "to_withdraw", "to_forget"))
    caught, backlog = facts["inbox"] + facts["spool"], sum(facts["backlog"].values())
    parts = [f"{caught} captured to be read"] * bool(caught) + [f"{backlog} to be summarized"] * bool(backlog)
    parts += [f"{_many(untold, 'event')} for the team's server"] * bool(untold)
    return f"{' and '.join(parts)} (`mcp-memory process` does it now)" if parts else "nothing waits"


async def projects(app: App, options: argparse.Namespace) -> Answer:
    if options.action != "list":
        return await _change_projects(app, options)
    found: list[dict[str, Any]] = [
        {
            "slug": info.slug,
            "path": _path_of(info),
            "sessions": info.sessions,
            "events": info.events,
            "first": iso(info.first_ms) if info.first_ms is not None else None,
            "last": iso(info.last_ms) if info.last_ms is not None else None,
            "remote": info.remotes[0] if info.remotes else None,
            "remotes": list(info.remotes),
            "places": [
                {"path": place.path, "remote": place.remote or None, "joined": place.joined, "was": place.slug or None}
                for place in info.places
            ],
        }
        for info in await app.store.projects()
    ]
    if options.json:
        return {"projects": found}
    if not found:
        return "No project is in memory yet."
    return terminal.show(
        *(
            Listed(
                _held(each),
                id=each["path"] if each["path"] != each["slug"] else "",
                below=[Listed(line, point=True) for line in _why_one(each)],
                lead=each["slug"],
            )
            for each in found
        )
    )


def _path_of(info: ProjectInfo) -> str:
    """Where a project is: the root it is known by, one of its places, or the name that was given."""
    if info.root.startswith("remote:") or (info.root.startswith("label:") and info.places):
        return info.places[0].path if info.places else info.slug
    return info.root.removeprefix("label:")


def _why_one(project: Mapping[str, Any]) -> Iterator[str]:
    """By which remotes a project is known everywhere, and why its places are one."""
    yield from (f"known by its remote {remote}" for remote in project["remotes"])
    for place in project["places"]:
        if place["path"] == project["path"] and not place["joined"]:
            continue
        was = f"; it was {place['was']} until then" if place["was"] else ""
        reason = f"joined by its remote{was}" if place["joined"] else "joined by `projects merge`"
        yield f"{place['path']}: {reason}"


def _held(project: Mapping[str, Any]) -> str:
    return f"{_many(project['sessions'], 'session')}, {_many(project['events'], 'event')}"


def _many(count: int, name: str) -> str:
    return f"{count:,} {name}{'s' * (count != 1)}"


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
        return terminal.page(page.text)
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
    if options.id is None:
        from mcp_memory.surfaces.work_commands import list_sessions

        return await list_sessions(app.answers, options.project, None, _SESSIONS, as_json=options.json)
    budget = BUDGET if options.budget is None else options.budget
    view, page = await session_page(app.answers, options.id, budget)
    if not options.json:
        return paged(app.answers, page, budget)
    shown = fitting(view, budget, app.answers.renderer.count)
    if not (shown.records or shown.tail):
        output.too_small(budget)
    return session_shape(shown, page.tokens)


async def compact(app: App, options: argparse.Namespace) -> Answer:
    name = await session_name(app.store, options.id)
    result = await app.pipeline.compactor.compact(name, force=options.force)
    made, usage = result.record, result.usage
    if not options.json:
        if made:
            return "\n".join([f"Record {made.id}:", *body_lines(made.body)])
        full = f"{usage.tokens:,} of {usage.window:,} tokens"
        return f"No record was made: {result.decision.reason} ({full}). --force makes one all the same."
    # Read back, so that it names the events it was made from.
    records = (await session_view(app.answers, name)).records if made else []
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
    if options.action == "split":
        return await _split(app, options)
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


async def _split(app: App, options: argparse.Namespace) -> Answer:
    """Undo what a remote has joined, for good: these places keep a memory of their own from now on."""
    from mcp_memory.surfaces.process_command import until_idle

    if not options.names:
        raise UsageError("`projects split` takes a slug, and the places to split off if not all that were joined.")
    slug, *named = options.names
    known = {place.path for info in await app.store.projects() for place in info.places}
    absolute = await to_thread.run_sync(lambda: [os.path.realpath(path) for path in named])
    chosen = [path if path in known else real for path, real in zip(named, absolute, strict=True)]
    given = await app.store.split(slug, chosen)
    await until_idle(app)
    if options.json:
        return {"action": "split", "from": slug, "places": [{"path": root, "slug": to} for root, to in given.items()]}
    return "\n".join(f"{root} is {to} now, and no longer {slug}." for root, to in given.items())


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
    claim = await app.store.trust(place.root, place.label, place.remote)
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
