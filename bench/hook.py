"""What capturing one tool call costs the agent: the hook's process, against one that only imports its libraries."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import anyio

from bench.histories import opened
from bench.measure import REPO, Figure, against, interleaved, timed
from bench.processes import python

ROUNDS = 40
_CAPTURE = ("-I", "-S", str(REPO / "hooks" / "capture.py"), "--client", "claude-code")
_IMPORTS = "import json, sqlite3"


def run(scratch: Path, *, large: bool) -> list[Figure]:
    home, project = scratch / "hook", scratch / "project"
    (project / ".git").mkdir(parents=True)
    anyio.run(_create, home)
    small, big = _payload(project, _output(1_200)), _payload(project, _output(30_000))
    taken = interleaved(
        ROUNDS,
        {
            "imports": lambda: timed(lambda: python("-I", "-c", _IMPORTS, home=home)),
            "imports -S": lambda: timed(lambda: python("-I", "-S", "-c", _IMPORTS, home=home)),
            "small": lambda: timed(lambda: python(*_CAPTURE, home=home, stdin=small)),
            "big": lambda: timed(lambda: python(*_CAPTURE, home=home, stdin=big)),
        },
    )
    return [
        against("process with a 1.2 KB tool output", taken["small"], taken["imports"], 1.5),
        against("process with a 30 KB tool output", taken["big"], taken["imports"], 1.5),
        against("the same, baseline without site packages too", taken["small"], taken["imports -S"]),
    ]


async def _create(home: Path) -> None:
    async with opened(home):
        pass


def _payload(project: Path, output: str) -> bytes:
    session = str(uuid.uuid5(uuid.NAMESPACE_URL, "bench"))
    return json.dumps(
        {
            "session_id": session,
            "transcript_path": str(project / f"{session}.jsonl"),
            "cwd": str(project),
            "permission_mode": "default",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "pytest -q tests/test_bookings.py", "description": "Run the booking tests"},
            "tool_response": {"stdout": output, "stderr": "", "interrupted": False, "isImage": False},
            "tool_use_id": "toolu_01BenchBenchBenchBench01",
            "duration_ms": 812,
        }
    ).encode()


def _output(size: int) -> str:
    """What a test run prints, repeated to the size wanted."""
    lines = (
        f"tests/test_bookings.py::test_booking_{number:04d} PASSED  [{number % 100:3d}%] in {number % 7}.{number % 9} s"
        for number in range(size // 50)
    )
    return "\n".join(lines)[:size]
