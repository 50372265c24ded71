"""Forgetting, tried in every way and followed by every step that could bring something back.

A memory is filled with words that stand in nothing else, each in a place of its own: in a prompt, an answer, a path,
a summary and so on. Then something is forgotten, in each way there is. After that each step is tried on a copy of what
is left: the same import, a fork of the session, a restored backup and others. A check passes if no forgotten word is
in any file, table or index afterwards, and all other words still are.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import psycopg
from mcp.client.session import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from bench.measure import REPO, Figure
from mcp_memory.config import Settings, load
from mcp_memory.store.postgres import scan as server_scan
from mcp_memory.store.sqlite import scan as file_scan
from mcp_memory.store.whoosh.searcher import documents_with
from mcp_memory.surfaces.byte_scan import ByteScanner
from tests.postgres import drop_database, new_database, programs, shared_server
from tests.surfaces.client import ask, connected
from tests.surfaces.shell import SCRIPT, here
from tests.surfaces.web.conftest import reading

#: Stands beside every word that is to be forgotten by a text.
MARK = "quaggaword"
#: A word for each place, which stands nowhere else.
WORDS = {
    "prompt": "zorvanquil",
    "answer": "mibrelthan",
    "tool result": "kuphendrix",
    "path": "taldrimoor",
    "branch": "werganthol",
    "title": "phosquendal",
    "note": "grelmavint",
    "spool": "bruskadole",
    "inbox": "dwemparion",
    "summary": "lanquostev",
    "record": "hexmorvane",
    "question": "jolpintrae",
}
#: What has to stay, by where it was said: in the same session, in the same project, in another project.
STAYING = {"session": "lighthouse", "project": "marlinspike", "elsewhere": "bowspritting"}
_SESSION, _SECOND, _OTHER = (str(uuid.UUID(int=number << 64 | number)) for number in (0xA11CE, 0xB0B, 0xCA7))
_FORK, _RESUMED = (str(uuid.UUID(int=number << 64 | number)) for number in (0xF0F0, 0xE0E0))
_DAY, _LATER_DAY = "2026-03-02", "2026-04-01"
_BEFORE, _NOW = "2026-03-20", "2026-06-01T12:00:00Z"
_AT_MS = round(datetime.fromisoformat(f"{_DAY}T09:30:00Z").timestamp() * 1000)
_SERVER_SECONDS = 60
_FORM_TRIES = 5


@dataclass(frozen=True)
class Setup:
    """An engine with an index."""

    engine: str
    index: str

    def __str__(self) -> str:
        return f"{self.engine}, {self.index}"


SETUPS = (Setup("sqlite", "fts5"), Setup("sqlite", "whoosh"), Setup("postgres", "gin"))


class World:
    """A user's machine. It always lies in the same directory, since paths are part of what is remembered."""

    def __init__(self, root: Path, setup: Setup) -> None:
        self.root, self.setup, self.url = root, setup, ""
        #: Further databases that were made for a step.
        self.further: list[str] = []

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work" / "orchard"

    @property
    def transcripts(self) -> Path:
        return self.root / "transcripts"

    @property
    def outside(self) -> Path:
        """Where the user keeps exports and backups."""
        return self.root / "outside"

    @property
    def env(self) -> dict[str, str]:
        fixed = {"MCP_MEMORY_HOME": str(self.home), "HOME": str(self.root), "PATH": "/usr/bin:/bin"}
        fixed |= {"MCP_MEMORY_NOW": _NOW, "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC"}
        fixed |= {"MCP_MEMORY_STORE_URL": self.url} if self.url else {}
        # A memory on a server has the index of that server.
        return fixed | ({"MCP_MEMORY_INDEX_KIND": "whoosh"} if self.setup.index == "whoosh" and not self.url else {})

    @property
    def settings(self) -> Settings:
        return load(self.env)

    def run(self, *words: str, now: str = _NOW) -> str:
        """Run a command that must succeed, and return what it prints."""
        done = self.attempt(*words, now=now)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} exited with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def attempt(self, *words: str, now: str = _NOW) -> subprocess.CompletedProcess[str]:
        return here(words, self.env | {"MCP_MEMORY_NOW": now}, self.work)

    def hook(self, payload: dict[str, Any]) -> str:
        """Fire a hook and return what it prints."""
        command = [sys.executable, "-I", "-S", str(REPO / "hooks" / "capture.py"), "--client", "claude-code"]
        facts = {"session_id": _SECOND, "cwd": str(self.work), "transcript_path": str(self.transcripts / "none")}
        text = json.dumps(facts | payload)
        done = subprocess.run(command, input=text, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout

    def save(self, place: Path) -> str:
        """Copy everything aside; the return value names a copy of the server's database."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.root, place)
        return _copied(self.url) if self.url else ""

    def restore(self, place: Path, url: str) -> None:
        self.drop()
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(place, self.root)
        self.url = _copied(url) if url else ""

    def drop(self) -> None:
        for url in filter(None, (self.url, *self.further)):
            drop_database(url)
        self.url, self.further = "", []


def _copied(url: str) -> str:
    """A copy of a database, which nobody may be using meanwhile."""
    name = url.rpartition("/")[2]
    shared_server().sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    return shared_server().new_database(name)


def fill(world: World) -> None:
    """Put each word into its place, and controls beside them."""
    for folder in (world.work / ".git", world.transcripts, world.outside, world.home):
        folder.mkdir(parents=True)
    (world.work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    if world.setup.engine == "postgres":
        world.url = new_database()
    _write(world.transcripts / f"{_SESSION}.jsonl", _marked_session(world))
    _write(world.transcripts / f"{_SECOND}.jsonl", _plain_session(world.work, _SECOND, STAYING["project"]))
    other = world.root / "work" / "vineyard"
    other.mkdir()
    _write(world.transcripts / f"{_OTHER}.jsonl", _plain_session(other, _OTHER, STAYING["elsewhere"]))
    world.run("import", str(world.transcripts), "--client", "claude-code")
    world.run("process", "--until-idle")
    world.run("remember", f"Bring the {MARK} {WORDS['note']} keys to the harbor.", now=f"{_DAY}T10:00:00Z")
    world.run("compact", _SESSION, "--force")
    world.run("process", "--until-idle")
    anyio.run(_ask_question, world)
    world.run("export", "-o", str(world.outside / "export.jsonl"))
    lines = [json.loads(line) for line in (world.outside / "export.jsonl").read_text("utf-8").splitlines()]
    names = ("session_id", "timestamp", "role", "text", "event_type", "project")
    plain = [{name: line[name] for name in names if name in line} for line in lines if "text" in line]
    _write(world.outside / "without-ids.jsonl", plain)
    if not world.url:
        world.run("backup", str(world.outside / "backup.db"))
    _leave_payloads(world)
    if world.url:
        with psycopg.connect(world.url, autocommit=True) as connection:
            connection.execute("ANALYZE")


async def _ask_question(world: World) -> None:
    async with connected(world.settings) as client:
        await ask(client, "teleport", query=f"{MARK} {WORDS['question']} {WORDS['prompt']}", project="*")


def _leave_payloads(world: World) -> None:
    """Leave one captured payload in the inbox and one in the spool."""
    for place in ("inbox", "spool"):
        payload = {"session_id": _SESSION, "hook_event_name": "UserPromptSubmit", "cwd": str(world.work)}
        payload |= {"prompt": f"Also mention {MARK} {WORDS[place]} there.", "prompt_id": f"prompt-of-the-{place}"}
        row = {"received_ms": _AT_MS, "client": "claude-code", "root": str(world.work), "label": ""}
        row |= {"payload": json.dumps(payload), "remote": ""}
        if place == "spool":
            folder = world.home / "spool"
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / f"{_AT_MS:013}-1-abc.json").write_text(json.dumps(row))
            continue
        with closing(sqlite3.connect(world.home / "inbox.db", isolation_level=None)) as inbox:
            columns = ("received_ms", "client", "root", "label", "payload")
            values = [row[name] for name in columns]
            inbox.execute(f"INSERT INTO inbox ({', '.join(columns)}) VALUES (?, ?, ?, ?, ?)", values)


def _write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


class _Transcript:
    """Writes lines as Claude Code does, each with an id that follows from its place."""

    def __init__(self, session: str, cwd: Path, day: str) -> None:
        self.session, self.cwd, self.day = session, cwd, day
        self.lines: list[dict[str, Any]] = []

    def say(self, role: str, content: Any, **fields: Any) -> None:
        number = len(self.lines)
        self.lines.append(
            {
                "type": role,
                "uuid": str(uuid.uuid5(uuid.UUID(self.session), str(number))),
                "sessionId": self.session,
                "timestamp": f"{self.day}T09:{number:02}:00.000Z",
                "cwd": str(self.cwd),
                "gitBranch": "main",
                "message": {"role": role, "content": content},
                **fields,
            }
        )

    def answer(self, text: str, **fields: Any) -> None:
        self.say("assistant", [{"type": "text", "text": text}], **fields)

    def call(self, command: str, output: str, **fields: Any) -> None:
        use = {"type": "tool_use", "id": f"toolu_{len(self.lines):020}", "name": "Bash", "input": {"command": command}}
        self.say("assistant", [use], **fields)
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": output}
        self.say("user", [result], toolUseResult={"stdout": output, "stderr": "", "interrupted": False}, **fields)


def _marked_session(world: World) -> list[dict[str, Any]]:
    talk = _Transcript(_SESSION, world.work, _DAY)
    place = {"cwd": str(world.work / f"{MARK}-{WORDS['path']}")}
    talk.say("user", f"Please plan the {MARK} {WORDS['prompt']} launch for the harbor office.", promptId="prompt-one")
    talk.answer(f"The {MARK} {WORDS['answer']} launch needs a schedule, because the harbor closes at noon.")
    talk.say("user", f"What about the {MARK} {WORDS['record']} permit? It must never be sent by mail.")
    talk.answer(f"Decision: the {MARK} {WORDS['record']} permit is handed over in person, because mail gets lost.")
    talk.call("cat schedule.txt", f"{MARK} {WORDS['tool result']} leaves at seven")
    talk.say("user", "Where do we keep the list of boats?", **place)
    talk.answer("The list of boats is in boats.csv.", **place)
    talk.say("user", "And which list has the crews?", gitBranch=f"{MARK}/{WORDS['branch']}")
    talk.answer("The crews are in crews.csv.", gitBranch=f"{MARK}/{WORDS['branch']}")
    talk.say("user", f"Repaint the {STAYING['session']} before the season starts, please.")
    talk.answer(f"Decision: the {STAYING['session']} is repainted in white, because red paint is sold out.")
    talk.say("user", f"Which dock does the {MARK} {WORDS['summary']} ferry use in winter?")
    talk.answer(f"Decision: the {MARK} {WORDS['summary']} ferry uses the north dock, because the south dock freezes.")
    title = {"type": "custom-title", "customTitle": f"{MARK} {WORDS['title']} plans", "sessionId": _SESSION}
    return [*talk.lines, title]


def _plain_session(cwd: Path, session: str, word: str) -> list[dict[str, Any]]:
    talk = _Transcript(session, cwd, _LATER_DAY)
    talk.say("user", f"Please order a new {word} for the workshop.")
    talk.answer(f"Decision: the {word} is ordered in Hamburg, because it is cheaper there.")
    talk.answer(f"Done: the {word} is ordered and arrives on Friday.")
    return talk.lines


# Ways to forget


async def _agree(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={})


def _by_tool(world: World) -> None:
    async def forget() -> None:
        async with connected(world.settings, asks=_agree) as client:
            for _ in range(_FORM_TRIES):  # as for the form below
                if (await ask(client, "forget", match=MARK, confirm=True)).startswith("Forgot "):
                    return
            raise RuntimeError("The tool did not forget.")

    anyio.run(forget)


def _by_form(world: World) -> None:
    async def forget() -> None:
        async with reading(world.settings) as reader:
            # Payloads become events meanwhile, which the page notices: it then asks to look once more.
            for _ in range(_FORM_TRIES):
                answer = await reader.send("/forget", page=f"/forget?match={MARK}", match=MARK)
                if "Forgot " in answer.text:
                    return
            raise RuntimeError("The form did not forget.")

    anyio.run(forget)


def _forget_event(world: World, word: str) -> None:
    lines = (json.loads(line) for line in world.run("export").splitlines())
    event_id = next(str(line["event_id"]) for line in lines if word in line.get("text", ""))
    world.run("forget", "--event", event_id, "--yes")


def _command(*words: str) -> Callable[[World], None]:
    def forget(world: World) -> None:
        world.run("forget", *words, "--yes")

    return forget


@dataclass(frozen=True)
class Way:
    """How something is forgotten, and which words go with it."""

    name: str
    forget: Callable[[World], None]
    gone: frozenset[str]
    kept: frozenset[str]

    @property
    def by_text(self) -> bool:
        return self.name.startswith("match")


def _way(name: str, forget: Callable[[World], None], gone: Iterable[str], kept: Iterable[str]) -> Way:
    return Way(name, forget, frozenset(WORDS[place] for place in gone), frozenset(kept))


#: In which table or file a word has to be before anything is forgotten, where that is not where it was said.
_DERIVED = {"summary": "bullet", "record": "compaction", "question": "handed", "spool": "spool", "inbox": "inbox"}
_CONTROLS = frozenset(STAYING.values())
#: The words that an event of its own says, which have to stay when another event is forgotten.
_EVENTS = frozenset(WORDS[place] for place in ("answer", "tool result", "record", "summary", "note"))
WAYS = (
    _way("session", _command("--session", _SESSION), {*WORDS} - {"note"}, _CONTROLS - {STAYING["session"]}),
    _way(
        "event",
        lambda world: _forget_event(world, WORDS["prompt"]),
        ["prompt"],
        _CONTROLS | _EVENTS,
    ),
    _way("project", _command("--project", "orchard"), WORDS, [STAYING["elsewhere"]]),
    _way("before", _command("--before", _BEFORE), {*WORDS}, _CONTROLS - {STAYING["session"]}),
    _way("match", _command("--match", MARK.title()), WORDS, _CONTROLS),
    _way(
        "note",
        lambda world: _forget_event(world, WORDS["note"]),
        ["note"],
        _CONTROLS | (_EVENTS - {WORDS["note"]}),
    ),
    _way("match by an agent's tool", _by_tool, WORDS, _CONTROLS),
    _way("match in the viewer's form", _by_form, WORDS, _CONTROLS),
)


# Steps after it


def _import(world: World, path: Path, client: str = "claude-code") -> None:
    world.run("import", str(path), "--client", client)
    world.run("process", "--until-idle")


def _session_lines(world: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (world.transcripts / f"{_SESSION}.jsonl").read_text("utf-8").splitlines()]


def _copy(world: World) -> None:
    copy = world.root / "copies" / "another-name.jsonl"
    _write(copy, _session_lines(world))
    _import(world, copy)


def _fork(world: World) -> None:
    fork = world.root / "copies" / f"{_FORK}.jsonl"
    _write(fork, [line | {"sessionId": _FORK} for line in _session_lines(world)])
    _import(world, fork)


def _resumed(world: World) -> None:
    lines = [line | {"sessionId": _RESUMED} for line in _session_lines(world)]
    names = ((line, str(uuid.uuid5(uuid.UUID(_RESUMED), str(number)))) for number, line in enumerate(lines))
    resumed = world.root / "copies" / f"{_RESUMED}.jsonl"
    _write(resumed, [line | {"uuid": name} if "uuid" in line else line for line, name in names])
    _import(world, resumed)


def _as_generic(world: World) -> None:
    """The transcript, converted line by line for the generic import."""
    told = []
    for line in _session_lines(world):
        content = line.get("message", {}).get("content", "")
        texts = (
            [content] if isinstance(content, str) else [part.get("text", part.get("content", "")) for part in content]
        )
        for text in filter(None, texts):
            facts = {"session_id": _SESSION, "timestamp": line["timestamp"], "project": "orchard"}
            told.append(facts | {"role": line["type"], "text": text, "source_id": line["uuid"]})
    generic = world.root / "copies" / "generic.jsonl"
    _write(generic, told)
    _import(world, generic, "jsonl")


def _restored(world: World) -> None:
    for name in ("memory.db", "memory.db-wal", "memory.db-shm"):
        (world.home / name).unlink(missing_ok=True)
    shutil.copyfile(world.outside / "backup.db", world.home / "memory.db")
    world.run("status")
    world.run("process", "--until-idle")


def _restored_and_imported(world: World) -> None:
    _restored(world)
    _import(world, world.transcripts)


def _moved_and_back(world: World) -> None:
    """Move to a server, import there, move back, import again. A file cannot be written over, so it is set aside."""
    world.further.append(url := new_database())
    world.run("move", "--to", url)
    aside = world.outside / "before-the-move.db"
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            (world.home / f"memory.db{ending}").rename(f"{aside}{ending}")
    world.url = url
    try:
        _import(world, world.transcripts)
        world.run("move", "--to", str(world.home / "memory.db"))
    finally:
        world.url = ""
    _import(world, world.transcripts)


def _moved_from_server(world: World) -> None:
    """Move into a file, import there, and move to another server."""
    old = world.url
    world.run("move", "--to", str(world.home / "memory.db"))
    world.further += [old, url := new_database()]
    world.url = ""
    _import(world, world.transcripts)
    world.run("move", "--to", url)
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            (world.home / f"memory.db{ending}").unlink()
    world.url = url
    _import(world, world.transcripts)


def _asked_again(world: World) -> None:
    async def asks() -> None:
        async with connected(world.settings) as client:
            await ask(client, "teleport", query=f"What was {MARK}?", project="*")

    anyio.run(asks)


def _brief(world: World) -> None:
    """A session begins, and its hook prints what the memory prepared."""
    told = world.hook({"hook_event_name": "SessionStart", "source": "startup"})
    (world.home / "printed-by-the-hook").write_text(told)


@dataclass(frozen=True)
class Step:
    """What is done after something was forgotten. `ahead` is done before it, on the filled memory."""

    name: str
    do: Callable[[World], object] = lambda world: None
    ahead: Callable[[World], object] | None = None
    #: On which engines or indexes it is possible.
    on: tuple[str, ...] = ("sqlite", "postgres")
    #: Whether the step only concerns what is forgotten by a text.
    by_text: bool = False
    #: Whether the files of the server are looked at, too, which keep deleted rows until their table is rewritten.
    server_files: bool = False
    #: A file that may hold it if a later `forget` names it, so that its owner can delete it.
    named: str = ""


def _serving(world: World) -> subprocess.Popen[bytes]:
    """A server at work, with hooks that have just fired."""
    process = subprocess.Popen(
        [str(SCRIPT), "serve"],
        cwd=world.work,
        env=world.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    world.hook({"hook_event_name": "SessionStart", "source": "startup"})
    return process


def _moved_before(world: World) -> None:
    """Switch to a server before anything is forgotten, and agree that the old file goes."""
    world.further.append(url := new_database())
    world.run("move", "--to", url, "--switch", "--erase-old")


def _moved_and_kept(world: World) -> None:
    """The same, and the old file stays where it was."""
    world.further.append(url := new_database())
    world.run("move", "--to", url, "--switch")


STEPS = (
    Step("right after"),
    Step("process", lambda world: world.run("process", "--until-idle")),
    Step("rebuild", lambda world: world.run("process", "--rebuild")),
    Step("doctor --repair", lambda world: world.attempt("doctor", "--repair")),
    Step("same import", lambda world: _import(world, world.transcripts)),
    Step("copy under another name", _copy),
    Step("fork: another session, same ids", _fork),
    Step("resumed: another session, other ids", _resumed),
    Step("the same lines by --client jsonl", _as_generic),
    Step("export with ids", lambda world: _import(world, world.outside / "export.jsonl", "jsonl")),
    Step("export without ids", lambda world: _import(world, world.outside / "without-ids.jsonl", "jsonl")),
    Step("restored backup", _restored, on=("sqlite",)),
    Step(
        "restored backup, same import",
        _restored_and_imported,
        on=("sqlite",),
    ),
    Step("move to PostgreSQL and back", _moved_and_back, on=("sqlite",)),
    Step("move to a file and back", _moved_from_server, on=("postgres",)),
    Step("moved before", ahead=_moved_before, on=("fts5",)),
    Step("moved before, old file named", ahead=_moved_and_kept, on=("fts5",), by_text=True, named="memory.db"),
    Step("brief of the next session", _brief),
    Step("files of the server", on=("postgres",), server_files=True),
    Step("asked again", _asked_again, by_text=True),
    Step("server and hooks running", _brief, ahead=_serving),
)
#: What runs with the tests.
SHORT_WAYS = ("session", "match")
SHORT_STEPS = ("right after", "same import", "fork: another session, same ids", "restored backup", "asked again")


# Checks


@dataclass
class Check:
    """The outcome of one step after one way on one setup; `where` names the places that hold a forgotten word."""

    setup: Setup
    way: str
    step: str
    where: dict[str, list[str]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def passed(self) -> bool:
        return not (self.where or self.lost or self.error)

    def __str__(self) -> str:
        names = {word: place for place, word in WORDS.items()}
        words = ", ".join(sorted(names.get(word, word) for word in self.where))
        places = ", ".join(sorted({place for found in self.where.values() for place in found}))
        found = f"{words} in {places}" if words else ""
        lost = f"lost: {', '.join(self.lost)}" if self.lost else ""
        return f"{self.setup} | {self.way} | {self.step} | {'; '.join(filter(None, (self.error, found, lost)))}"


def places_in(home: Path, words: Iterable[str]) -> dict[str, list[str]]:
    """Where each word is found in a data directory: in files, in the tables of databases, in indexes."""
    words = list(words)
    found: dict[str, set[str]] = defaultdict(set)
    scanner = ByteScanner(words)

    def note(place: str, data: bytes) -> None:
        for number in scanner.scan_bytes(data).by_text:
            found[words[number]].add(place)

    for path in sorted(filter(Path.is_file, home.rglob("*"))):
        name = str(path.relative_to(home))
        note("a file's name", name.encode())
        for number in scanner.scan_file(path).by_text:
            found[words[number]].add(name)
        if file_scan.is_database(path):
            rows: dict[str, list[bytes]] = defaultdict(list)
            for table, value in file_scan.values(path):
                rows[table].append(value.encode("utf-8", "replace") if isinstance(value, str) else value)
            for table, held in rows.items():
                note(f"{name}: {table}", b"\n".join(held))
            for word in words:
                if file_scan.count_indexed(path, word):
                    found[word].add(f"{name}: index")
    for word in words:
        if (home / "whoosh").is_dir() and documents_with(home / "whoosh", word):
            found[word].add("whoosh: index")
    return {word: sorted(places) for word, places in found.items()}


def places_of_server(url: str, words: Iterable[str], *, files: bool = False) -> dict[str, list[str]]:
    """Where each word is found in a database: in tables, planner's samples, the index and, if asked for, its files."""
    words = list(words)
    found: dict[str, set[str]] = defaultdict(set)
    scanner = ByteScanner(words)
    rows: dict[str, list[str]] = defaultdict(list)
    for table, row in server_scan.values(url):
        rows[table].append(row)
    for table, lines in rows.items():
        for number in scanner.scan_bytes("\n".join(lines).encode("utf-8", "replace")).by_text:
            found[words[number]].add(f"server: {table}")
    for word in words:
        if server_scan.count_indexed(url, word):
            found[word].add("server: index")
    for path in _files_of(url) if files else ():
        for number in scanner.scan_file(path).by_text:
            found[words[number]].add(f"server: file {path.name}")
    return {word: sorted(places) for word, places in found.items()}


def _files_of(url: str) -> list[Path]:
    """The files of a database on the server of the tests, as they are on the disk after a checkpoint."""
    server, name = shared_server(), url.rpartition("/")[2]
    server.sql("CHECKPOINT")
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,)).fetchone()
    assert row
    return sorted((server.data / "base" / str(row[0])).iterdir())


def places_of(world: World, words: Iterable[str], *, files: bool = False) -> dict[str, list[str]]:
    """Where each word is found in the data directory and on the server of a world."""
    words = list(words)
    found = places_in(world.home, words)
    for url in {world.url, world.settings.store.url} - {""}:
        for word, places in places_of_server(url, words, files=files).items():
            found[word] = [*found.get(word, ()), *places]
    return found


def _check(world: World, way: Way, step: Step) -> Check:
    check = Check(world.setup, way.name, step.name)
    gone = [*way.gone, *([MARK] if way.by_text else [])]
    check.where = places_of(world, gone, files=step.server_files)
    if step.named and step.named in world.attempt("forget", "--match", MARK, "--dry-run").stdout:
        held = {
            word: [place for place in where if not place.startswith(step.named)] for word, where in check.where.items()
        }
        check.where = {word: places for word, places in held.items() if places}
    told = world.run("export")
    check.lost = sorted(word for word in way.kept if word not in told)
    return check


def controls(world: World) -> dict[str, list[str]]:
    """Where each word is before anything is forgotten; a word that is nowhere would prove nothing."""
    found = places_of(world, [*WORDS.values(), *STAYING.values(), MARK])
    missing = [
        place
        for place, word in WORDS.items()
        if not any(_DERIVED.get(place, "event") in name for name in found.get(word, ()))
    ]
    if missing:
        raise RuntimeError(f"Nothing was stored of {', '.join(missing)}, so their checks would prove nothing.")
    return found


def try_setup(
    root: Path, setup: Setup, ways: Sequence[Way], steps: Sequence[Step], say: Callable[[str], None] = lambda line: None
) -> Iterator[Check]:
    """Fill a memory, and check every step after every way."""
    world = World(root / "machine", setup)
    full, after = root / "full", root / "after"
    shutil.rmtree(root, ignore_errors=True)
    world.root.mkdir(parents=True)
    fill(world)
    if ways:
        controls(world)
    full_url = world.save(full)
    try:
        for way in ways:
            world.restore(full, full_url)
            failed = _attempt(lambda way=way: way.forget(world))  # type: ignore[misc]
            after_url = world.save(after)
            for step in steps:
                if not {setup.engine, setup.index} & {*step.on} or (step.by_text and not way.by_text):
                    continue
                start = (full, full_url) if step.ahead else (after, after_url)
                world.restore(*start)
                check = _tried(world, way, step) if not failed else Check(setup, way.name, step.name, error=failed)
                say(f"{'pass' if check.passed else 'FAIL'}  {check}")
                yield check
            if after_url:
                world.drop()
                drop_database(after_url)
    finally:
        world.drop()
        if full_url:
            drop_database(full_url)
        shutil.rmtree(root, ignore_errors=True)


def _tried(world: World, way: Way, step: Step) -> Check:
    process: Any = None
    try:
        if step.ahead:
            process = step.ahead(world)
            way.forget(world)
        step.do(world)
        return _check(world, way, step)
    except Exception as error:  # a step that fails is a check that fails
        return Check(world.setup, way.name, step.name, error=reason_of(error))
    finally:
        if isinstance(process, subprocess.Popen):
            assert process.stdin
            process.stdin.close()
            process.wait(_SERVER_SECONDS)


def _attempt(work: Callable[[], object]) -> str:
    try:
        work()
    except Exception as error:
        return reason_of(error)
    return ""


def reason_of(error: Exception) -> str:
    """Return what went wrong in the innermost task."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:300]}"


def run(scratch: Path, *, large: bool, short: bool) -> list[Figure]:
    """Every way and step on every setup; raises if a check fails."""
    setups = [setup for setup in SETUPS if setup.engine == "sqlite" or programs()]
    ways = [way for way in WAYS if not short or way.name in SHORT_WAYS]
    steps = [step for step in STEPS if not short or step.name in SHORT_STEPS]
    checks = [
        check
        for setup in setups[: 1 if short else None]
        for check in try_setup(scratch / "forget", setup, ways, steps, lambda line: print(line, flush=True))
    ]
    if programs() and not short:
        from bench.forget_team import try_team  # it builds upon this module

        checks += try_team(scratch / "team", say=lambda line: print(line, flush=True))
    _print_table(checks)
    failed = [check for check in checks if not check.passed]
    if failed:
        raise RuntimeError("\n".join(map(str, failed)))
    counts = Counter(str(check.setup) for check in checks)
    return [Figure(f"checks on {name}", count, unit="") for name, count in counts.items()]


def _print_table(checks: Sequence[Check]) -> None:
    """How many checks pass, for each way and for each step."""
    for title, name in (("way", "way"), ("step", "step"), ("engine and index", "setup")):
        groups: dict[str, list[bool]] = defaultdict(list)
        for check in checks:
            groups[str(getattr(check, name))].append(check.passed)
        print(f"\n| {title} | checks passed |\n|---|---|")
        for group, passed in groups.items():
            print(f"| {group} | {sum(passed)} of {len(passed)} |")
    print(f"\n{sum(check.passed for check in checks)} of {len(checks)} checks passed.")
