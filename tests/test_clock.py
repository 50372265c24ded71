"""The option `--now`: at which time tests run, and the programs that they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support import REPO

TESTS = """
import os, subprocess, sys, time
from datetime import datetime

def told(**own):
    code = "import os; print(os.environ['MCP_MEMORY_NOW'])"
    environment = {"PATH": os.environ["PATH"], "TZ": "Europe/Berlin", **own}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stdout.strip()

def test_the_clock_ticks_on_from_the_moment():
    first, then = datetime.now(), time.monotonic()
    assert first.isoformat().startswith("2027-03-28T01:30")
    assert time.time_ns() // 10**9 - 1_806_193_800 < 60
    while datetime.now() == first:
        assert time.monotonic() - then < 60

def test_a_program_is_told_the_time_unless_the_test_tells_another():
    assert told().startswith("2027-03-28T01:30")
    assert told().endswith("+01:00")
    assert told(MCP_MEMORY_NOW="2026-01-01T00:00:00Z") == "2026-01-01T00:00:00Z"
"""


def run(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    tests = place / "test_it.py"
    tests.write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "tests.clock", str(tests), *options]
    environment = {"PATH": "/usr/bin:/bin", "TZ": "Europe/Berlin", "PYTHONPATH": str(REPO)}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


def test_now_sets_the_clock_of_tests_and_of_the_programs_they_start(tmp_path: Path) -> None:
    done = run(tmp_path, "--now", "2027-03-28T01:30")
    assert done.returncode == 0, done.stdout


def test_workers_run_at_the_same_time(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "1", "--now", "2027-03-28T01:30")
    assert done.returncode == 0, done.stdout


def test_what_is_no_time_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--now", "noon")
    assert done.returncode == 4
    assert "--now noon is not a time such as 2027-01-01T00:03Z" in done.stderr
