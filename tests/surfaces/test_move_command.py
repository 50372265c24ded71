"""`move`, as a user types it: to a server and back, what is said, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_memory.store.postgres import frequencies
from tests.postgres import shared_server
from tests.surfaces.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def answers(shell: Shell, **environment: str) -> list[str]:
    """What a memory says, in words and ids; of a search what is found first, since each index has its own order."""
    asked = [
        ("toc", "--project", "*"),
        ("timeline", "february", "--project", "*"),
        ("node", "toc:month:2026-03@tidepool-api", "--history"),
        ("projects",),
        ("sessions", "--project", "*"),
        ("snapshot",),
        ("export", "--project", "*"),
        ("search", "bookings confirmed twice", "--project", "*", "--limit", "1"),
    ]
    done = [shell.run(*words, "--json", **environment) for words in asked]
    assert not any(each.returncode for each in done), [each.stderr for each in done]
    *said, found = (each.stdout for each in done)
    return [*said, json.loads(found)["hits"][0]["id"]]


@pytest.mark.slow
def test_the_same_answers_come_from_a_server_and_from_a_file_again(shell: Shell, tmp_path: Path) -> None:
    shell.json("demo")
    url = shared_server().new_database()
    before = answers(shell)
    planned = shell.json("move", "--to", url, "--dry-run")
    assert (planned["target"], planned["tables"]["event"] > 0) == ("empty", True)
    moved = shell.json("move", "--to", url)
    assert moved["events"] == planned["tables"]["event"]
    assert (moved["meanwhile"], moved["switched"], moved["left_out"]) == (False, False, {})
    assert answers(shell, MCP_MEMORY_STORE_URL=url) == before == answers(shell)
    # The last step: what is new comes along, and the setting is written.
    shell.json("remember", "The walrus sleeps at noon.")
    done = shell.run("move", "--to", url, "--switch")
    assert (done.returncode, "Written to" in done.stdout) == (0, True), done.stderr
    config = shell.home / "config.toml"
    assert f'url = "{url}"' in config.read_text()
    assert config.stat().st_mode & 0o077 == 0
    assert "walrus" in shell.run("search", "walrus", "--project", "*").stdout
    # And back: the old file is in the way until its user has moved it.
    refused = shell.run("move", "--to", "sqlite")
    assert (refused.returncode, "holds a copy" in refused.stderr or "holds a memory" in refused.stderr) == (2, True)
    there = answers(shell)
    (shell.home / "memory.db").rename(tmp_path / "before.db")
    shell.json("move", "--to", "sqlite", "--switch")
    assert "postgresql" not in config.read_text()
    assert answers(shell) == there


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("mysql://ada@host/memory", "takes postgresql://"),
        ("postgresql://ada@host", "must be an address"),
        ("", "is empty"),
        ("no/such/folder/memory.db", "is no directory"),
        ("sqlite", "is in"),
        ("postgresql://nobody@127.0.0.1:1/nothing", "cannot be reached"),
    ],
)
def test_what_is_no_place_for_a_memory_is_said(shell: Shell, place: str, told: str) -> None:
    done = shell.run("move", "--to", place, "--json")
    assert done.returncode in (1, 2)
    assert told in json.loads(done.stdout)["error"]


def test_a_switch_that_would_have_no_effect_is_refused_before_anything_is_copied(shell: Shell, tmp_path: Path) -> None:
    done = shell.run("move", "--to", str(tmp_path / "other.db"), "--switch")
    assert (done.returncode, "Leave out --switch" in done.stderr) == (2, True)
    assert not list(tmp_path.glob("other.db*"))


def test_common_words_are_counted_when_a_memory_comes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frequencies, "BEHIND", 20)
    shell.json("demo")
    url = shared_server().new_database()
    shell.json("move", "--to", url)
    assert answers(shell, MCP_MEMORY_STORE_URL=url) == answers(shell)
