"""Registering in Codex's config.toml: our table comes and goes, every other line stays."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from mcp_memory.install.catalog import EditError, Launch, WantedEntries
from mcp_memory.install.toml_settings import find, register, withdraw
from tests.install.documents import LAUNCH, MOVED

DOCUMENTS = {
    "empty": "",
    "a comment": "# mine\n",
    "tables": '# top\nmodel = "x"   # after\n\n[features]\nhooks = true\n\n[mcp_servers.other] # not ours\nurl = "x"\n',
    "blank lines at the end": "[a]\nb = 1\n\n\n",
    "carriage returns": '[a]\r\nb = "c"\r\n',
    "text of several lines": 'a = """\n[mcp_servers.memory]\ncommand = "no"\n"""\n',
    "lists of several lines": "b = [\n  1, # [x]\n  2,\n]\nc = { d = ']' }\n'q\"' = '#'\n",
    "arrays of tables": "[[hooks]]\na = 1\n[[hooks]]\na = 2\n",
    "odd spacing": "  a   =  1   # x\n\n\n[ b ]  # y\n  c.d = 2\n\t[ b.e ]\nf = {g=1,h = [1,2 , 3]}\n\n# end\n",
    "carriage returns and blank lines": "# a\r\n\r\nx = 1\r\n\r\n[mcp_servers.other]\r\nurl = 'x'\r\n\r\n",
    "dotted keys": "mcp_servers.other.command = 'x'\n[t]\ny.z.'w w' = 1\n",
    "inline tables": "[mcp_servers]\nother = { command = 'x', env = { A = '1' } } # mine\n\n[t]\n",
    "a table of servers between others": "[mcp_servers.a]\nurl = 'x'\n\n[t]\nb = 1\n\n[mcp_servers.c]\nurl = 'z'\n",
    "arrays of tables with tables inside": "[[x]]\n[x.y]\na = 1\n\n[[x]]\n[x.y]\na = 2\n\n\n",
    "a directive at the top": "#:schema https://example.org/s.json\n\nmodel = 'x'\n",
    "dotted names": '[projects."/home/dev/a.b"]\ntrust_level = "trusted"\nx.y = 1979-05-27\n',
}
cases = pytest.mark.parametrize("text", list(DOCUMENTS.values()), ids=list(DOCUMENTS))


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
