"""`move`: the memory is copied to another engine and compared; where it is used from is changed by a setting alone."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyio import from_thread, to_thread

from mcp_memory import config
from mcp_memory.app import App
from mcp_memory.errors import SettingsError, UsageError, how_to_add
from mcp_memory.install.apply import write_private
from mcp_memory.install.catalog import EditError
from mcp_memory.install.toml_settings import with_values
from mcp_memory.setting_kinds import a_database
from mcp_memory.store.inbox_port import CopyKind, CopyMade
from mcp_memory.store.sql import moving
from mcp_memory.store.sql.moving import MoveSource, MoveTarget
from mcp_memory.store.sqlite import left_behind
from mcp_memory.store.sqlite.tables import MOVING, FileTables
from mcp_memory.surfaces import output
from mcp_memory.surfaces.open_files import program_with
from mcp_memory.surfaces.output import Answer, Meter

_FILE = ("sqlite", "file")
_SECTION, _KEY = "store", "url"
_MISSING = (
    "{path} holds {missing:,} events that the server has not: a program wrote them after the move. Nothing was "
    "deleted. "
    'Bring them along: `MCP_MEMORY_STORE_URL="" mcp-memory export -o late.jsonl`, then '
    "`mcp-memory import --client jsonl late.jsonl`. Or delete the file yourself."
)


@dataclass(frozen=True, slots=True)
class MoveEnd:
    """Where a memory is or goes: the address of a server, or a file."""

    url: str = ""
    path: Path = Path()

    @property
    def shown(self) -> str:
        if not self.url:
            return str(self.path)
        from mcp_memory.store.postgres.database import shown

        return shown(self.url)

    def origin(self) -> AbstractContextManager[MoveSource]:
        if not self.url:
            return FileTables.origin(self.path)
        from mcp_memory.store.postgres.tables import ServerTables

        return ServerTables.origin(self.url)

    def destination(self, check: Callable[[MoveSource], None]) -> AbstractContextManager[MoveTarget]:
        if not self.url:
            return FileTables.destination(self.path, check)
        from mcp_memory.store.postgres.tables import ServerTables

        return ServerTables.destination(self.url, check)

    @contextmanager
    def held(self) -> Iterator[MoveSource | None]:
        """What is there now, to look at it; nothing is made."""
        if self.url:
            from mcp_memory.store.postgres.tables import ServerTables

            if not ServerTables.is_there(self.url):
                yield None
                return
        elif not self.path.exists():
            yield None
            return
        with self.origin() as found:
            yield found


async def move(app: App, options: argparse.Namespace) -> Answer:
    settings = app.settings
    if options.erase_old and options.keep_old:
        raise UsageError("--erase-old and --keep-old exclude each other. Give one of them.")
    if options.to is None:
        return await _erase_later(app, options)
    if (options.erase_old or options.keep_old) and not options.switch:
        raise UsageError("--erase-old and --keep-old go with --switch: until then the memory is used from where it is.")
    source = MoveEnd(settings.store.url, Path() if settings.store.url else settings.database)
    target = place_of(options.to, settings)
    if target == source:
        raise UsageError(f"The memory is in {target.shown} already. Name the place that it should go to.")
    if options.switch:
        _must_be_switchable(target, settings)
    started = time.monotonic()
    if options.dry_run:
        shape = await to_thread.run_sync(_counted, source, target)
    else:
        with output.progress("Copying", enabled=not options.json, unit="rows") as meter:
            shape = await to_thread.run_sync(partial(_moved, app, source, target, meter))
        await _note_copies(app, source, target)
        if options.switch and not shape["meanwhile"]:
            _switch(target, settings)
            shape["switched"] = True
            shape["old"] = await to_thread.run_sync(_leave, source, options)
    shape |= {"seconds": round(time.monotonic() - started, 1)}
    return shape if options.json else "\n".join(_told(shape, target, settings))


async def _note_copies(app: App, *ends: MoveEnd) -> None:
    """Remember where the memory is now and was before, so that `forget` can name what it does not reach."""
    kinds = [(end, CopyKind.SERVER if end.url else CopyKind.FILE) for end in ends if end.path != app.settings.database]
    await app.inbox.note_copies([CopyMade(end.shown, kind) for end, kind in kinds], app.spending.now_ms())


def _leave(source: MoveEnd, options: argparse.Namespace) -> dict[str, Any]:
    """Erase the memory that was moved away from, if its user wants that; runs in a thread."""
    if source.url:
        return {"path": source.shown, "erased": False}
    if not options.erase_old and (options.keep_old or options.json):
        return {"path": source.shown, "erased": False}
    question = (
        f"{source.path} and its backups are a copy of the memory now, and keep what you forget later. Delete them?"
    )
    return _erase(source.path, asking="" if options.erase_old else question)


async def _erase_later(app: App, options: argparse.Namespace) -> Answer:
    """Delete the file that an earlier switch has left."""
    if not options.erase_old:
        raise UsageError("Name the place that the memory should go to: --to postgresql://user@host/database.")
    path = app.settings.database
    if not app.settings.store.url:
        raise UsageError(f"{path} is the memory itself. --erase-old deletes it only after a move to a server.")
    if options.dry_run:
        old = {"path": str(path), "erased": False, "files": list(map(str, left_behind.files_of(path)))}
        return {"old": old} if options.json else "\n".join(["Would delete:", *map(str, left_behind.files_of(path))])
    old = await to_thread.run_sync(_erase, path, "", True)
    if path.exists() and "why" not in old:
        with output.spinner("Comparing", enabled=not options.json):
            missing = await left_behind.count_missing(path, app.store, app.spending.now_ms())
        if missing:
            raise UsageError(_MISSING.format(path=path, missing=missing))
        old = await to_thread.run_sync(_erase, path)
    if options.json:
        return {"old": old}
    return "\n".join(_tell_old(old))


def _erase(path: Path, asking: str = "", is_trial: bool = False) -> dict[str, Any]:
    """Delete the files of a memory that is not used any more, unless a program has them open."""
    old: dict[str, Any] = {"path": str(path), "erased": False}
    files = left_behind.files_of(path)
    if user := program_with(files):
        return old | {"why": f"{user} still uses it"}
    if is_trial or not files or (asking and not output.agreed(asking)):
        return old
    left_behind.erase(path)
    return old | {"erased": True, "files": list(map(str, files))}


def _tell_old(old: Mapping[str, Any]) -> Iterator[str]:
    if old["erased"]:
        yield f"Deleted the memory that was left behind: {', '.join(old['files'])}."
    elif "why" in old:
        yield f"{old['path']} was not deleted: {old['why']}. End that program, then run `mcp-memory move --erase-old`."
    elif "://" in old["path"]:
        yield (
            f"What is in {old['path']} stays there as a copy, and `mcp-memory forget` does not reach it. Once all is "
            "well, drop its schema there: `DROP SCHEMA mcp_memory CASCADE`."
        )
    elif Path(old["path"]).exists():
        yield (
            f"{old['path']} stays as a copy and keeps what you forget later. Once all is well, "
            "`mcp-memory move --erase-old` deletes it with its backups."
        )
    else:
        yield f"There is no {old['path']}."


def place_of(name: str, settings: config.Settings) -> MoveEnd:
    """What a user means: an address, the file of the data directory, another file, or the directory of one."""
    kind, separator, rest = name.partition("://")
    if kind in ("postgresql", "postgres") and separator:
        try:
            url = a_database(name)
        except ValueError as error:
            raise UsageError(f"--to {error}.") from None
        if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
            raise SettingsError(f"PostgreSQL needs packages that are not installed: {how_to_add('postgres')}.")
        return MoveEnd(url=url)
    if name in _FILE or (kind in _FILE and separator and not rest):
        return MoveEnd(path=settings.database)
    if separator and kind not in _FILE:
        raise UsageError(f"--to takes postgresql://user@host/database, `sqlite` or a path, and not {kind}://.")
    path = Path(rest if separator else name).expanduser().absolute()
    if not name.strip():
        raise UsageError("--to is empty: give postgresql://user@host/database, `sqlite` or a path.")
    path = path / settings.database.name if path.is_dir() else path
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no directory. Make it first, or name another place.")
    return MoveEnd(path=path)


def _counted(source: MoveEnd, target: MoveEnd) -> dict[str, Any]:
    """What would be copied, if that place can take it."""
    with source.origin() as origin, target.held() as held:
        known: dict[str, str] = {}
        if held is not None:
            moving.check(origin, held)
            known = held.facts()
        begun = "moving" in known or (not target.url and target.path.with_name(target.path.name + MOVING).exists())
        rows = {name: origin.count(name) for name in origin.tables() if name not in moving.LEFT_OUT}
    state = "half a copy, which goes on" if begun else "a copy, which is brought up to date" if known else "empty"
    return {"dry_run": True, "from": source.shown, "to": target.shown, "target": state, "tables": rows}


def _moved(app: App, source: MoveEnd, target: MoveEnd, meter: Meter) -> dict[str, Any]:
    """Copy until a round finds that nothing was written meanwhile; runs in a thread."""

    def progress(done: int, total: int, label: str) -> None:
        from_thread.check_cancelled()
        meter(done, total, label)

    with ExitStack() as stack:
        origin = stack.enter_context(source.origin())
        filled = stack.enter_context(target.destination(lambda held: moving.check(origin, held)))
        found = moving.move(origin, filled, lambda: from_thread.run(app.store.changes), progress)
    return {
        "from": source.shown,
        "to": target.shown,
        "tables": {name: {"rows": copy.rows, "sha256": copy.sha256} for name, copy in found.tables.items()},
        "events": found.tables["event"].rows,
        "rows": sum(copy.rows for copy in found.tables.values()),
        "switched": False,
        **{name: getattr(found, name) for name in ("written", "sha256", "rounds", "meanwhile", "left_out")},
    }


def _must_be_switchable(target: MoveEnd, settings: config.Settings) -> None:
    name = config.variable(_SECTION, _KEY)
    if name in config.environment():
        raise UsageError(f"{name} in the environment wins over config.toml. Unset it, or leave out --switch.")
    if not target.url and target.path != settings.database:
        raise UsageError(f"A memory in a file is used from {settings.database} alone. Leave out --switch.")


def _switch(target: MoveEnd, settings: config.Settings) -> None:
    """Put the address into config.toml, or take it out, where all else stays as it is."""
    path = settings.config_file
    try:
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        changed = with_values(text, _SECTION, {_KEY: target.url or None})
    except (EditError, OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The copy is whole, but {path} cannot be changed: {error}. Set [store] url yourself."
        ) from None
    if changed != text:
        write_private(path.resolve(), changed.encode("utf-8"))
        config.load()


def _told(shape: Mapping[str, Any], target: MoveEnd, settings: config.Settings) -> Iterator[str]:
    tables = shape["tables"]
    if "dry_run" in shape:
        rows = sum(tables.values())
        yield f"Would copy {tables['event']:,} events and {rows - tables['event']:,} other rows to {shape['to']}."
        yield f"There is {shape['target']}." if shape["target"] != "empty" else "That place is empty."
        return
    yield (
        f"{shape['events']:,} events and {shape['rows'] - shape['events']:,} other rows are in {shape['to']}, equal by "
        f"count and hash in {len(tables)} tables; {shape['written']:,} were written, in {shape['seconds']:.1f} s."
    )
    for name, many in shape["left_out"].items():
        yield f"Left out: {many:,} rows of {name}, since there is no one to log in to a file."
    if shape["meanwhile"]:
        yield (
            "The memory was written to all the while; what came last is missing there. End your agents, and run this "
            "again before you switch: it copies what is new."
        )
    if shape["switched"]:
        yield f"Written to {settings.config_file}. Start your agents anew: servers that run go on as they were."
        yield from _tell_old(shape["old"])
    elif target.url or target.path == settings.database:
        yield (
            "Nothing is changed here: the memory is still used from where it was. To use the copy, end your agents and "
            "run this once more with --switch: it copies what is new, and then sets [store] url. By hand, that is"
        )
        line = f"url = {json.dumps(target.shown, ensure_ascii=False)}" if target.url else "(no url)"
        yield f"  {settings.config_file}\n  [store]\n  {line}"
    if target.url and settings.index.kind != "fts5":
        yield 'A server has an index of its own: leave out [index] kind = "whoosh".'
