"""How the program speaks: plain text for pipes, colours and progress bars only on a terminal, and a log of its work.

Whatever takes time to import is imported when it is used: a server sets up its log before its first answer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp_memory.capture.settings import private_dir

#: What a command answers: a document, a text, or an exit code if it has printed by itself.
Answer = Mapping[str, Any] | str | int
#: Tokens from which on every answer says something.
_USEFUL = 100
#: Work that is done sooner shows nothing while it goes on.
MOMENT_SECONDS = 0.7
#: How often what is shown is brought up to date, and over how long the rate is taken.
_REFRESH_SECONDS, _RATE_SECONDS = 0.1, 60.0
#: The unit that is shown as kB, MB and so on.
BYTES = "bytes"
LOG_NAME = "mcp-memory.log"
#: From this size on a log is put aside when the next process begins one; the one before that is gone then.
LOG_BYTES = 1_000_000


def document(value: Mapping[str, Any]) -> int:
    """One JSON document. Agents read it as they read text, so that it is cleaned of the same."""
    from mcp_memory.domain.text import clean_json

    print(json.dumps(clean_json(value), ensure_ascii=True, indent=1))
    return 0


#: What a tag begins or ends with, an escape of these, and the control character that JSON may hold.
_MARKUP = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\x7f"})


def stored_document(value: Mapping[str, Any]) -> int:
    """One JSON document with texts as they were stored. On the screen tags and hidden characters are escapes."""
    print(json.dumps(value, ensure_ascii=True, indent=1).translate(_MARKUP))
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


def is_coloured() -> bool:
    """Whether escape codes are wanted. NO_COLOR stands for none at all: bold and dim are hardly less in the way."""
    from mcp_memory.config import environment

    env = environment()
    return sys.stdout.isatty() and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def bold(value: str) -> str:
    return f"\x1b[1m{value}\x1b[0m" if is_coloured() else value


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


def facts(values: Mapping[str, Any]) -> int:
    """Names and values in two columns."""
    from mcp_memory.domain.text import safe

    width = max(len(name) for name in values)
    for name, value in values.items():
        # Lists are for programs; what they hold is counted.
        value = len(value) if isinstance(value, list) else value
        parts = value.items() if isinstance(value, Mapping) else ()
        listed = [f"{_in_words(key)} {plain(item)}" for key, item in parts if not isinstance(item, list)]
        write(f"{_in_words(name):<{width}}  {safe(', '.join(listed) if listed else plain(value))}\n")
    return 0


def plain(value: object) -> str:
    """Return a value as people write it, not as Python does."""
    if value is None or value == {}:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _in_words(name: object) -> str:
    return str(name).replace("_", " ")


def agreed(question: str) -> bool | None:
    """What the user says to a question; None if there is no one at a terminal to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Meter:
    """How far some work has come. Call it with what is done and of how much, and with a new label for a new stage."""

    def __init__(self, label: str, unit: str, *, shown: bool) -> None:
        self.shown = shown
        self._stage = (label, unit)
        self._done = (0, 0)

    def __call__(self, done: int, total: int, label: str = "", unit: str = "") -> None:
        self._stage = (label or self._stage[0], unit or self._stage[1])
        self._done = (done, total)

    def show(self, over: threading.Event) -> None:
        """Show it on stderr until the work is over."""
        if over.wait(MOMENT_SECONDS):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        moving = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        counted = (*moving, BarColumn(30), TextColumn("{task.fields[told]}", markup=False))
        console = Console(stderr=True)
        with Progress(
            *moving, console=console, transient=True, auto_refresh=False, speed_estimate_period=_RATE_SECONDS
        ) as bar:
            stage = self._stage
            bar.add_task(stage[0], total=None, told="")
            [task] = bar.tasks
            while not over.wait(_REFRESH_SECONDS):
                if stage != self._stage:
                    stage = self._stage
                    bar.reset(task.id, description=stage[0])
                done, total = self._done
                bar.columns = counted if total else moving
                bar.update(task.id, completed=done, total=total or None)
                bar.update(task.id, told=pace(done, total, stage[1], task.speed), refresh=True)


def pace(done: int, total: int, unit: str, speed: float | None) -> str:
    """What is done, the rate and the time left, as far as they are known."""
    from datetime import timedelta

    from rich.filesize import decimal

    def amount(number: float) -> str:
        return decimal(round(number)) if unit == BYTES else f"{number:,.0f}"

    parts = [f"{amount(done)} of {amount(total)}" + (f" {unit}" if unit != BYTES else "")]
    if speed:
        slow = unit != BYTES and speed < 1
        parts.append(f"{amount(speed * 60 if slow else speed)}/{'min' if slow else 's'}")
        parts.append(f"{timedelta(seconds=round(max(total - done, 0) / speed))} left")
    return " · ".join(parts)


@contextmanager
def progress(label: str, *, enabled: bool, unit: str = "") -> Iterator[Meter]:
    """Something that moves on a terminal while work takes longer than a moment, nothing elsewhere.

    Once the work tells how far it has come, that is a bar with rate and time left.
    """
    meter = Meter(label, unit, shown=enabled and sys.stderr.isatty())
    if not meter.shown:
        yield meter
        return
    over = threading.Event()
    thread = threading.Thread(target=meter.show, args=(over,), name="progress", daemon=True)
    thread.start()
    try:
        yield meter
    finally:
        over.set()
        thread.join()


#: For work of which no one can tell how far it has come.
spinner = progress


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
