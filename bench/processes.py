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


def first_answers(arguments: Sequence[str], home: Path, tool: str = "") -> tuple[float, float]:
    """Seconds from the spawn to the answer to `initialize`, and to that of a tool if one is named."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=REPO,
        env=environment(home),
    )
    with process:
        _send(process, {"id": 1, "method": "initialize", "params": INITIALIZE})
        _await(process, 1)
        greeted = time.perf_counter() - started
        if tool:
            _send(process, {"method": "notifications/initialized"})
            _send(process, {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {"project": "*"}}})
            _await(process, 2)
        return greeted, time.perf_counter() - started


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def _await(process: subprocess.Popen[bytes], number: int) -> None:
    """Read up to the answer of this number; what else the server says is passed over."""
    assert process.stdout
    for line in process.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            if "error" in answer or answer["result"].get("isError"):
                raise RuntimeError(f"The server refused: {line.decode()[:400]}")
            return
    raise RuntimeError("The server ended without an answer.")
