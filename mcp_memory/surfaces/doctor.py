"""`doctor`: everything that can keep memory from working, each with the command that fixes it."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from heapq import heappop, heappush
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from mcp_memory import config
from mcp_memory.capture.project import detect
from mcp_memory.capture.settings import read_flat
from mcp_memory.clients import installable, user_folders
from mcp_memory.clients.port import PROJECT, USER, Client, Folders
from mcp_memory.config import Settings
from mcp_memory.domain.events import NOTES_CLIENT
from mcp_memory.domain.nodes import revised
from mcp_memory.domain.projects import Claim
from mcp_memory.domain.tombstones import Tombstones
from mcp_memory.errors import Damage, MemoryFault, Problem, SettingsError, how_to_add
from mcp_memory.install import health
from mcp_memory.install.apply import FILE, Entry, InstallRecord
from mcp_memory.install.catalog import project_root, this_installation
from mcp_memory.navigate.shapes import tombstones_shape
from mcp_memory.store.sql import facts as told
from mcp_memory.store.sql.facts import Facts
from mcp_memory.store.sql.returned import Returned
from mcp_memory.store.sqlite import diagnosis
from mcp_memory.store.whoosh.index import index_problems
from mcp_memory.summaries import ExtractiveSummarizer
from mcp_memory.surfaces import output, terminal
from mcp_memory.surfaces.forgettings import account
from mcp_memory.team.account import team_problems

if TYPE_CHECKING:
    from mcp_memory.store.sqlite.repair import Repaired

#: How long a hook may be silent beside a transcript: as `doctor` looks, and until a table of contents mentions it.
_SLACK_MS, GAP_MS = 10 * 60_000, 24 * 3_600_000
#: More directories are not looked into; those that changed last come first.
MOST_FOLDERS = 2_000
_TRANSCRIPTS = (".jsonl", ".json")
_FRESH_SECONDS = 900.0
_looked: dict[Path, tuple[float, str]] = {}
_TREE = {True: "was whole", False: "was not whole and was rebuilt"}
_REBUILDING = (
    "Rebuilding summaries: {:,} of {:,}. What earlier versions wrote can be read meanwhile. A running server does it "
    "beside its other work, `mcp-memory process` does it now."
)
#: What is missing where history was imported and no hook is registered.
NOT_CONNECTED = "No client is connected, so later sessions are not captured;"
_SOURCES = {"file": "the damaged file", "recover": "SQLite's .recover", "backup": "the newest backup"}


class CaptureState(StrEnum):
    """How capture stands on this machine."""

    CAPTURING = "capturing"
    #: A client is connected and nothing has come from it yet.
    WAITING = "waiting"
    #: No client is connected, but history was imported.
    IMPORTED = "imported"
    #: No client is connected, and that is a problem.
    UNCONNECTED = "unconnected"
    OFF = "off"
    #: It is a team's memory, which laptops fill.
    TEAM = "team"
    #: The settings cannot be read.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Assessment:
    """What `doctor`, `status`, the viewer and `memory://status` all say of the memory's health.

    `note` is a sentence about a healthy state in which something is still to come; it may be empty.
    """

    problems: list[Problem]
    checked: list[str]
    capture: CaptureState
    note: str = ""
    tombstones: Tombstones = Tombstones()

    def shape(self, *, private: bool = False) -> dict[str, Any]:
        """Return it for JSON; a `private` one names no path and no project."""
        found = [{"what": problem.what, "why": problem.why, "fix": problem.fix} for problem in self.problems]
        return {
            "ok": not found,
            "capture": str(self.capture),
            **({"note": self.note} if self.note else {}),
            "problems": len(found) if private else found,
            **({} if private else {"forgotten": tombstones_shape(self.tombstones)}),
        }


class Diagnosis(Protocol):
    """What is asked of a memory, whether it can be opened or not."""

    def database(self) -> tuple[Facts, list[Problem]]:
        """What it knows, and whether it is whole."""

    def facts(self) -> Facts: ...

    def claim(self, root: str, label: str, remote: str = "") -> Claim: ...

    def has_captured(self) -> bool: ...

    def records(self) -> list[Problem]: ...

    def returned(self) -> Returned:
        """Return how many forgotten events are stored again."""


@dataclass(frozen=True)
class FileDiagnosis:
    """The same of a memory in a file."""

    path: Path

    def database(self) -> tuple[Facts, list[Problem]]:
        return diagnosis.database(self.path)

    def facts(self) -> Facts:
        return diagnosis.facts(self.path)

    def claim(self, root: str, label: str, remote: str = "") -> Claim:
        return diagnosis.claim(self.path, root, label, remote)

    def has_captured(self) -> bool:
        return diagnosis.has_captured(self.path)

    def records(self) -> list[Problem]:
        return diagnosis.records(self.path)

    def returned(self) -> Returned:
        return diagnosis.returned(self.path)


def diagnosis_of(settings: Settings) -> Diagnosis:
    """How to look at the memory of these settings."""
    if not settings.store.url:
        return FileDiagnosis(settings.database)
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise SettingsError(f"[store] url needs packages that are not installed: {how_to_add('postgres')}")
    from mcp_memory.store.postgres.diagnosis import ServerDiagnosis

    return ServerDiagnosis(settings.store.url, diagnosis.InboxDiagnosis(settings.inbox))


def doctor(options: argparse.Namespace) -> int:
    """Look at everything, after mending what can be if that is asked for; 1 if anything is wrong."""
    if options.forgotten or options.match or options.report:
        from mcp_memory.surfaces.forgotten_check import check_forgotten

        return check_forgotten(options)
    repaired: dict[str, Any] = {}
    rebuilding = None
    try:
        settings = config.load()
        if options.repair:
            with output.spinner("Repairing", enabled=not options.json):
                repaired = anyio.run(_mend, settings)
        with output.spinner("Examining", enabled=not options.json):
            found = examine(settings)
            rebuilding = revised(diagnosis_of(settings).facts().revisions, ExtractiveSummarizer.revision)
    except SettingsError as error:
        fix = "Correct what is named there, then: mcp-memory doctor"
        unusable = Problem("the settings cannot be used", str(error), fix)
        found = Assessment([unusable], ["settings"], CaptureState.UNKNOWN)
    problems = found.problems
    if options.json:
        shape = found.shape() | {"checked": found.checked}
        if rebuilding:
            shape["rebuilding_summaries"] = dict(zip(("done", "of"), rebuilding, strict=True))
        output.document(shape | ({"repaired": repaired} if options.repair else {}))
    else:
        _print(found, repaired.get("notes", ()), rebuilding)
    if options.repair:  # whether that worked; what else is wrong, the user did not ask to be mended
        problems = [problem for problem in problems if isinstance(problem, Damage)]
    return 1 if problems else 0


def _print(found: Assessment, notes: Sequence[str], rebuilding: tuple[int, int] | None) -> None:
    for note in notes:
        terminal.page(note)
    for problem in found.problems:
        terminal.page(f"✗ {problem.what}\n  {problem.why}\n  → {problem.fix}")
    if rebuilding:
        terminal.page(_REBUILDING.format(*rebuilding))
    if not found.problems:
        terminal.page(f"All is well. Checked: {', '.join(found.checked)}.")
    if found.note:
        terminal.page(found.note)
    if found.tombstones.forgettings:
        terminal.page(account(tombstones_shape(found.tombstones)))


async def _mend(settings: Settings) -> dict[str, Any]:
    """Restore a damaged database and read the transcripts again; else rebuild the index and repair the tree."""
    # What only a repair needs.
    from mcp_memory.app import open_app
    from mcp_memory.config import system_timezone
    from mcp_memory.pipeline.importing import import_files
    from mcp_memory.store.sqlite.repair import repair, repair_inbox
    from mcp_memory.store.whoosh.index import mark_damaged
    from mcp_memory.surfaces.import_command import find_sources, laid_out
    from mcp_memory.surfaces.process_command import until_idle

    path, zone, memory = settings.database, settings.calendar.timezone or system_timezone(), diagnosis_of(settings)
    _, problems = memory.database()
    if not settings.store.url and not path.exists() and not problems:
        return {"notes": ["There is no memory yet, so there is nothing to repair."]}
    found, notes = None, []
    if damage := [problem for problem in problems if isinstance(problem, Damage)]:
        found = None if settings.inbox.name in damage[0].what else repair(path, zone)
        _, problems = memory.database()
    if any(isinstance(problem, Damage) for problem in problems):  # not the memory, by now
        aside = repair_inbox(settings.inbox)
        notes.append(f"What could be read of {settings.inbox} is in a new one; the damaged one is {aside}, as it was.")
    if settings.index.kind == "whoosh" and settings.whoosh.is_dir():
        mark_damaged(settings.whoosh)
    async with open_app(settings, typed=True) as app:
        app.pipeline.quiet_ms = 0  # what was in the tree is there again at once
        if found is None:
            kept = await app.store.mend(app.zone.key)
            await until_idle(app)
            return {"tree": kept, "notes": [*notes, f"The index was rebuilt; the tree {_TREE[kept]}."]}
        with laid_out([]) as (paths, files):
            sources, _ = find_sources(user_folders(config.environment()), paths, "auto", files)
            again = await import_files(app.store, app.inbox, sources, app.intaker, passing=files.names)
        await until_idle(app)
    facts = asdict(found) | {"path": str(found.path), "imported": again.events_new}
    return facts | {"notes": [*_notes(found, again.events_new), *notes]}


def _notes(found: Repaired, imported: int) -> Iterator[str]:
    """What a person should know, the worst first."""
    lost = f" At least {found.lost:,} events could not be found." if found.lost else ""
    if found.events:
        given = " and ".join(_SOURCES[source] for source in found.sources)
        counts = f"{found.events:,} events of {found.sessions:,} sessions in {found.projects:,} projects"
        yield f"Found {counts} in {given}.{lost}"
    else:
        yield f"Nothing could be read from the damaged database, and there was no backup.{lost}"
    yield f"The transcripts of your agents were read again and held {imported:,} more events."
    if "forgotten" in found.damaged:
        yield (
            "The list of what was forgotten could not be read in full. The transcripts may have brought some of it "
            "back: look for it, and forget it again."
        )
    if "inbox" in found.damaged:
        yield "Of what was captured last and not yet processed, something may be missing."
    if {"session", "project"} & {*found.damaged}:
        yield "Sessions whose name or project was lost are found under `recovered` in `mcp-memory projects`."
    yield (
        f"The damaged file is {found.path}, as it was. It holds what was in memory, and `mcp-memory forget` does not "
        "reach it: delete it once all is well."
    )


def examine(settings: Settings, *, thorough: bool = True) -> Assessment:
    """Assess the memory's health. A `thorough` look reads the database through, which takes its time."""
    now_ms = settings.now_ms if settings.now_ms is not None else time.time_ns() // 1_000_000
    problems = diagnosis.disk(settings.home)
    memory = diagnosis_of(settings)
    facts, damage = memory.database() if thorough else (memory.facts(), [])
    problems += damage + told.flow(facts, now_ms) + diagnosis.spool(settings.spool, now_ms)
    problems += memory.records() if thorough else []
    problems += [*_capture(settings), *team_problems(settings, now_ms), *_left_behind(settings)]
    if settings.index.kind == "whoosh":
        problems += index_problems(settings.whoosh, partial(diagnosis.index_standing, settings.database))
    chosen = settings.summarizer
    if chosen.kind != "extractive":
        from mcp_memory.app import model_settings
        from mcp_memory.models.caller import model_problems

        problems += model_problems(facts.models, model_settings(settings))
    home = user_folders(config.environment())
    installed: list[Entry] = []
    try:
        installed = InstallRecord(settings.home).entries()
    except MemoryFault as error:
        record = shlex.quote(str(settings.home / FILE))
        fix = f"mv {record} {record}.damaged"
        problems.append(Problem("the record of what was installed is damaged", str(error), fix))
    names = {entry.client for entry in installed}
    here = [client for client in installable().values() if client.is_here(home) or client.name in names]

    def heard() -> bool:
        """Whether a hook ever told anything: in the spool, the inbox or the log. A damaged database cannot tell."""
        spooled = settings.spool.is_dir() and any(settings.spool.glob("*.json"))
        return bool(damage) or spooled or memory.has_captured()

    problems += told.unread_payloads(facts)
    problems += [] if facts.of_team else told.unanswered_pins(facts)
    state, note = CaptureState.TEAM, ""
    if not facts.of_team:
        state, note, trouble = _connections(here, installed, settings, facts, heard)
        problems += trouble
    read_through = ["database", "records"] if thorough else []
    checked = ["settings", "disk", *read_through, "inbox", "lease", "spool", "clock", "capture", "index"]
    return Assessment(problems, [*checked, *(client.name for client in here)], state, note, facts.tombstones)


def _connections(
    here: list[Client], installed: list[Entry], settings: Settings, facts: Facts, heard: Callable[[], bool]
) -> tuple[CaptureState, str, list[Problem]]:
    """Assess whether the clients have hook and server, and whether anything was ever heard of them."""
    home, project, launch = user_folders(config.environment()), project_root(), this_installation(settings.home)
    held = {client.name: health.registrations(client, home, project) for client in here}
    # Of the settings of other projects only our record tells.
    others = [entry for entry in installed if entry.scope == PROJECT and entry.root != str(project)]
    elsewhere = {entry.client for entry in others if Path(entry.path).exists()}
    joined = {client.name for client in here if health.is_connected(client, held[client.name][0], home)}
    connected = [name for name in held if name in elsewhere or name in joined]
    if not connected and not any(bad for _, bad in held.values()):
        names = ", ".join(client.name for client in here)
        why = f"{names} on this machine: no hook, no server." if names else "No client is known to be on this machine."
        named = here[0].name if here else f"CLIENT ({', '.join(installable())})"
        fix = f"mcp-memory install {named}"
        if _has_history(facts) and not heard():
            note = f"History was imported. {NOT_CONNECTED} connect one: {fix}"
            return CaptureState.IMPORTED, note, []
        why = f"{why} Sessions are not captured, and no agent can ask."
        return CaptureState.UNCONNECTED, "", [Problem("nothing is connected", why, fix)]
    found: dict[str, list[Problem]] = {}
    for client in here:
        registered, bad = held[client.name]
        if registered or client.name not in elsewhere:
            bad += health.check(client, registered, launch, home)
        found[client.name] = bad or _silent(client, settings, facts, home)
    problems = [problem for bad in found.values() for problem in bad]
    if not settings.capture.enabled:
        return CaptureState.OFF, "", problems
    if heard():
        return CaptureState.CAPTURING, "", problems
    note = ""
    if not any(found[name] for name in connected):
        titles = " and ".join(installable()[name].title for name in connected)
        note = f"{titles} {'is' if len(connected) == 1 else 'are'} connected; waiting for the first session."
    return CaptureState.WAITING, note, problems


def _has_history(facts: Facts) -> bool:
    """Whether the memory holds more than notes."""
    return any(client != NOTES_CLIENT for client in facts.last_ms)


def _silent(client: Client, settings: Settings, facts: Facts, home: Folders) -> list[Problem]:
    """A hook that is registered but has not spoken although sessions took place since."""
    since = last_heard(client, settings, facts) or _settings_changed(client, home)
    newest = newest_transcript(client, home)
    if newest is None or newest <= since + _SLACK_MS:
        return []
    spooled = [path.stat().st_mtime_ns // 1_000_000 for path in settings.spool.glob("*.json")]
    if max(spooled, default=0) > since:
        return []
    why = "Its transcripts are newer than the last event captured from it. A session of a project that is not captured "
    why += "looks the same."
    fix = f"mcp-memory install {client.name}, restart the client; mcp-memory import loads what was missed."
    return [Problem(f"{client.name}: the hook is silent", why, fix)]


def _settings_changed(client: Client, home: Folders) -> int:
    """Return when a client's hooks file last changed: a plugin or an entry made by hand is no newer than that."""
    with suppress(OSError):
        return client.path(home, client.registered.hooks[USER]).stat().st_mtime_ns // 1_000_000
    return 0


def _capture(settings: Settings) -> Iterator[Problem]:
    """What the settings and the file of this project say about capture."""
    if not settings.capture.enabled:
        fix = f"Remove enabled = false from [capture] in {settings.config_file}, or unset MCP_MEMORY_CAPTURE_ENABLED."
        yield Problem("capture is switched off", "The setting capture.enabled is false.", fix)
    place = detect(str(project_root()), {})
    file, root = Path(place.root) / ".mcp-memory.toml", shlex.quote(place.root)
    if not place.enabled:
        why, fix = f"{file} says enabled = false", f"Remove that line from {file}, if it should be."
        if read_flat(str(file)).get("enabled", "").lower() not in ("false", "0", "no", "off"):
            why, fix = f"{file} cannot be read for certain, and may say enabled = false", f"Correct {file}."
        yield Problem("this project is switched off", f"{why}: its sessions are not remembered.", fix)
    known_as = place.root, place.label, place.remote
    claim = diagnosis_of(settings).claim(*known_as) if place.label else None
    if claim and claim.owner and not settings.project:
        own = f"the project {claim.own}" if claim.own else "a project of its own"
        why = f"{file} claims it, but it is {claim.whose}. Until you agree, this directory is {own}."
        fix = f"If both are yours: cd {root}; mcp-memory projects trust {claim.owner}. If not, remove the line."
        yield Problem(f"the project name {claim.owner} does not count here", why, fix)


def _left_behind(settings: Settings) -> Iterator[Problem]:
    """Report the file of a memory that has moved to a server."""
    if settings.store.url and settings.database.exists():
        why = "The memory is on a server now. Nothing uses this file, and it keeps what you forget."
        yield Problem(f"an earlier memory is left in {settings.database}", why, "mcp-memory move --erase-old")


def capture_gap(settings: Settings) -> str:
    """Sessions that no hook told of, and payloads that no one could read, for the table of contents to mention.

    Looks at most every quarter of an hour, since it reads directories.
    """
    when, text = _looked.get(settings.home, (-_FRESH_SECONDS, ""))
    if time.monotonic() - when < _FRESH_SECONDS:
        return text
    memory, home = diagnosis_of(settings), user_folders(config.environment())
    facts = memory.facts()
    silent: list[str] = []
    connected = False
    for client in installable().values():
        connected = connected or bool(last_installed(client, settings))
        last = last_heard(client, settings, facts)
        newest = newest_transcript(client, home) if last else None
        if newest is not None and newest - last > GAP_MS:
            silent.append(f"{client.name} since {datetime.fromtimestamp(last / 1000, UTC).date()}")
    unread = ", ".join(told.unread(client, count) for client, (count, _) in facts.unknown.items())
    text = ""
    if silent and (connected or memory.has_captured()):
        text = f" Capture was silent though sessions went on ({', '.join(silent)}): `mcp-memory doctor` says why."
    elif silent:
        text = f" Later sessions are not in memory ({', '.join(silent)}): `mcp-memory doctor` says what to do."
    if unread:
        text += f" {unread}: `mcp-memory doctor` says what to do."
    _looked[settings.home] = (time.monotonic(), text)
    return text


def last_heard(client: Client, settings: Settings, facts: Facts) -> int:
    """When the client last told something, or was connected; 0 if neither ever happened."""
    return max(last_installed(client, settings), facts.last_ms.get(client.name, 0))


def last_installed(client: Client, settings: Settings) -> int:
    """Return when our hook was last registered with the client; 0 if that never happened."""
    with suppress(MemoryFault):  # an unreadable record is a finding of `doctor`, and no reason to answer nothing
        return max((entry.installed_ms for entry in InstallRecord(settings.home).entries(client.name)), default=0)
    return 0


def newest_transcript(client: Client, home: Folders) -> int | None:
    """When a session of the client last wrote something, as the times of its files tell."""
    folders: list[tuple[float, str]] = []
    for place in client.default_places(home):
        if place.is_absolute():  # a project's own exports are of any client's sessions
            heappush(folders, (0.0, str(place)))
    newest: int | None = None
    for _ in range(MOST_FOLDERS):
        if not folders:
            break
        with suppress(OSError):
            for entry in os.scandir(heappop(folders)[1]):
                changed = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    heappush(folders, (-changed.st_mtime, entry.path))
                elif entry.name.endswith(_TRANSCRIPTS):
                    newest = max(newest or 0, changed.st_mtime_ns // 1_000_000)
    return newest
