"""`team user`, `team project` and `team audit`: the people of a team, from the command line of its server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mcp_memory.surfaces.team_command import ACTIONS
from tests.postgres import new_database
from tests.surfaces.shell import Shell

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The server's own machine."""
    shell = Shell(tmp_path_factory.mktemp("team"))
    shell.environment["MCP_MEMORY_STORE_URL"] = new_database()
    return shell


def test_a_token_is_shown_once_with_what_to_do_with_it(desk: Shell) -> None:
    told = desk.run("team", "user", "add", "ada", "--role", "admin").stdout
    assert told.startswith("ada is an admin of the team now.")
    [token] = [word for word in told.split() if word.startswith("mcpm_")]
    assert "mcp-memory team join URL" in told
    assert "never again" in told
    for words in (["user", "list"], ["user", "list", "--json"], ["audit"], ["audit", "--json"]):
        assert token not in desk.run("team", *words).stdout
    further = desk.json("team", "user", "token", "ada", "--expires", "7")
    assert (further["name"], further["role"]) == ("ada", "admin")
    assert further["token"].startswith("mcpm_")
    assert further["token"] != token
    expires = datetime.fromisoformat(further["expires"])
    assert 6 * DAY < expires - datetime.now(UTC) <= 7 * DAY


def test_the_machine_of_a_team_needs_no_client_of_its_own(desk: Shell) -> None:
    assert desk.json("doctor")["problems"] == []


def test_a_member_comes_changes_its_role_and_goes(desk: Shell) -> None:
    made = desk.json("team", "user", "add", "bob")
    assert (made["name"], made["role"]) == ("bob", "member")
    assert 364 * DAY < datetime.fromisoformat(made["expires"]) - datetime.now(UTC) <= 365 * DAY
    assert desk.json("team", "user", "role", "bob", "reader") == {"name": "bob", "role": "reader"}
    assert desk.json("team", "user", "revoke", "bob") == {"name": "bob", "tokens": 1}
    [bob] = [user for user in desk.json("team", "user", "list")["users"] if user["name"] == "bob"]
    assert (bob["role"], bob["tokens"]) == ("reader", 0)
    assert bob["revoked"] is not None
    assert "bob" in desk.run("team", "user").stdout
    acts = [row["action"] for row in desk.json("team", "audit", "--user", "(server)")["rows"]]
    assert acts[:3] == ["team user revoke bob", "team user role bob reader", "team user add bob as member"]


def test_a_project_is_for_its_members_and_open_again_only_when_that_is_asked_for(desk: Shell) -> None:
    desk.json("remember", "A note.")
    [slug] = [one["slug"] for one in desk.json("team", "project", "list")["projects"]]
    desk.json("team", "user", "add", "eve")
    assert desk.json("team", "project", "add", slug, "eve")["members"] == ["eve"]
    assert f"{slug}" in desk.run("team", "project").stdout
    refused = desk.run("team", "project", "remove", slug, "eve")
    assert (refused.returncode, "last member" in refused.stderr) == (2, True)
    assert desk.json("team", "project", "remove", slug, "eve", "--open")["open"] is True


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["user", "add"], "team user add NAME [--role ROLE] [--expires DAYS]"),
        (["user", "add", "Ada Lovelace"], "no name for a member"),
        (["user", "ad", "ada"], "Did you mean 'add'"),
        (["user", "add", "zoe", "--expires", "0"], "from 1 to 3,650"),
        (["user", "add", "zoe", "--open"], "team user add NAME"),
        (["user", "revoke", "nobody"], "no member 'nobody'"),
        (["project", "add", "nowhere", "nobody"], "no "),
        (["audit", "--limit", "0"], "from 1 to 10,000"),
        (["join"], "team join URL"),
    ],
)
def test_what_cannot_be_done_is_answered_by_what_can(desk: Shell, words: list[str], told: str) -> None:
    done = desk.run("team", *words)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_database_it_says_what_to_set(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("team", "user", "add", "ada")
    assert done.returncode == 2
    assert "[store] url" in done.stderr
    assert "team join" in done.stderr


def test_the_table_of_actions_names_functions_that_take_what_it_says() -> None:
    assert {action.split()[0] for action in ACTIONS} == {"join", "leave", "status", "push", "user", "project", "audit"}
