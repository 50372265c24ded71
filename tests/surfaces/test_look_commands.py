"""Looking into the tree by the command line: what may be named how, and that everything printed can be opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.surfaces.shell import Shell

ID = re.compile(r"\b(?:grip|toc):[\w:@.+-]*\w|\bs:[\w.-]*\w")
GRIP = re.compile(r"grip:\w+")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The sample history, seen from the directory of one of its projects; the tests only read."""
    shell = Shell(tmp_path_factory.mktemp("look"))
    shell.environment |= {"MCP_MEMORY_NOW": "2026-11-16T12:00:00Z", "MCP_MEMORY_PROJECT": "tidepool-api"}
    shell.json("demo")
    return shell


@pytest.mark.slow
@pytest.mark.parametrize("home", ["tidepool-api", "elsewhere"])
def test_every_id_that_is_printed_is_understood(sample: Shell, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sample.environment, "MCP_MEMORY_PROJECT", home)
    printed: set[str] = set()
    for command in (
        [],
        ["last"],
        ["today"],
        ["open"],
        ["file", "rate_limit.py"],
        ["toc", "--depth", "segment"],
        ["node", "2026-11-13@tidepool-api"],
        ["timeline", "this year"],
        ["timeline", "2026-11-13"],
        ["search", "refresh token", "--limit", "20"],
        ["search", "refresh token", "--budget", "2000"],
        ["grip", "CR0AS5RX"],
        ["sessions"],
        ["demo"],
    ):
        done = sample.run(*command)
        assert done.returncode == 0, done.stderr
        found = set(ID.findall(done.stdout))
        assert found, command
        printed |= found
    opened = {"grip": "grip", "toc:": "node", "s:": "session"}
    kinds = {kind for kind in opened for name in printed if name.startswith(kind)}
    assert kinds == set(opened)
    for name in sorted(printed):
        command_for = next(command for kind, command in opened.items() if name.startswith(kind))
        assert sample.json(command_for, name)
        if command_for == "grip":
            assert sample.json("grip", name.removeprefix("grip:"))["grip_id"]


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("2026-11-13", "toc:day:2026-11-13"),
        ("friday", "toc:day:2026-11-13"),
        ("3 days ago", "toc:day:2026-11-13"),
        ("2026-W46", "toc:week:2026-W46"),
        ("last week", "toc:week:2026-W46"),
        ("2026-11", "toc:month:2026-11"),
        ("october", "toc:month:2026-10"),
        ("2026", "toc:year:2026"),
        ("this year", "toc:year:2026"),
        ("2026-11-11@tidepool-web", "toc:day:2026-11-11@tidepool-web"),
        (" TOC:day:2026-11-13 ", "toc:day:2026-11-13"),
    ],
)
def test_a_node_is_named_by_its_date_or_by_a_time(sample: Shell, name: str, node: str) -> None:
    assert sample.json("node", name)["node_id"] == node


def test_a_day_of_several_projects_is_shown_of_each(sample: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sample.environment, "MCP_MEMORY_PROJECT", "elsewhere")
    told = sample.run("node", "2026-10-14").stdout
    assert "toc:day:2026-10-14@tidepool-api" in told
    assert "toc:day:2026-10-14@tidepool-web" in told
    assert "grip:" in told
    assert "say which one" in sample.run("node", "2026-10-14", "--json").stdout


def test_a_time_that_is_no_period_is_left_to_the_timeline(sample: Shell) -> None:
    done = sample.run("node", "last 3 days")
    assert done.returncode == 2
    assert "`mcp-memory timeline 'last 3 days'` shows all of it" in done.stderr


def test_a_day_without_anything_leads_to_the_latest(sample: Shell) -> None:
    done = sample.run("node", "yesterday")
    assert done.returncode == 1
    assert "The latest day is toc:day:2026-11-13" in done.stderr


def test_what_is_no_name_of_a_node_is_told_how_they_look(sample: Shell) -> None:
    done = sample.run("node", "the day we broke it")
    assert done.returncode in (1, 2)
    assert "Ids look like" in done.stderr


def test_a_grip_is_shown_in_its_conversation_in_order_of_time(sample: Shell) -> None:
    text = sample.run("grip", "cr0as5rx").stdout
    assert "the exact words" in text.splitlines()[0]
    times = re.findall(r"^\[\w+ (\d\d:\d\d)\]", text, re.MULTILINE)
    assert len(times) > 3
    assert times == sorted(times)
    assert "\n> Done. Decision: token bucket of 300" in text


def test_an_event_is_opened_by_its_own_id(sample: Shell) -> None:
    event = sample.json("grip", "CR0AS5RX")["event_id"]
    assert sample.json("grip", event)["event_id"] == event
    assert sample.json("grip", event.lower())["event_id"] == event


def test_in_a_pipe_the_table_of_contents_is_indented_and_ids_come_last(sample: Shell) -> None:
    lines = sample.run("toc").stdout.splitlines()
    assert re.fullmatch(r"2026: .+  toc:year:2026", lines[0])
    assert re.fullmatch(r"  October 2026: .+  toc:month:2026-10", lines[1])
    assert re.fullmatch(r"    Week of October .+  toc:week:2026-W\d\d", lines[2])
    assert re.fullmatch(r"      Monday, October .+  toc:day:2026-10-\d\d", lines[3])


def test_a_node_shows_where_it_stands(sample: Shell) -> None:
    lines = sample.run("node", "2026-11-13").stdout.splitlines()
    assert lines[0] == "tidepool-api › 2026 › November 2026 › Week of November 9–15, 2026"
    assert lines[-1] == "up toc:week:2026-W46 · previous toc:day:2026-11-09"


def test_a_timeline_begins_with_a_chart_of_its_days(sample: Shell) -> None:
    lines = sample.run("timeline", "last week").stdout.splitlines()
    assert lines[1] == "2026-11-09 █···▆·· 2026-11-15: 2 active days, the busiest 2026-11-09"


def test_a_topic_leaves_what_speaks_of_it(sample: Shell) -> None:
    whole, part = (
        sample.run("timeline", "this year").stdout,
        sample.run("timeline", "this year", "--topic", "kiosks").stdout,
    )
    assert "about kiosks" in part.splitlines()[0]
    assert len(part) < len(whole)
    assert "Nothing is remembered about 'zebra'" in sample.run("toc", "--topic", "zebra").stdout


def test_all_versions_of_a_node_are_told_with_their_author(sample: Shell) -> None:
    assert re.search(
        r"^v1 Friday, .* by extractive  toc:day:", sample.run("node", "2026-11-13", "--history").stdout, re.M
    )


def test_a_search_goes_on_where_it_ended(sample: Shell) -> None:
    first = sample.run("search", "token", "--limit", "1").stdout
    (cursor,) = re.findall(r"--cursor (\S+) goes on in the list", first)
    second = sample.run("search", "token", "--limit", "1", "--cursor", cursor).stdout
    assert GRIP.findall(first)[0] != GRIP.findall(second)[0]


def test_hits_of_several_projects_name_them(sample: Shell) -> None:
    text = sample.run("search", "refresh token", "--project", "*").stdout
    assert " · tidepool-web · " in text
    assert " · tidepool-api · " in text


def test_with_a_budget_the_text_is_the_one_that_agents_get(sample: Shell) -> None:
    for command in (["toc"], ["node", "2026"], ["grip", "CR0AS5RX"], ["search", "token"], ["timeline", "this year"]):
        assert "tokens · next: " in sample.run(*command, "--budget", "500").stdout


def test_an_empty_memory_says_what_fills_it(shell: Shell, tmp_path: Path) -> None:
    for command in (["toc"], ["search", "anything"], ["timeline", "today"]):
        done = shell.run(*command)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
    assert "`mcp-memory import` loads old history" in shell.run("toc").stdout
