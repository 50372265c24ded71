"""How answers look: in colour and within its width on a terminal, plain in a pipe, and harmless whatever was said."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from rich.cells import cell_len

from mcp_memory.domain.inventory import DayActivity
from mcp_memory.surfaces.terminal import activity_line, ago, chart, lasted
from tests.support import conversation, said
from tests.surfaces.shell import SCRIPT, Shell, here
from tests.surfaces.terminal import drawn

CODE = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = [
    said(
        "Never trust [bold]kestrels[/] or [/] [link=file:///etc]a link[/link].", "2026-03-03T10:00:00Z", session="evil"
    ),
    said(
        "The kestrels are \x1b[31mred\x1b[0m\x07, \x1b]0;owned\x07 and \u202eturned\u202c.",
        "2026-03-03T10:01:00Z",
        role="assistant",
        session="evil",
    ),
    said(f"今日は{'潮汐表を直しました。' * 12}", "2026-03-04T10:00:00Z", session="wide"),
    said(f"Kestrels: {'Donaudampfschifffahrt' * 9}", "2026-03-05T10:00:00Z", session="long"),
]
COMMANDS = [
    [],
    ["last"],
    ["today"],
    ["open"],
    ["file", "session.py"],
    ["toc", "--depth", "segment"],
    ["node", "2026-03-03"],
    ["timeline", "last week"],
    ["search", "kestrels"],
    ["sessions"],
    ["status", "--verbose"],
    ["projects"],
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    shell = Shell(tmp_path_factory.mktemp("hostile"))
    shell.environment["MCP_MEMORY_PROJECT"] = "alpha"
    path = shell.cwd / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*conversation(), *HOSTILE]))
    shell.json("import", str(path), "--client", "jsonl")
    shell.json("process")
    return shell


def on_terminal(shell: Shell, *args: str, columns: int = 100, environment: Mapping[str, str] | None = None) -> str:
    done = here(args, shell.environment | dict(environment or {}), shell.cwd, columns)
    assert done.returncode == 0, done.stderr
    return done.stdout


def text_of(command: list[str]) -> str:
    return " ".join(command) or "bare"


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("command", COMMANDS, ids=text_of)
def test_no_line_is_wider_than_the_terminal(hostile: Shell, command: list[str], columns: int) -> None:
    text = CODE.sub("", on_terminal(hostile, *command, columns=columns))
    assert text.strip()
    wide = [line for line in text.splitlines() if cell_len(line) > columns]
    # Names and values stand in two columns that are never broken.
    assert wide == [] or command[0] == "status"


@pytest.mark.parametrize("command", COMMANDS, ids=text_of)
def test_what_was_said_is_shown_as_it_was_written_and_nothing_in_it_is_obeyed(
    hostile: Shell, command: list[str]
) -> None:
    for text in (on_terminal(hostile, *command), hostile.run(*command).stdout):
        assert not re.search(r"[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f\u202a-\u202e]", text)
        assert not re.search(r"\x1b(?!\[[0-9;]*m)", text)
        assert "\x1b[31mred" not in text
        if command[:1] == ["search"]:
            words = CODE.sub("", text)
            assert "[bold]kestrels[/] or [/] [link=file:///etc]a link[/link]" in " ".join(words.split())


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "TERM=dumb"])
def test_without_colours_there_are_no_codes_at_all(hostile: Shell, environment: dict[str, str]) -> None:
    assert "\x1b" in on_terminal(hostile, "toc")
    assert "\x1b" not in on_terminal(hostile, "toc", environment=environment)
    assert "├" in on_terminal(hostile, "toc", "--depth", "day", environment=environment)


@pytest.mark.parametrize("command", COMMANDS, ids=text_of)
def test_a_pipe_gets_the_same_plain_lines_whatever_the_terminal_is(hostile: Shell, command: list[str]) -> None:
    narrow = hostile.run(*command, COLUMNS="60", FORCE_COLOR="1")
    wide = hostile.run(*command, COLUMNS="200", TERM="xterm-256color")
    assert narrow.returncode == 0, narrow.stderr
    assert narrow.stdout == wide.stdout
    assert "\x1b" not in narrow.stdout
    assert narrow.stderr == ""


def test_a_real_terminal_gets_what_the_others_here_show(hostile: Shell) -> None:
    code, text = drawn([str(SCRIPT), "toc"], hostile.cwd, hostile.environment, 100)
    assert code == 0
    assert text == on_terminal(hostile, "toc")


def test_search_marks_the_words_that_were_found(hostile: Shell) -> None:
    assert re.search(r"\x1b\[1;33m[Kk]estrels\x1b\[0m", on_terminal(hostile, "search", "kestrel"))


def test_a_console_that_knows_few_letters_gets_what_it_can_show(hostile: Shell) -> None:
    done = hostile.run("toc", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "March 2026" in done.stdout


def test_a_reader_that_has_gone_is_no_error(hostile: Shell, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone, (tmp_path / "errors").open("w") as errors:
        done = subprocess.run([SCRIPT, "toc"], cwd=hostile.cwd, env=hostile.environment, stdout=gone, stderr=errors)
    assert done.returncode == 0
    assert (tmp_path / "errors").read_text() == ""


def day(number: int, weight: int) -> DayActivity:
    return DayActivity(date(2026, 3, number), 1, weight)


def test_the_busiest_day_has_the_highest_bar_and_a_day_without_anything_a_dot() -> None:
    days = [day(1, 1), day(3, 100), day(4, 50)]
    assert chart(days, date(2026, 3, 1), date(2026, 3, 5)) == "▁·█▄·"


def test_a_long_time_has_no_more_bars_than_fit() -> None:
    drawn_bars = chart([day(30, 1), day(31, 1)], date(2024, 1, 1), date(2026, 3, 31))
    assert len(drawn_bars) <= 60
    assert drawn_bars.strip("·") == "█"


def test_what_the_chart_shows_is_said_beside_it() -> None:
    line = activity_line([day(1, 5), day(3, 9)], date(2026, 3, 1), date(2026, 3, 4))
    assert line == "2026-03-01 ▅·█· 2026-03-04: 2 active days, the busiest 2026-03-03"
    assert activity_line([], date(2026, 3, 1), date(2026, 3, 4)) == ""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=3), "3 hours ago"),
        (timedelta(hours=20), "yesterday"),
        (timedelta(days=5), "5 days ago"),
        (timedelta(days=40), "on 2026-01-29"),
        (-timedelta(days=2), "on 2026-03-12"),
    ],
)
def test_a_moment_is_told_by_how_long_ago_it_was(before: timedelta, told: str) -> None:
    now = datetime(2026, 3, 10, 12, tzinfo=UTC)
    assert ago(round((now - before).timestamp() * 1000), now) == told


@pytest.mark.parametrize(
    ("minutes", "told"), [(0.2, "under a minute"), (14, "14 min"), (89, "1 h 29 min"), (3_000, "2 d")]
)
def test_how_long_something_took_is_told_in_short(minutes: float, told: str) -> None:
    assert lasted(0, round(minutes * 60_000)) == told
