"""The commands by which the data stays its owner's: export as JSON lines or Markdown, and backup."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from mcp_memory.app import App
from mcp_memory.capture.settings import private_dir
from mcp_memory.domain.nodes import Node, NodeQuery, quoted_title
from mcp_memory.domain.toc import Level
from mcp_memory.errors import StoreFull, UsageError
from mcp_memory.navigate.browse import ALL
from mcp_memory.navigate.shapes import event_shape, iso
from mcp_memory.store.inbox_port import CopyKind
from mcp_memory.surfaces import output
from mcp_memory.surfaces.noted_places import note_place
from mcp_memory.surfaces.output import Answer, Meter

_PAGE = 1_000
#: Characters of a title in Markdown.
_TITLE_CHARS = 1_000


async def export(app: App, options: argparse.Namespace) -> Answer:
    project = (await app.answers.scope(options.project or ALL)).project
    if options.format == "jsonl" and not options.output:
        if not options.json:
            # Lines on a terminal show by themselves how far it has come.
            with output.progress("Exporting", enabled=not sys.stdout.isatty(), unit="events") as meter:
                await _lines(app, project, sys.stdout, meter)
            return 0
        # One document, written as it is read: a memory may be larger than what fits at once.
        sys.stdout.write('{"path": null, "format": "jsonl", "lines": [\n')
        count = await _lines(app, project, sys.stdout, None, between=",")
        sys.stdout.write(f'], "events": {count}}}\n')
        return 0
    with output.progress("Exporting", enabled=not options.json) as meter:
        if options.format == "markdown":
            if not options.output:
                raise UsageError("Markdown is exported into a directory: name one with -o.")
            what, count = "files", await _markdown(app, project, Path(options.output), meter)
        else:
            target = _replaceable(options.output, app.settings.database)
            what, count = "events", await _file(app, project, target, meter)
    await note_place(app, Path(options.output), CopyKind.EXPORT)
    if options.json:
        return {"path": options.output, "format": options.format, what: count}
    return f"{count} {what} written to {options.output}"


def _replaceable(name: str, database: Path) -> Path:
    """Where a file may be put: what is there gives way to it, so it must not be a device, a pipe or the memory."""
    target = Path(name)
    if target.is_dir():
        raise UsageError(f"{target} is a directory; name the file to write.")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is a device or a pipe; name a file.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no directory {target.parent}; make it first, or name a file elsewhere.")
    own = [database.with_name(database.name + suffix) for suffix in ("", "-wal", "-shm")]
    if any(path.exists() and target.exists() and target.samefile(path) for path in own):
        raise UsageError(f"{target} is the memory itself, which must not be written over; name another file.")
    return target


def _private(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="\n")


async def _file(app: App, project: str | None, target: Path, meter: Meter) -> int:
    partial = target.with_name(target.name + ".tmp")
    try:
        with _private(partial) as file:
            count = await _lines(app, project, file, meter)
        os.replace(partial, target)
    except OSError as error:
        raise StoreFull(f"{target} cannot be written: {error.strerror}. Name another place with -o.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return count


async def _lines(app: App, project: str | None, file: TextIO, meter: Meter | None, between: str = "") -> int:
    count = last = total = 0
    remotes = await app.store.remotes()
    if meter and meter.shown:
        total = sum(info.events for info in await app.store.projects() if project in (None, info.slug))
    while page := await app.store.log(last, project, _PAGE):
        for last, event in page:  # noqa: B007
            # As `import --client jsonl` reads it again.
            line = {**event_shape(event), "source_ids": list(event.source_ids), "metadata": dict(event.metadata)}
            if remote := remotes.get(event.project):
                line["remote"] = remote  # by which another machine knows the project
            file.write(f"{between if count else ''}{json.dumps(line, ensure_ascii=True)}\n")
            count += 1
        if meter:
            meter(count, total, unit="events")
    return count


async def _markdown(app: App, project: str | None, folder: Path, meter: Meter) -> int:
    """One file per node, linked to its parent and children, readable in any editor."""
    nodes = [node for level in Level for node in await app.store.nodes(NodeQuery.latest(project, level, 1_000_000))]
    for count, node in enumerate(nodes):
        meter(count, len(nodes), unit="files")
        is_leaf = node.level is Level.SEGMENT
        children = [] if is_leaf else await app.store.nodes(NodeQuery(node.project, parent=node.ref))
        path = folder / node.project / f"{file_name(node)}.md"
        try:
            private_dir(str(path.parent))
            with _private(path) as file:
                file.write(page_of(node, children))
        except OSError as error:
            raise StoreFull(f"{path} cannot be written: {error.strerror}. Name another place with -o.") from error
    return len(nodes)


def file_name(node: Node) -> str:
    return f"{node.level.label}-{node.ref.key}".replace(":", "-")


def page_of(node: Node, children: list[Node]) -> str:
    front: dict[str, Any] = {
        "id": node.node_id,
        "level": node.level.label,
        "project": node.project,
        "start": iso(node.start_ms),
        "end": iso(node.end_ms),
        "keywords": list(node.keywords),
        "tokens": node.tokens,
        "written_by": node.written_by,
        "version": node.version,
        "children": [child.node_id for child in children],
        "grips": list(dict.fromkeys(grip for bullet in node.bullets for grip in bullet.grip_ids)),
    }
    lines = [
        *output.front_matter(front),
        f"# {quoted_title(node.title, _TITLE_CHARS, is_period=node.level is not Level.SEGMENT)}",
        "",
    ]
    for bullet in node.bullets:
        grips = f" `{bullet.grip_ids[0]}`" if bullet.grip_ids else ""
        lines.append(f"- {bullet.quoted()}{grips}")
    if parent := node.ref.parent:
        lines += ["", f"Up: [[{parent.level.label}-{parent.key}|{parent.title}]]"]
    if children:
        lines += ["", "## Contents", ""]
        for child in children:
            title = (
                quoted_title(child.title, _TITLE_CHARS, is_period=child.level is not Level.SEGMENT)
                .replace("[", "(")
                .replace("]", ")")
                .replace("|", "/")
            )
            lines.append(f"- [[{file_name(child)}|{title}]]")
    return "\n".join(lines) + "\n"


async def backup(app: App, options: argparse.Namespace) -> Answer:
    target = _replaceable(options.path, app.settings.database)
    with output.progress("Copying", enabled=not options.json, unit="pages") as meter:
        await app.store.backup(target, meter)
    await note_place(app, target, CopyKind.BACKUP)
    size = target.stat().st_size
    return {"path": str(target), "bytes": size} if options.json else f"Copied {size:,} bytes to {target}"
