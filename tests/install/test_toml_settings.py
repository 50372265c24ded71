"""Registering in Codex's config.toml: our table comes and goes, every other line stays."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from mcp_memory.install.catalog import EditError, Launch, WantedEntries
from mcp_memory.install.toml_settings import find, register, with_values, withdraw
from tests.install.documents import LAUNCH, MOVED, TOML

cases = pytest.mark.parametrize("text", list(TOML.values()), ids=list(TOML))


def wanted(launch: Launch = LAUNCH) -> WantedEntries:
    return WantedEntries(server=launch.entry())


@cases
def test_our_table_is_added_once_and_all_else_stays(text: str) -> None:
    registered = register(text, wanted())
    assert registered.startswith(text)
    assert tomllib.loads(registered)["mcp_servers"]["memory"] == LAUNCH.entry()
    assert register(registered, wanted()) == registered


@cases
def test_withdrawing_gives_back_every_byte(text: str) -> None:
    assert withdraw(register(text, wanted())) == text


@cases
def test_a_moved_installation_is_repaired_in_place(text: str) -> None:
    repaired = register(register(text, wanted(LAUNCH)), wanted(MOVED))
    assert find(repaired).servers == [MOVED.entry()]
    assert withdraw(repaired) == text


@cases
def test_a_setting_of_ours_stands_before_the_first_table_and_goes_again(text: str) -> None:
    registered = register(text, replace(wanted(), top={"grace": 5}))
    assert tomllib.loads(registered)["grace"] == 5
    assert register(registered, replace(wanted(), top={"grace": 5})) == registered
    assert find(registered).top == ["grace"]
    assert withdraw(registered) == text
    changed = register(registered, replace(wanted(), top={"grace": 7}))
    assert tomllib.loads(changed)["grace"] == 7
    assert withdraw(register(changed, wanted())) == text


def test_a_setting_that_the_user_has_made_is_left_alone() -> None:
    text = "a = 1\ngrace = 1 # mine\n[b]\n"
    registered = register(text, replace(wanted(), top={"grace": 5}))
    assert registered.startswith(text)
    assert withdraw(registered) == text


def test_a_setting_of_ours_goes_even_if_the_server_has_gone_before() -> None:
    assert withdraw("grace = 5  # set by mcp-memory\n[a]\nb = 1\n") == "[a]\nb = 1\n"


def test_a_file_without_a_last_newline_gets_one() -> None:
    assert register("a = 1", wanted()).startswith("a = 1\n\n[mcp_servers.memory]\n")


def test_what_others_wrote_around_our_table_stays_when_it_goes() -> None:
    text = register("a = 1\n", wanted()) + '\n# about projects\n[projects."/x"]\ntrust_level = "trusted"\n'
    assert withdraw(text) == 'a = 1\n\n# about projects\n[projects."/x"]\ntrust_level = "trusted"\n'


def test_what_the_user_added_to_our_table_survives_a_repair() -> None:
    text = register("", wanted()).replace("args =", "startup_timeout_sec = 30 # slow\nargs =")
    repaired = register(text + "[mcp_servers.memory.tools.forget]\napproval_mode = 'prompt'\n", wanted(MOVED))
    assert "startup_timeout_sec = 30 # slow\n" in repaired
    assert tomllib.loads(repaired)["mcp_servers"]["memory"] == {
        **MOVED.entry(),
        "startup_timeout_sec": 30,
        "tools": {"forget": {"approval_mode": "prompt"}},
    }
    assert withdraw(repaired) == ""


def test_a_foreign_server_called_memory_is_left_alone() -> None:
    text = '[mcp_servers.memory]\ncommand = "npx"\nargs = ["server-memory"]\n'
    registered = register(text, wanted())
    assert tomllib.loads(registered)["mcp_servers"]["mcp-memory"] == LAUNCH.entry()
    assert withdraw(registered) == text


def test_our_server_written_on_one_line_is_found_and_taken_out() -> None:
    text = '[mcp_servers]\nmemory = { command = "/old/mcp-memory", args = ["serve"] }\nother = { command = "x" }\n'
    assert withdraw(text) == '[mcp_servers]\nother = { command = "x" }\n'


@pytest.mark.parametrize("text", ["a = ", "[a]\n[a]\n", 'mcp_servers = { other = { command = "x" } }\n'])
def test_a_file_that_cannot_take_a_table_is_refused(text: str) -> None:
    with pytest.raises(EditError):
        register(text, wanted())


@cases
def test_a_change_of_the_users_stays_and_all_else_is_as_it_was(text: str) -> None:
    registered = register(text, replace(wanted(), top={"grace": 5}))
    newline = "\r\n" if "\r\n" in text else "\n"
    added = f"{newline}# about the barn{newline}[barn]{newline}doors = 2{newline}"
    assert withdraw(registered + added) == text + added


def test_the_users_comments_in_our_table_stay_where_they_are() -> None:
    text = register("a = 1\n", wanted()).replace("args =", "# slow machine\nargs =") + "\n# the barn\n[barn]\n"
    assert withdraw(text) == "a = 1\n\n# slow machine\n\n# the barn\n[barn]\n"


def test_the_environment_comes_goes_and_leaves_the_users_own() -> None:
    text = register("", wanted(MOVED)).replace("[mcp_servers.memory]\n", "[mcp_servers.memory]\nenv = { A = '1' }\n")
    with_home = register(text, wanted(LAUNCH))
    entry = tomllib.loads(with_home)["mcp_servers"]["memory"]
    assert entry["env"] == {"A": "1", **LAUNCH.entry()["env"]}
    assert tomllib.loads(register(with_home, wanted(MOVED)))["mcp_servers"]["memory"]["env"] == {"A": "1"}


def test_our_second_name_goes_once_the_first_is_free() -> None:
    text = '[mcp_servers.mcp-memory]\ncommand = "/old/mcp-memory"\nargs = ["serve"]\n\n[a]\nb = 1\n'
    registered = register(text, wanted())
    assert set(tomllib.loads(registered)["mcp_servers"]) == {"memory"}
    assert withdraw(registered).strip() == "[a]\nb = 1"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[own]\nkind = "b"\nmost = 3\n'),
        ("# mine\n", '# mine\n\n[own]\nkind = "b"\nmost = 3\n'),
        (
            '[own] # here\nkind = "a" # was a\nold = 1\n\n# of the next\n[other]\nx = 1\n',
            '[own] # here\nmost = 3\nkind = "b" # was a\n\n# of the next\n[other]\nx = 1\n',
        ),
        ("[other]\r\nx = 1\r\n[own]", '[other]\r\nx = 1\r\n[own]\r\nkind = "b"\r\nmost = 3\r\n'),
        ("\ufeff[other]\nx = 1", '\ufeff[other]\nx = 1\n\n[own]\nkind = "b"\nmost = 3\n'),
        ('own.kind = "a" # dotted\n', 'own.kind = "b" # dotted\nown.most = 3\n'),
    ],
)
def test_values_are_set_where_they_belong_and_all_else_stays(before: str, after: str) -> None:
    values = {"kind": "b", "most": 3, "old": None}
    assert with_values(before, "own", values) == after
    assert with_values(after, "own", values) == after


@pytest.mark.parametrize("text", ["own = 3\n", "[own\n", 'own = """\n[own]\n"""\n', "[[own]]\nx = 1\n"])
def test_what_is_no_section_is_not_edited(text: str) -> None:
    with pytest.raises(EditError):
        with_values(text, "own", {"kind": "b"})
