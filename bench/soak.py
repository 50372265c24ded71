"""Ten minutes of a busy user: hooks, questions, several servers, restarts and forgetting, while nothing may grow.

Every round is one session: its hooks fire while servers are asked, one server is started anew now and then, and the
oldest session is forgotten, so that there is always about as much to remember. What the two steady servers take is
looked at after each round; then the last third of the run is held against the one before.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from bench.measure import REPO, Figure
from bench.processes import Server, environment

SECONDS, SHORT_ROUNDS = 600, 6
#: Sessions that are remembered at a time; rounds after which the third server is started anew.
KEPT, RESTART = 3, 4
_SERVE = ("-m", "mcp_memory", "serve")
_HOOK = ("-I", "-S", str(REPO / "hooks" / "capture.py"), "--client", "claude-code")
#: Above what the third before had, by which something may be higher by chance: a thread that happens to be at work.
SLACK = {"handles": 6, "threads": 4}
RSS_GROWTH = 1.05
#: SQLite starts the log anew at 4 MB once no one reads it; twice that says that it does.
WAL_MOST = 8.0


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the steady servers take together, and the write-ahead log."""

    rss: float
    handles: int
    threads: int
    wal: float


def run(scratch: Path, *, large: bool, short: bool) -> list[Figure]:
    if not Path("/proc/self/status").exists():
        raise RuntimeError("soak reads /proc, which this system does not have.")
    home, work = scratch / "soak" / "home", scratch / "soak" / "work"
    shutil.rmtree(home.parent, ignore_errors=True)
    work.mkdir(parents=True)
    seen = _rounds(home, work, short)
    _at_the_end(home, work, len(seen))
    thirds = [seen[len(seen) * part // 3 : len(seen) * (part + 1) // 3] for part in range(3)]
    _show(thirds)
    if faults := list(grown(thirds, short)):
        raise RuntimeError("; ".join(faults))
    figures = [Figure("rounds", len(seen), unit="")]
    return figures + [
        Figure(f"{name}: last third to the one before", _top(thirds[2], name) / max(_top(thirds[1], name), 0.001))
        for name in (field.name for field in fields(Vitals))
    ]


def _rounds(home: Path, work: Path, short: bool) -> list[Vitals]:
    seen = list[Vitals]()
    begun = time.monotonic()
    with ExitStack() as stack:
        steady = [stack.enter_context(_served(home, work)) for _ in range(2)]
        restarted = stack.enter_context(ExitStack())
        while len(seen) < SHORT_ROUNDS if short else time.monotonic() - begun < SECONDS:
            number = len(seen)
            if number % RESTART == 0:
                restarted.close()
                other = restarted.enter_context(_served(home, work))
            _round(number, [*steady, other], home, work)
            seen.append(_vitals([server.process.pid for server in steady], home))
    return seen


def _served(home: Path, work: Path) -> Server:
    server = Server(_SERVE, home, work)
    server.greet()
    server.ready()
    return server


def _round(number: int, servers: list[Server], home: Path, work: Path) -> None:
    for payload in _session(number, work):
        hook = subprocess.Popen(
            [sys.executable, *_HOOK], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(home), cwd=work
        )
        assert hook.stdin
        hook.stdin.write(json.dumps(payload).encode())
        hook.stdin.close()
        for server in servers:
            server.call("teleport", query=f"harbour crane {number - 1}", project="*")
        if hook.wait():
            raise RuntimeError(f"The hook exited with {hook.returncode}.")
    if not number:
        _memory("process", "--until-idle", home=home, work=work)  # so that there is something to be asked for
    for server in servers:
        server.call("toc_root", project="*")
        server.call("browse_time", when="today", project="*")
        server.call("build_context", query="crane", project="*")
    if number >= KEPT:
        _memory("forget", "--session", f"soak-{number - KEPT}", "--yes", home=home, work=work)


def _session(number: int, work: Path) -> Iterator[dict[str, Any]]:
    common = {"session_id": f"soak-{number}", "cwd": str(work), "transcript_path": ""}
    yield {**common, "hook_event_name": "SessionStart", "source": "startup"}
    for turn in range(2):
        said = f"Please mend harbour crane {number}, its hoist {turn} stops at {turn + 3} tons."
        yield {**common, "hook_event_name": "UserPromptSubmit", "prompt": said, "prompt_id": f"{number}-{turn}"}
        output = "\n".join(f"crane {number} hoist {turn} line {line}: ok" for line in range(60))
        yield {
            **common,
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": f"check crane {number}"},
            "tool_response": {"stdout": output, "stderr": "", "interrupted": False},
            "tool_use_id": f"toolu_{number}_{turn}",
        }
        closing = f"Decision: hoist {turn} of crane {number} gets a new relay, since the old one was worn."
        yield {**common, "hook_event_name": "Stop", "last_assistant_message": closing}
    yield {**common, "hook_event_name": "SessionEnd", "reason": "other"}


def _memory(*words: str, home: Path, work: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "mcp_memory", *words, "--json"], env=environment(home), cwd=work, capture_output=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout.decode()}{done.stderr.decode()}")
    return dict(json.loads(done.stdout))


def _vitals(pids: list[int], home: Path) -> Vitals:
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    rss, threads = (
        sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith(name))
        for name in ("VmRSS:", "Threads:")
    )
    logs = [log.stat().st_size for log in home.glob("*.db-wal")]
    handles = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
    return Vitals(rss / 1024, handles, threads, sum(logs) / 1024**2)


def _at_the_end(home: Path, work: Path, rounds: int) -> None:
    """Everything that was not forgotten is there, and nothing else."""
    _memory("process", "--until-idle", home=home, work=work)
    copy = work / "export.jsonl"
    _memory("export", "--format", "jsonl", "--project", "*", "--output", str(copy), home=home, work=work)
    told = [json.loads(line) for line in copy.read_text("utf-8").splitlines()]
    sessions = {number: f"soak-{number}" for number in range(max(0, rounds - KEPT), rounds)}
    said = [event["text"] for event in told if event["role"] == "user"]
    wanted = [payload["prompt"] for number in sessions for payload in _session(number, work) if "prompt" in payload]
    if sorted(said) != sorted(wanted) or {event["session_id"] for event in told} != set(sessions.values()):
        raise RuntimeError(f"After {rounds} rounds memory holds {said} instead of {wanted}.")


def _top(third: list[Vitals], name: str) -> float:
    """The median where a value creeps, the highest where it jumps."""
    values = [float(getattr(each, name)) for each in third]
    return statistics.median(values) if name == "rss" else max(values)


def grown(thirds: list[list[Vitals]], short: bool) -> Iterator[str]:
    _, before, last = thirds
    for name, slack in SLACK.items():
        if _top(last, name) > _top(before, name) + slack:
            yield f"{name} grew from {_top(before, name):.0f} to {_top(last, name):.0f}"
    if not short and _top(last, "rss") > _top(before, "rss") * RSS_GROWTH:
        yield f"rss grew from {_top(before, 'rss'):.1f} to {_top(last, 'rss'):.1f} MB"
    if _top(last, "wal") > WAL_MOST:
        yield f"the write-ahead log has {_top(last, 'wal'):.1f} MB"


def _show(thirds: list[list[Vitals]]) -> None:
    print(f"{'third':<6} {'rounds':>7} {'RSS MB':>8} {'handles':>8} {'threads':>8} {'WAL MB':>8}")
    for number, third in enumerate(thirds, 1):
        values = [_top(third, field.name) for field in fields(Vitals)]
        print(f"{number:<6} {len(third):>7} {values[0]:>8.1f} {values[1]:>8.0f} {values[2]:>8.0f} {values[3]:>8.2f}")
    print(f"at the end: {astuple(thirds[2][-1])}", flush=True)
