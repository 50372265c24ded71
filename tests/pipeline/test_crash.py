"""Killed at any point, hooks, servers and commands lose nothing and double nothing: the short form of `make crash`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import REPO

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")

#: An import that nobody takes up again after it was killed.
CARELESS = """
import sys
from pathlib import Path
from bench import crash

def work(place, kill):
    child = place.start("import", "history.jsonl", "--client", "jsonl", die_at=kill.point)
    done = crash.Done(kill.of(child), child.points)
    place.do("process", "--until-idle")
    return done

tally = crash.attack(crash.Scenario("careless", crash._file, work), Path(sys.argv[1]), 2, 0)
print(tally.enumerated, len(tally.different))
"""


def _python(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=REPO, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def test_a_kill_at_any_point_leaves_the_memory_as_if_nothing_had_happened(tmp_path: Path) -> None:
    _python("-m", "bench", "crash", "--short", "--scratch", str(tmp_path), "--json", str(tmp_path / "figures.json"))
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]["crash"]
    found = {figure["name"]: figure["value"] for figure in figures}
    assert found["kills in all"] >= 20
    assert found["memories that differ"] == 0


def test_a_memory_that_lost_something_is_told_from_a_whole_one(tmp_path: Path) -> None:
    assert _python("-c", CARELESS, str(tmp_path)) == "2 2\n"
