"""`pick` as a user meets it: on a terminal, key by key."""

from __future__ import annotations

import base64
import json
import re
from contextlib import AbstractContextManager
from pathlib import Path

import anyio
import pytest

from mcp_memory.surfaces.pick_command import Picker, citation, marked
from tests.support import conversation, learn, memory, said
from tests.surfaces.shell import SCRIPT, Shell
from tests.surfaces.terminal import Terminal, terminal

DOWN, UP, ENTER, ESCAPE = "\x1b[B", "\x1b[A", "\r", "\x1b"
CTRL_C, CTRL_N, CTRL_P, CTRL_Y = "\x03", "\x0e", "\x10", "\x19"
LINES = [
    said("The kiln fires at 1,060 degrees.", "2026-03-02T10:00:00Z"),
    said("Noted: the kiln is at cone six now.", "2026-03-02T10:01:00Z", role="assistant"),
    said("Paint the kiln shed green.", "2026-03-03T10:00:00Z", session="s2"),
    said("The glaze is celadon.", "2026-03-03T10:05:00Z", session="s2"),
]


@pytest.fixture(scope="module")
def pottery(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    shell = Shell(tmp_path_factory.mktemp("pick"))
    path = shell.cwd / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    shell.json("import", str(path), "--client", "jsonl")
    shell.json("process")
    return shell


def picking(shell: Shell, out: Path, *args: str) -> AbstractContextManager[Terminal]:
    return terminal([str(SCRIPT), "pick", *args], shell.cwd, shell.environment, out)


def test_what_is_typed_is_searched_and_enter_prints_the_citation(pottery: Shell, tmp_path: Path) -> None:
    with picking(pottery, tmp_path / "out") as screen:
        screen.shows("Type what you are looking for.")
        screen.type("celadon")
        screen.shows("1 of 2")
        # The words before it in the conversation stand beside it.
        screen.shows("│user 2026-03-03 10:00")
        screen.type(ENTER)
        assert screen.ends() == 0
    words, source = (tmp_path / "out").read_text().splitlines()
    assert words == "“The glaze is celadon.”"
    assert re.fullmatch(r"— user, 2026-03-03 10:05, session s2, project alpha, grip:1772532300000:[0-9A-Z]{26}", source)
    opened = pottery.json("grip", source.rpartition(" ")[2])
    assert opened["excerpt"] == "The glaze is celadon."


@pytest.mark.parametrize(("down", "up"), [(DOWN, UP), (CTRL_N, CTRL_P)], ids=["arrows", "letters"])
def test_another_hit_is_chosen_by_moving(pottery: Shell, tmp_path: Path, down: str, up: str) -> None:
    hits = pottery.json("search", "kiln", "--kind", "event")["hits"]
    assert len(hits) > 1
    with picking(pottery, tmp_path / "out", "kiln", "--json") as screen:
        screen.shows(f"1 of {len(hits)}")
        screen.type(down)
        screen.shows("2 of ")
        screen.type(up)
        screen.shows("1 of ")
        screen.type(down)
        screen.shows("2 of ")
        screen.type(ENTER)
        assert screen.ends() == 0
    assert json.loads((tmp_path / "out").read_text()) == hits[1]


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C], ids=["escape", "ctrl-c"])
def test_leaving_prints_nothing_and_ends_with_1(pottery: Shell, tmp_path: Path, key: str) -> None:
    with picking(pottery, tmp_path / "out", "kiln") as screen:
        screen.shows("1 of ")
        screen.type(key)
        assert screen.ends() == 1
    assert (tmp_path / "out").read_text() == ""


def test_enter_takes_nothing_where_nothing_was_found(pottery: Shell, tmp_path: Path) -> None:
    with picking(pottery, tmp_path / "out", "zeppelin") as screen:
        screen.shows("Nothing was found")
        screen.type(f"{ENTER}{ESCAPE}")
        assert screen.ends() == 1
    assert (tmp_path / "out").read_text() == ""


def test_enter_waits_for_what_is_typed_and_takes_nothing_that_was_found_before(pottery: Shell, tmp_path: Path) -> None:
    with picking(pottery, tmp_path / "out", "kiln") as screen:
        screen.shows("1 of ")
        screen.type(f"\x15celadon{ENTER}")
        assert screen.ends() == 0
    assert (tmp_path / "out").read_text().startswith("“The glaze is celadon.”")
    with picking(pottery, tmp_path / "out", "kiln") as screen:
        screen.shows("1 of ")
        screen.type(f"\x15zeppelin{ENTER}")
        screen.shows("Nothing was found")
        screen.type(ESCAPE)
        assert screen.ends() == 1
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize(("args", "key"), [(["--copy"], ENTER), ([], CTRL_Y)], ids=["option", "key"])
def test_the_citation_is_copied_by_the_terminal(pottery: Shell, tmp_path: Path, args: list[str], key: str) -> None:
    with picking(pottery, tmp_path / "out", "celadon", *args) as screen:
        screen.shows("1 of 2")
        screen.type(key)
        screen.shows("Copied the words of grip:")
        assert screen.ends() == 0
    [copied] = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", screen.raw)
    assert base64.b64decode(copied).decode().startswith("“The glaze is celadon.”\n— user, 2026-03-03 10:05, session s2")
    assert (tmp_path / "out").read_text() == ""


def test_without_a_terminal_search_is_named(pottery: Shell) -> None:
    done = pottery.run("pick", "kiln")
    assert (done.returncode, done.stdout) == (2, "")
    assert "mcp-memory search" in done.stderr
    assert "mcp-memory search" in json.loads(pottery.run("pick", "--json").stdout)["error"]


def test_a_project_that_does_not_exist_is_told_before_anything_is_drawn(pottery: Shell, tmp_path: Path) -> None:
    with picking(pottery, tmp_path / "out", "--project", "omega") as screen:
        screen.shows("There is no project 'omega' in memory.")
        assert screen.ends() == 1


def test_control_characters_of_what_was_said_do_not_reach_the_terminal(shell: Shell, tmp_path: Path) -> None:
    path = shell.cwd / "history.jsonl"
    path.write_text(
        json.dumps(said("Beware \x1b]0;owned\x07 of \x1b[2J celadon \x9b5n.", "2026-03-02T10:00:00Z")) + "\n"
    )
    shell.json("import", str(path), "--client", "jsonl")
    with picking(shell, tmp_path / "out", "celadon") as screen:
        screen.shows("1 of 1")
        screen.shows("user 2026-03-02 10:00")
        screen.type(ENTER)
        screen.ends()
    assert b"\x1b]0;" not in screen.raw
    assert not set((tmp_path / "out").read_text()) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.anyio
async def test_what_was_found_for_words_that_have_changed_meanwhile_is_dropped(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        await learn(app, LINES)
        picker = Picker(app.answers, None, "kiln")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(picker.find, "kiln")
            await anyio.lowlevel.checkpoint()
            picker.type("celadon")
        assert picker.chosen is None
        await picker.find("celadon")
        assert picker.chosen
        assert picker.chosen.passage.text == "The glaze is celadon."
        assert "session s2" in citation(picker.chosen, app.answers)


@pytest.mark.anyio
async def test_a_long_message_is_shown_where_it_matters(tmp_path: Path) -> None:
    async with memory(tmp_path) as app:
        long = "\n".join(["Clay is dug by the river and left to dry."] * 300 + ["The celadon needs ash."])
        await learn(app, [*conversation(), said(long, "2026-03-05T10:00:00Z", session="s9")])
        picker = Picker(app.answers, None, "celadon ash")
        shown = anyio.Event()
        picker.redraw = lambda: shown.set() if picker.preview(60)[0] else None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(picker.work)
            with anyio.fail_after(30):
                await shown.wait()
            tasks.cancel_scope.cancel()
        text = "".join(fragment[1] for fragment in picker.preview(60)[0])
        assert "The celadon needs ash." in text
        assert max(map(len, text.splitlines())) <= 60
        assert ("class:match", "celadon") in picker.preview(60)[0]


def test_words_are_marked_in_any_form_and_case() -> None:
    assert marked("Kilns and the kiln, no bakiln", ["kiln"]) == [
        ("class:match", "Kilns"),
        ("", " and the "),
        ("class:match", "kiln"),
        ("", ", no bakiln"),
    ]
    assert marked("all plain", []) == [("", "all plain")]
