"""How the program speaks: plain text for pipes, colours and progress bars only on a terminal, and a log of its work.

Whatever takes time to import is imported when it is used: a server sets up its log before its first answer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_memory.capture.settings import private_dir

if TYPE_CHECKING:
    from mcp_memory.domain.nodes import Node
    from mcp_memory.domain.toc import Level, Scope
    from mcp_memory.store.port import ReadStore

#: What a command answers: a document, a text, or an exit code if it has printed by itself.
Answer = Mapping[str, Any] | str | int
#: Tokens from which on every answer says something.
_USEFUL = 100
#: Work that is done sooner shows nothing while it goes on.
MOMENT_SECONDS = 0.7
LOG_NAME = "mcp-memory.log"
#: From this size on a log is put aside when the next process begins one; the one before that is gone then.
LOG_BYTES = 1_000_000


def document(value: Mapping[str, Any]) -> int:
    """One JSON document. Agents read it as they read text, so that it is cleaned of the same."""
    from mcp_memory.domain.text import clean_json

    print(json.dumps(clean_json(value), ensure_ascii=True, indent=1))
    return 0


def result(answer: Answer) -> int:
    """Print what a command answers: a document, a text, or nothing more after an exit code."""
    if isinstance(answer, int):
        return answer
    return text(answer) if isinstance(answer, str) else document(answer)


def fail(message: str, *, as_json: bool) -> None:
    from mcp_memory.domain.text import clean

    if as_json:
        print(json.dumps({"error": clean(message)}))
    print(f"mcp-memory: {clean(message)}", file=sys.stderr)


def too_small(budget: int) -> None:
    """The answer is not what it could be, or says nothing at all; its reader should know why."""
    print(
        f"mcp-memory: --budget {budget} is too small for a useful answer; give {max(_USEFUL, 2 * budget)} or more.",
        file=sys.stderr,
    )


def bold(value: str) -> str:
    return f"\x1b[1m{value}\x1b[0m" if sys.stdout.isatty() else value


def text(value: str) -> int:
    from mcp_memory.domain.text import clean

    write(clean(value) + "\n")
    return 0


def write(value: str) -> None:
    """Print, whatever the console can encode."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(value.encode(encoding, "replace").decode(encoding))


def front_matter(values: Mapping[str, Any]) -> list[str]:
    """What is known about a Markdown file, before its text. JSON is YAML: each value is quoted where it needs to be."""
    return ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()), "---", ""]


async def outline(reader: ReadStore, project: str | None, deepest: Level, most: int) -> list[Node]:
    """The tree down to a level, at most so many nodes of each: parents before their children, in time order."""
    from mcp_memory.domain.nodes import NodeQuery
    from mcp_memory.domain.toc import Level

    nodes = [
        node
        for level in Level
        if level <= deepest
        for node in await reader.nodes(NodeQuery.latest(project, level, most))
    ]
    return sorted(nodes, key=lambda node: (node.project, node.ref.day.toordinal(), node.level, node.start_ms))


def tree(nodes: Sequence[Node], scope: Scope, note: str = "") -> int:
    """The table of contents, indented by level; `note` is what to say if there is none."""
    from mcp_memory.domain.nodes import foremost
    from mcp_memory.domain.text import safe
    from mcp_memory.domain.toc import Level

    if not nodes:
        hint = note or " `mcp-memory import` loads old history; hooks capture the new."
        return text(f"Nothing is summarized yet.{hint}")
    for node in nodes:
        indent = "  " * int(node.level)
        write(f"{indent}{bold(scope.id_of(node.node_id, node.project))} {safe(node.title)}\n")
        if node.level is Level.DAY:
            for bullet in foremost(node.bullets, 3):
                write(f"{indent}  - {safe(bullet.shown, 140)}\n")
    return 0


def facts(values: Mapping[str, Any]) -> int:
    """Names and values in two columns."""
    from mcp_memory.domain.text import safe

    width = max(len(name) for name in values)
    for name, value in values.items():
        # Lists are for programs; what they hold is counted.
        value = len(value) if isinstance(value, list) else value
        parts = value.items() if isinstance(value, Mapping) else ()
        shown = ", ".join(f"{key} {item}" for key, item in parts if not isinstance(item, list)) if parts else value
        write(f"{name.replace('_', ' '):<{width}}  {'–' if shown in (None, {}) else safe(str(shown))}\n")
    return 0


def agreed(question: str) -> bool | None:
    """What the user says to a question; None if there is no one at a terminal to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def progress(label: str, *, enabled: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with rate and time left on a terminal, nothing elsewhere."""
    if not enabled or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def spinner(label: str, *, enabled: bool) -> Iterator[None]:
    """Something that moves on a terminal while work takes longer than a moment."""
    if not enabled or not sys.stderr.isatty():
        yield
        return
    over = threading.Event()

    def spin() -> None:
        if not over.wait(MOMENT_SECONDS):
            from rich.console import Console

            with Console(stderr=True).status(label):
                over.wait()

    thread = threading.Thread(target=spin, name="spinner", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _RedactedLines(logging.Formatter):
    """Lines without secrets: an error may quote what it was about."""

    def format(self, record: logging.LogRecord) -> str:
        from mcp_memory.capture.redaction import redact

        return redact(super().format(record))


def warn_on_stderr() -> None:
    """Warnings alone, and never to stdout, which may be the wire."""
    logging.raiseExceptions = False  # a log that cannot be written is no matter for the one who waits for an answer
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="mcp-memory: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)


def keep_log(home: Path) -> None:
    """Write to `logs/` in the data directory as well. Where that cannot be, the work goes on without."""
    path = home / "logs" / LOG_NAME
    try:
        private_dir(str(path.parent))
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.replace(path.with_name(f"{LOG_NAME}.1"))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return
    handler.setFormatter(_RedactedLines("%(asctime)s %(process)d %(levelname)s %(message)s"))
    own = logging.getLogger("mcp_memory")
    own.addHandler(handler)
    own.setLevel(logging.INFO)
