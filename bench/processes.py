"""Child processes of the benchmarks: a clean environment, and a client that speaks just enough MCP over stdio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import REPO

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


def environment(home: Path) -> dict[str, str]:
    """What a child needs to run, and the memory it shall use."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "SYSTEMROOT") if name in os.environ}
    return kept | {"MCP_MEMORY_HOME": str(home)}


def python(*arguments: str, home: Path, stdin: bytes = b"") -> bytes:
    """Run this interpreter to the end and give what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments], input=stdin, stdout=subprocess.PIPE, check=True, cwd=REPO, env=environment(home)
    )
    return done.stdout


class Server:
    """A server process, and a client that asks it one thing at a time. It ends with the block."""

    def __init__(self, arguments: Sequence[str], home: Path, cwd: Path = REPO) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=environment(home),
        )
        self._asked = 0

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__(None, None, None)

    def greet(self) -> None:
        self._ask("initialize", INITIALIZE)

    def ready(self) -> None:
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self._ask("tools/call", {"name": tool, "arguments": arguments})

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer; what else the server says before it is passed over."""
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        assert self.process.stdout
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                if "error" in answer or answer["result"].get("isError"):
                    raise RuntimeError(f"The server refused {params}: {line.decode()[:400]}")
                return dict(answer["result"])
        raise RuntimeError("The server ended without an answer.")

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()


def first_answers(arguments: Sequence[str], home: Path, tool: str = "") -> tuple[float, float]:
    """Seconds from the spawn to the answer to `initialize`, and to that of a tool if one is named."""
    started = time.perf_counter()
    with Server(arguments, home) as server:
        server.greet()
        greeted = time.perf_counter() - started
        if tool:
            server.ready()
            server.call(tool, project="*")
        return greeted, time.perf_counter() - started
