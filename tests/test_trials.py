"""The short forms of `make crash` and `make soak`, and whether both would notice a fault."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak import Vitals, grown
from tests.support import REPO

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs fork")]

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


def _figures(trial: str, scratch: Path) -> dict[str, float]:
    target = scratch / "figures.json"
    _python("-m", "bench", trial, "--short", "--scratch", str(scratch), "--json", str(target))
    return {figure["name"]: figure["value"] for figure in json.loads(target.read_text())["figures"][trial]}


def test_a_kill_at_any_point_leaves_the_memory_as_if_nothing_had_happened(tmp_path: Path) -> None:
    found = _figures("crash", tmp_path)
    assert found["kills in all"] >= 14
    assert found["memories that differ"] == 0


def test_a_memory_that_lost_something_is_told_from_a_whole_one(tmp_path: Path) -> None:
    assert _python("-c", CARELESS, str(tmp_path)) == "2 2\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_servers_that_work_on_and_on_take_no_more_than_before(tmp_path: Path) -> None:
    assert _figures("soak", tmp_path)["rounds"] == 6


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (Vitals(200, 30, 9, 2), []),
        (Vitals(230, 30, 9, 2), ["rss grew from 200.0 to 230.0 MB"]),
        (Vitals(200, 90, 9, 2), ["handles grew from 30 to 90"]),
        (Vitals(200, 30, 40, 2), ["threads grew from 9 to 40"]),
        (Vitals(200, 30, 9, 20), ["the write-ahead log has 20.0 MB"]),
    ],
)
def test_what_grows_is_told(last: Vitals, told: list[str]) -> None:
    before = Vitals(200, 30, 9, 2)
    assert list(grown([[before], [before], [last]], short=False)) == told
