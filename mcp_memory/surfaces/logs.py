"""Where the program says what it does: warnings to stderr, and of what works on the memory a short log in its home."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from mcp_memory.capture.home import private_dir
from mcp_memory.capture.redaction import redact

NAME = "mcp-memory.log"
#: From this size on a log is put aside when the next process begins one; the one before that is gone then.
MOST_BYTES = 1_000_000


class _Clear(logging.Formatter):
    """Lines without secrets: an error may quote what it was about."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def to_stderr() -> None:
    """Warnings alone, and never to stdout, which may be the wire."""
    logging.raiseExceptions = False  # a log that cannot be written is no matter for the one who waits for an answer
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="mcp-memory: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.setLevel(logging.WARNING)


def keep(home: Path) -> None:
    """Write to `logs/` in the data directory as well. Where that cannot be, the work goes on without."""
    path = home / "logs" / NAME
    try:
        private_dir(str(path.parent))
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_name(f"{NAME}.1"))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return
    handler.setFormatter(_Clear("%(asctime)s %(process)d %(levelname)s %(message)s"))
    own = logging.getLogger("mcp_memory")
    own.addHandler(handler)
    own.setLevel(logging.INFO)
