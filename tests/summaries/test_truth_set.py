"""How true the tree is of real sessions, where the shared data is at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PRODUCT = Path(sys.executable).with_name("mcp-memory")

pytestmark = pytest.mark.skipif(
    not (DATA / "truth").is_dir() or not PRODUCT.exists(), reason="shared/data/truth is not beside the repository"
)


@pytest.mark.slow
def test_the_tree_tells_what_a_colleague_must_know() -> None:
    truth = DATA / "truth"
    scorer = [sys.executable, str(truth / "score_truth.py"), "--product", str(PRODUCT), "--json"]
    corpus = ["--truth", str(truth / "dev.jsonl"), "--corpus", str(DATA / "transcripts"), str(DATA / "specstory")]
    # The time zone decides which day a session belongs to; the figures below were measured in UTC.
    zoned = os.environ | {"MCP_MEMORY_CALENDAR_TIMEZONE": "UTC"}
    done = subprocess.run([*scorer, *corpus], env=zoned, capture_output=True, text=True, check=True, timeout=240)
    levels = json.loads(done.stdout)["levels"]
    segment, day, week, month = (levels[name] for name in ("segment", "day", "week", "month"))
    assert segment["best_title"] >= 82
    assert segment["main_title"] >= 76
    assert segment["facts"] >= 80
    assert day["facts"] >= 65
    assert day["best_title"] >= 75
    assert week["best_title"] >= 60
    assert segment["never"] <= 5
    assert day["never"] <= 2
    assert week["never"] <= 1
    assert month["never"] <= 2
    assert all(levels[name]["noise_titles"] == 0 and levels[name]["noise_bullets"] <= 0.2 for name in levels)
