"""The tour shows what the program really prints: every command of it is run on the sample history.

After a change that is meant, `MCP_MEMORY_WRITE_TOUR=1` with this test writes the output into the page anew.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from mcp_memory.config import Calendar, Settings
from tests.support import REPO
from tests.surfaces.client import ask, connected
from tests.surfaces.shell import SCRIPT
from tests.surfaces.terminal import drawn

TOUR = REPO / "docs" / "TOUR.md"
#: A command with what it prints; a line of dots stands for lines that are left out.
_BLOCK = re.compile(r"(?<=^```console\n)\$ mcp-memory(?P<words>[^\n]*)\n(?P<shown>.*?)(?=^```$)", re.M | re.S)
_DOTS = "…\n"
MOST_LINES, COLUMNS = 22, 110


def environment_of(home: Path) -> dict[str, str]:
    own = {
        "MCP_MEMORY_HOME": str(home),
        "MCP_MEMORY_NOW": "2026-11-16T12:00:00Z",
        "MCP_MEMORY_CALENDAR_TIMEZONE": "UTC",
        "MCP_MEMORY_PROJECT": "tidepool-api",
        "NO_COLOR": "1",
    }
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"} | own


def run(home: Path, words: str) -> str:
    code, text = drawn([str(SCRIPT), *shlex.split(words)], home.parent, environment_of(home), COLUMNS)
    assert code == 0, text
    return text.replace(str(home), "~/.local/share/mcp-memory")


def shortened(text: str) -> str:
    lines = [line.rstrip() + "\n" for line in text.splitlines()]
    return "".join(lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], _DOTS])


@pytest.fixture(scope="module")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("tour") / "memory"
    run(home, "demo --json")
    return home


@pytest.mark.slow
def test_the_tour_shows_what_the_program_prints(sample_home: Path) -> None:
    page = TOUR.read_text("utf-8")
    commands = [found["words"] for found in _BLOCK.finditer(page)]
    assert len(commands) >= 6
    printed = _BLOCK.sub(
        lambda found: f"$ mcp-memory{found['words']}\n{shortened(run(sample_home, found['words']))}", page
    )
    if os.environ.get("MCP_MEMORY_WRITE_TOUR"):
        TOUR.write_text(printed, "utf-8")
    assert printed == TOUR.read_text("utf-8")


def test_the_answer_on_top_of_the_readme_cites_what_was_said(sample_home: Path) -> None:
    """The exchange that a stranger reads first is a true one: its grip leads to the words that it quotes."""
    readme = (REPO / "README.md").read_text("utf-8")
    quoted, grip = re.search(r"“([^”]+)” \(`(grip:\w+)`\)", readme.replace("\n> ", " ")).groups()  # type: ignore[union-attr]
    assert quoted in " ".join(run(sample_home, f"grip {grip}").split())


def calls_of_readme() -> list[tuple[str, dict[str, str], list[str]]]:
    """The calls that the README shows: the tool, its arguments and the lines of the answer."""
    page = (REPO / "README.md").read_text("utf-8")
    found = []
    for block in re.finditer(r"^    > (\w+)\((?:(\w+)=)?\"([^\"]+)\"\)\n((?:    .+\n)+)", page, re.MULTILINE):
        tool, name, value, answer = block.groups()
        found.append((tool, {name or "query": value}, answer.splitlines()))
    return found


@pytest.mark.anyio
async def test_the_calls_of_the_readme_answer_as_the_tour_does_on_the_same_day(sample_home: Path) -> None:
    """A line is shortened by dots only; scores and counts of tokens are not compared."""
    now_ms = round(datetime.fromisoformat(environment_of(sample_home)["MCP_MEMORY_NOW"]).timestamp() * 1000)
    settings = Settings(home=sample_home, calendar=Calendar("UTC"), project="tidepool-api", now_ms=now_ms)
    calls = calls_of_readme()
    assert [tool for tool, _, _ in calls] == ["teleport", "toc_root"]
    async with connected(settings) as client:
        for tool, arguments, lines in calls:
            answer = " ".join((await ask(client, tool, **arguments)).split())
            for line in lines:
                shown = re.sub(r"^\s*\d\. 0\.\d\d (jump|verify|compare|browse)?|^\s*\[\d+ tokens", "", line)
                assert [part for part in shown.split("…") if " ".join(part.split()) not in answer] == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_recipes_of_the_command_page_give_something(sample_home: Path) -> None:
    page = (REPO / "docs" / "CLI.md").read_text("utf-8").partition("## JSON recipes")[2].partition("\n## ")[0]
    lines = re.findall(r"^mcp-memory .*$", page, re.MULTILINE)
    assert len(lines) >= 5
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    for line in lines:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            env=environment_of(sample_home) | {"PATH": path},
            capture_output=True,
            text=True,
            cwd=sample_home.parent,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        # The one for a cron job speaks only when something is wrong.
        assert bool(done.stdout.strip()) == ("captured events wait" not in line), line
