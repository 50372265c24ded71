"""Kills at chosen and at random points, after which the memory must equal one that was never interrupted.

Each scenario is a piece of work by real commands and hooks. It is done once in peace, and then again and again from the
same start, each time with a process killed at another point. The work is then taken up as a user or a client would: the
command is given again, further hooks fire, another server is at work.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.killing import HOOK, NEVER, Child, preload, start, state
from bench.measure import Figure
from bench.processes import INITIALIZE
from mcp_memory import sample
from mcp_memory.store.sqlite.migrations import steps

HISTORY = Path(sample.__file__).with_name("history.jsonl")
NOW = "2026-11-02T12:00:00Z"
#: Kills of each scenario: at enumerated points, and at random times.
FULL, SHORT = (75, 30), (2, 0)
QUERIES = ("refresh token", "rate limit")
_PROCESS = ("process", "--until-idle")
_HANDSHAKE = b"".join(
    json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    for message in (
        {"id": 1, "method": "initialize", "params": INITIALIZE},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "toc_root", "arguments": {"project": "*"}}},
    )
)
#: A server looks twice a second whether anything is new.
_POLL_SECONDS = 0.8
#: Of these the transcript tells too, so that a hook that died before it stored anything is made up for.
_TOLD_TWICE = frozenset({"UserPromptSubmit", "PostToolUse"})


@dataclass(frozen=True)
class Place:
    """A user's machine in one directory. It always has the same path, since paths are part of what is remembered."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def env(self) -> dict[str, str]:
        fixed = {"MCP_MEMORY_NOW": NOW, "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC", "PATH": "/usr/bin:/bin"}
        return fixed | {"HOME": str(self.root), "MCP_MEMORY_HOME": str(self.home)}

    def start(self, *words: str, stdin: bytes = b"", die_at: int = NEVER, now_ms: int = 0) -> Child:
        return start(words, self.env, self.work, stdin=stdin, die_at=die_at, now_ms=now_ms)

    def do(self, *words: str) -> None:
        """A command that nothing interrupts."""
        if code := self.start(*words).wait():
            raise RuntimeError(f"{' '.join(words)} exited with {code}.")

    def state(self) -> dict[str, Any]:
        return state(self.home, self.env, self.work, QUERIES)


@dataclass(frozen=True)
class Kill:
    """Where a process is to die: at a point of its work, or so many seconds after its start."""

    point: int = NEVER
    seconds: float | None = None

    def of(self, child: Child) -> bool:
        """Wait for the end of a child. Whether it was killed."""
        while self.seconds is not None and child.running():
            if time.monotonic() - child.started >= self.seconds:
                child.kill()
            else:
                time.sleep(0.001)
        code = child.wait()
        if code not in (0, -9):
            raise RuntimeError(f"A process that was not killed exited with {code}.")
        return code != 0


@dataclass(frozen=True)
class Scenario:
    """`prepare` makes the start, `work` does everything, and lets a process die if it is told where.

    What is `ignored` differs by right: an event that a killed hook did not tell comes from the transcript, and says so.
    """

    name: str
    prepare: Callable[[Place], None]
    work: Callable[[Place, Kill], Done]
    ignored: tuple[str, ...] = ()


@dataclass
class Done:
    """What a run was: whether something was killed, how many points there were, and how long it took."""

    killed: bool = False
    points: int = 0
    seconds: float = 0


@dataclass
class Tally:
    enumerated: int = 0
    at_random: int = 0
    points: int = 0
    different: list[str] = field(default_factory=list)


def run(scratch: Path, *, large: bool, short: bool) -> list[Figure]:
    """Every scenario; raises if any memory differs."""
    preload()
    figures, different = list[Figure](), list[str]()
    for scenario in SCENARIOS:
        tally = attack(scenario, scratch / "crash", *(SHORT if short else FULL))
        note = f"{tally.enumerated} at points of {tally.points}, {tally.at_random} at random times"
        figures.append(Figure(f"kills of {scenario.name}", tally.enumerated + tally.at_random, unit="", note=note))
        print(f"{scenario.name}: {note}, {len(tally.different)} different", flush=True)
        different += tally.different
    if different:
        raise RuntimeError("\n".join(different))
    total = sum(figure.value for figure in figures)
    return [*figures, Figure("kills in all", total, unit=""), Figure("memories that differ", 0, aim=0, unit="")]


def attack(scenario: Scenario, root: Path, enumerated: int, at_random: int) -> Tally:
    shutil.rmtree(root, ignore_errors=True)
    ready, place = root / "ready", Place(root / "machine")
    place.work.mkdir(parents=True)
    scenario.prepare(place)
    place.root.rename(ready)
    peaceful = _again(scenario, ready, place, Kill())
    wanted = {name: value for name, value in place.state().items() if name not in scenario.ignored}
    tally = Tally(points=peaceful.points)
    rng = random.Random(scenario.name)
    points = sorted(rng.sample(range(1, peaceful.points + 1), min(enumerated, peaceful.points)))
    times = [Kill(seconds=rng.uniform(0, peaceful.seconds)) for _ in range(at_random)]
    for kill in (*(Kill(point) for point in points), *times):
        if not _again(scenario, ready, place, kill).killed:
            continue  # it had ended before
        tally.enumerated += kill.seconds is None
        tally.at_random += kill.seconds is not None
        found = {name: value for name, value in place.state().items() if name not in scenario.ignored}
        if told := _differences(wanted, found):
            tally.different.append(f"{scenario.name}, {kill}: {told}")
    return tally


def _again(scenario: Scenario, ready: Path, place: Place, kill: Kill) -> Done:
    shutil.rmtree(place.root, ignore_errors=True)
    shutil.copytree(ready, place.root)
    return scenario.work(place, kill)


def _differences(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """The parts that are not as they should be, with the first lines that differ."""
    told = []
    for name, value in wanted.items():
        if found[name] != value:
            missing, more = (
                [line for line in one if line not in other] if isinstance(one, list) else one
                for one, other in ((value, found[name]), (found[name], value))
            )
            told.append(f"{name}: missing {str(missing)[:600]}, instead {str(more)[:600]}")
    return "; ".join(told)


def _command(*words: str) -> Callable[[Place, Kill], Done]:
    """A command that is killed, given again, and followed by the rest of the pipeline."""

    def work(place: Place, kill: Kill) -> Done:
        child = place.start(*words, die_at=kill.point)
        done = Done(kill.of(child), child.points, time.monotonic() - child.started)
        if done.killed:
            place.do(*words)
        place.do(*_PROCESS)
        return done

    return work


def _hooks(place: Place, kill: Kill) -> Done:
    """A session whose hooks fire one after the other; one of them dies."""
    done = Done()
    for number, payload in enumerate(_payloads(place)):
        twice = payload["hook_event_name"] in _TOLD_TWICE
        die_at = kill.point - done.points if twice and kill.point > done.points else NEVER
        child = _fire(place, payload, die_at)
        left = None if kill.seconds is None else kill.seconds - done.seconds
        dies = twice and not done.killed and left is not None and left > 0
        done.killed |= Kill(seconds=left if dies else None).of(child)
        done.points += child.points if twice else 0
        done.seconds += time.monotonic() - child.started if twice else 0
        if number == 3:
            place.do(*_PROCESS)  # until here there was no database, and hooks had to spool
    for half_written in place.home.glob("spool/*.tmp"):
        os.utime(half_written, (0, 0))  # nobody is at it any more, which the pipeline takes from its age
    place.do(*_PROCESS)
    return done


def _servers(place: Place, kill: Kill) -> Done:
    """A server at work while hooks fire dies, and another one takes over."""
    first = place.start("serve", stdin=_HANDSHAKE, die_at=kill.point)
    while first.running() and not first.points:
        time.sleep(0.01)
    for payload in _payloads(place):
        _fire(place, payload).wait()
    servers = [first, place.start("serve", stdin=_HANDSHAKE)]
    if kill.seconds is not None:
        while first.running() and time.monotonic() - first.started < kill.seconds:
            time.sleep(0.001)
        first.kill()
    for server in servers:
        server.until_idle(_POLL_SECONDS)
    done = Done(first.ended == -9, first.points, time.monotonic() - first.started)
    for server in servers:
        if server.wait() not in (0, -9):
            raise RuntimeError(f"A server exited with {server.ended}.")
    place.do(*_PROCESS)
    return done


def _fire(place: Place, payload: dict[str, Any], die_at: int = NEVER) -> Child:
    words = (HOOK, "--client", "claude-code")
    return place.start(*words, stdin=json.dumps(payload).encode(), die_at=die_at, now_ms=payload["_at"])


def _payloads(place: Place) -> Iterator[dict[str, Any]]:
    yield from json.loads((place.work / "payloads.json").read_text())


def _captured(place: Place) -> None:
    """A session as Claude Code tells it: the transcript, and the payloads of its hooks."""
    lines = [line for line in _history() if line["session_id"] == "tidepool-api-01"][:16]
    transcript = place.work / "tidepool-api-01.jsonl"
    common = {"session_id": "tidepool-api-01", "cwd": str(place.work), "transcript_path": str(transcript)}
    told, payloads = list[dict[str, Any]](), list[dict[str, Any]]()

    def fire(line: dict[str, Any], event: str, after: int = 0, **fields: Any) -> None:
        at = round(datetime.fromisoformat(line["timestamp"]).timestamp() * 1000) + after
        payloads.append({**common, "hook_event_name": event, "_at": at, **fields})

    def write(line: dict[str, Any], kind: str, content: Any, **fields: Any) -> None:
        uuid = f"{line['source_id']}-{len(told)}"
        head = {"type": kind, "uuid": uuid, "sessionId": common["session_id"], "timestamp": line["timestamp"]}
        told.append({**head, "cwd": common["cwd"], "message": {"role": kind, "content": content}, **fields})

    for number, line in enumerate(lines):
        text, last = line["text"], number + 1 == len(lines) or lines[number + 1]["role"] == "user"
        if line["role"] == "system":
            fire(line, "SessionStart", source="startup")
        elif line["role"] == "user":
            fire(line, "UserPromptSubmit", prompt=text, prompt_id=line["source_id"])
            write(line, "user", text, promptId=line["source_id"])
        elif line["role"] == "assistant":
            write(line, "assistant", [{"type": "text", "text": text}])
            if last:
                fire(line, "Stop", after=5, last_assistant_message=text)
        else:
            _tool(line, fire, write)
    fire(lines[-1], "SessionEnd", after=10, reason="other")
    transcript.write_text("".join(json.dumps(line) + "\n" for line in told))
    (place.work / "payloads.json").write_text(json.dumps(payloads))


def _tool(line: dict[str, Any], fire: Callable[..., None], write: Callable[..., None]) -> None:
    head, _, output = line["text"].partition("\n")
    call = {"name": "Bash", "input": {"command": head}, "id": f"toolu_{line['source_id']}"}
    result = {"stdout": output, "stderr": "", "interrupted": False}
    write(line, "assistant", [{"type": "tool_use", **call}])
    answer = {"type": "tool_result", "tool_use_id": call["id"], "content": output}
    write(line, "user", [answer], toolUseResult=result)
    fire(line, "PostToolUse", tool_name="Bash", tool_input=call["input"], tool_response=result, tool_use_id=call["id"])


def _history() -> list[dict[str, Any]]:
    return [json.loads(line) for line in HISTORY.read_text("utf-8").splitlines()]


def _file(place: Place) -> None:
    """A history to import: more than one batch."""
    shutil.copyfile(HISTORY, place.work / "history.jsonl")


def _imported(place: Place) -> None:
    lines = [line for line in _history() if line["session_id"].endswith(("-01", "-02"))]
    (place.work / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    place.do("import", "history.jsonl", "--client", "jsonl")


def _built(place: Place) -> None:
    _imported(place)
    place.do(*_PROCESS)


def _waiting(place: Place) -> None:
    """Hooks have fired, and nothing has read what they left."""
    _captured(place)
    place.do(*_PROCESS)
    for payload in _payloads(place):
        _fire(place, payload).wait()


def _older(place: Place) -> None:
    """The same memory as the first schema would have it."""
    _built(place)
    newer, old = place.home / "newer.db", place.home / "memory.db"
    with closing(sqlite3.connect(old)) as connection:
        connection.execute(f"VACUUM INTO '{newer}'")
    local = place.home / "inbox.db"
    with closing(sqlite3.connect(local)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for name in ("memory.db", "memory.db-wal", "memory.db-shm", "inbox.db-wal", "inbox.db-shm"):
        (place.home / name).unlink(missing_ok=True)
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(steps()[0][1])
        connection.execute("PRAGMA user_version = 1")
        connection.execute("ATTACH ? AS newer", (str(newer),))
        connection.execute("ATTACH ? AS local", (str(local),))
        for (table,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
            source = "local" if table in ("inbox", "brief", "checkpoint") else "newer"
            names = [_columns(connection, schema, table) for schema in ("main", source)]
            shared = ", ".join(f'"{name}"' for name in names[0] if name in names[1])
            virtual = connection.execute(
                "SELECT sql LIKE 'CREATE VIRTUAL%' FROM sqlite_master WHERE name = ?", (table,)
            )
            if shared and not virtual.fetchone()[0]:
                connection.execute(
                    f"INSERT OR REPLACE INTO main.{table} ({shared}) SELECT {shared} FROM {source}.{table}"
                )
        connection.commit()
    newer.unlink()
    local.unlink()


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA {schema}.table_info({table})")]


SCENARIOS = (
    Scenario("hooks", _captured, _hooks, ignored=("sources",)),
    Scenario("servers", _captured, _servers, ignored=("sources",)),
    Scenario("process", _waiting, _command(*_PROCESS)),
    Scenario("process after an import", _imported, _command(*_PROCESS)),
    Scenario("import", _file, _command("import", "history.jsonl", "--client", "jsonl")),
    Scenario("forget a session", _built, _command("forget", "--session", "tidepool-api-01", "--yes")),
    Scenario("forget a text", _built, _command("forget", "--match", "refresh token", "--yes")),
    Scenario("migration", _older, _command("status")),
)
