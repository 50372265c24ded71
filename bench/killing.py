"""Child processes that die at a chosen point of their work, and what a memory holds afterwards.

A child is forked, so that it starts at once, and runs a command or the hook as a user's machine would. Points are
counted in the child alone: every statement that writes, and every change of a file. The shipped code knows nothing
of it.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import mmap
import os
import pkgutil
import re
import runpy
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_memory
from bench.measure import REPO
from mcp_memory.models import tokens
from mcp_memory.surfaces import cli

#: The hook's command; all others are those of the command line.
HOOK = "hook"
NEVER = 1 << 40
_READS = re.compile(r"\s*(SELECT|PRAGMA|EXPLAIN|WITH|--)", re.IGNORECASE)
_FILES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.link", "os.truncate"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
#: The ends to which the children's input is written. A further child closes them, or no one would see that input end.
_inputs: set[int] = set()
#: Fields of an event that tell where it comes from, not what it is.
_SOURCES = frozenset({"source_id", "source_ids", "metadata"})


@dataclass
class Child:
    """A process under way. `points` grows while it works, and stands still when it is idle or dead."""

    pid: int
    _counter: mmap.mmap
    stdin: int
    started: float = field(default_factory=time.monotonic)
    ended: int | None = None

    @property
    def points(self) -> int:
        return int.from_bytes(self._counter[:8], "little")

    def running(self) -> bool:
        if self.ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.ended = os.waitstatus_to_exitcode(status) if pid else None
        return self.ended is None

    def wait(self) -> int:
        """The exit code; a negative one is a signal. Its input ends, which is what ends a server."""
        self.close()
        if self.ended is None:
            self.ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.ended

    def kill(self) -> None:
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        if self.stdin >= 0:
            _inputs.remove(self.stdin)
            os.close(self.stdin)
            self.stdin = -1

    def until_idle(self, quiet: float = 0.25) -> None:
        """Wait until it has ended or no point was passed for a while."""
        last, since = self.points, time.monotonic()
        while self.running() and time.monotonic() - since < quiet:
            time.sleep(0.01)
            if self.points != last:
                last, since = self.points, time.monotonic()


def preload() -> None:
    """Import whatever a command may need, once for all children."""
    for module in pkgutil.walk_packages(mcp_memory.__path__, "mcp_memory."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("anyio._backends._asyncio")
    tokens.count("ready")


def start(
    words: tuple[str, ...],
    env: Mapping[str, str],
    cwd: Path,
    *,
    stdin: bytes = b"",
    die_at: int = NEVER,
    now_ms: int = 0,
) -> Child:
    """Run a command in a child of its own. Input that is given is written at once; the pipe stays open."""
    counter = mmap.mmap(-1, 8)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        for other in (write, *_inputs):
            os.close(other)
        _become(words, env, cwd, read, _Points(counter, die_at), now_ms)
    os.close(read)
    _inputs.add(write)
    child = Child(pid, counter, write)
    with contextlib.suppress(BrokenPipeError):  # it may be dead already
        os.write(write, stdin)
    return child


class _Points:
    """Counts what the process does to the disk, and ends it at the point that is set."""

    def __init__(self, counter: mmap.mmap, die_at: int) -> None:
        self._counter, self._die_at, self._passed = counter, die_at, 0

    def watch(self) -> None:
        connect = sqlite3.connect

        def watched(*args: Any, **more: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **more)
            connection.set_trace_callback(lambda sql: None if _READS.match(sql) else self._pass())
            return connection

        setattr(sqlite3, "connect", watched)  # noqa: B010 - its type has many forms
        sys.addaudithook(self._audit)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _FILES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITING):
            self._pass()

    def _pass(self) -> None:
        self._passed += 1
        self._counter[:8] = self._passed.to_bytes(8, "little")
        if self._passed == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


def _become(
    words: tuple[str, ...], env: Mapping[str, str], cwd: Path, stdin: int, points: _Points, now_ms: int
) -> None:
    """Be the command, to the end of this process."""
    code = 70
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for target, source in ((0, stdin), (1, quiet), (2, quiet)):
            os.dup2(source, target)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - they live to the end
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        points.watch()
        if words[0] == HOOK:
            time.time_ns = lambda: now_ms * 1_000_000
            sys.argv = ["capture.py", *words[1:]]
            runpy.run_path(str(REPO / "hooks" / "capture.py"), run_name="__main__")
        code = cli.main(list(words))
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def in_child(work: Callable[[], Any]) -> Any:
    """What a function gives, run in a fork: whatever threads it starts end with it."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        code = 70
        try:
            os.close(read)
            with os.fdopen(write, "w") as out:
                json.dump(work(), out)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as source:
        text = source.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise RuntimeError("A memory could not be read.")
    return json.loads(text)


def state(home: Path, env: Mapping[str, str], cwd: Path, queries: tuple[str, ...]) -> dict[str, Any]:
    """All that a user can see of a memory, and whether its file is whole."""
    return dict(in_child(lambda: dict(_state(home, env, cwd, queries))))


def _state(home: Path, env: Mapping[str, str], cwd: Path, queries: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    events = [json.loads(line) for line in _said("export", "--format", "jsonl", "--project", "*").splitlines()]
    for name, told_of_it in (("sources", True), ("events", False)):
        kept = [{key: value for key, value in event.items() if (key in _SOURCES) is told_of_it} for event in events]
        yield name, sorted(json.dumps(event, sort_keys=True) for event in kept)
    with tempfile.TemporaryDirectory() as folder:
        _said("export", "--format", "markdown", "--project", "*", "--output", folder)
        pages = sorted(page for page in Path(folder).rglob("*") if page.is_file())
        yield "tree", [(str(page.relative_to(folder)), page.read_text("utf-8")) for page in pages]
    for query in queries:
        hits = json.loads(_said("search", query, "--project", "*", "--json"))["hits"]
        yield f"search {query}", [(hit["id"], hit["snippet"]) for hit in hits]
    status = json.loads(_said("status", "--json"))
    yield "status", {name: status[name] for name in ("events", "sessions", "segments", "nodes", "inbox", "spool")}
    yield "left behind", sorted(path.name for path in home.rglob("*") if path.suffix in (".tmp", ".partial"))
    with contextlib.closing(sqlite3.connect(home / "inbox.db")) as connection:
        yield "inbox", connection.execute("PRAGMA integrity_check").fetchall()
        yield "texts", connection.execute("SELECT root, text FROM brief ORDER BY root").fetchall()
    with contextlib.closing(sqlite3.connect(home / "memory.db")) as connection:
        yield "file", connection.execute("PRAGMA integrity_check").fetchall()
        yield "references", connection.execute("PRAGMA foreign_key_check").fetchall()
        connection.execute("INSERT INTO search (search) VALUES ('integrity-check')")


def _said(*words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = cli.main(list(words))
    if code:
        raise RuntimeError(f"{' '.join(words)} failed.")
    return out.getvalue()
