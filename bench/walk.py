"""`python -m bench.walk COMMAND …` runs a command and lists the modules it walks through, as they are first entered.

It runs twice, and the second time counts, so that what is only loaded once does not. Without a command it shows a
search of the sample history. It reads the memory that `MCP_MEMORY_HOME` names, or a temporary one of the sample.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
from types import FrameType

from bench.measure import REPO
from mcp_memory.surfaces import cli

PACKAGE = str(REPO / "mcp_memory") + os.sep


class Walk:
    """Counts the calls of our functions by module, in every thread, and how often the work passes to another module."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.changes = 0
        self._last: dict[int, str] = {}

    def note(self, frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGE):
            room, thread = path.removeprefix(PACKAGE), threading.get_ident()
            self.calls[room] = self.calls.get(room, 0) + 1
            self.changes += self._last.get(thread) != room
            self._last[thread] = room

    def __enter__(self) -> Walk:
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def run(words: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        cli.main(words)


def main() -> None:
    words = sys.argv[1:] or ["search", "refresh token", "--project", "*"]
    with tempfile.TemporaryDirectory(prefix="mcp-memory-walk-") as folder:
        if "MCP_MEMORY_HOME" not in os.environ:
            os.environ["MCP_MEMORY_HOME"] = folder
            run(["demo"])
        run(words)
        with Walk() as walk:
            run(words)
    for room, calls in walk.calls.items():
        print(f"{calls:8,}  {room}")
    print(f"{len(walk.calls)} modules, {walk.changes:,} changes of module: mcp-memory {' '.join(words)}")


if __name__ == "__main__":
    main()
