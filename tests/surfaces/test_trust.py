"""A repository that names another project's memory in its own file gets nothing of it until the user agrees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.client import ask, connected
from tests.surfaces.desk import HOOK, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.talk(desk.repository("atlas"), "one", "Please keep the wombat key of the vault in the green drawer.")
    return desk


def claims(desk: Desk, place: Path) -> list[dict[str, str]]:
    desk.cwd = place
    done = desk.run("doctor", "--json")
    return [found for found in json.loads(done.stdout)["problems"] if "does not count here" in found["what"]]


def test_a_name_that_no_one_has_counts_at_once(desk: Desk) -> None:
    place = desk.repository("clone", "borealis")
    desk.talk(place, "two", "Please paint the fence.")
    assert desk.projects() == {"atlas": 1, "borealis": 1}
    assert claims(desk, place) == []
    assert "fence" in desk.hook(place, "SessionStart", "three", source="startup")
    assert "fence" in desk.at(place, "search", "fence").stdout


def test_a_name_of_another_project_gives_and_takes_nothing_until_the_user_agrees(desk: Desk) -> None:
    place = desk.repository("evil", "atlas")
    assert desk.hook(place, "SessionStart", "two", source="startup") == ""
    desk.talk(place, "two", "Please paint the fence.")
    assert desk.projects() == {"atlas": 1, "evil": 1}
    assert "wombat" not in desk.hook(place, "SessionStart", "three", source="startup")
    assert "green drawer" not in desk.at(place, "search", "wombat key vault").stdout
    desk.at(place, "remember", "The gate is open.")
    assert desk.notes() == {"evil": 1}
    (found,) = claims(desk, place)
    assert found["what"] == "the project name atlas does not count here"
    assert str(desk.root / "atlas") in found["why"]
    assert "the project evil" in found["why"]
    assert f"cd {place}; mcp-memory projects trust atlas" in found["fix"]
    assert claims(desk, desk.root / "atlas") == []

    told = desk.at(place, "projects", "trust", "atlas")
    assert told.returncode == 0, told.stderr
    assert f"that of {desk.root / 'atlas'}" in told.stdout
    assert "`mcp-memory projects merge evil atlas`" in told.stdout
    assert claims(desk, place) == []
    assert "wombat" in desk.hook(place, "SessionStart", "four", source="startup")
    desk.talk(place, "four", "Please mow the lawn.")
    assert desk.projects() == {"atlas": 2, "evil": 2}
    assert "green drawer" in desk.at(place, "search", "wombat key vault").stdout
    assert "nothing to do" in desk.at(place, "projects", "trust", "atlas").stdout
    desk.at(place, "projects", "merge", "evil", "atlas")
    assert desk.projects() == {"atlas": 4}
    assert desk.notes() == {"atlas": 1}
    assert "lawn" in desk.at(place, "search", "lawn").stdout


def test_a_note_goes_to_the_project_that_its_directory_has_by_then(desk: Desk) -> None:
    place = desk.repository("evil", "atlas")
    desk.at(place, "remember", "Said before.")
    desk.at(place, "projects", "trust", "atlas")
    desk.at(place, "remember", "Said after.")
    assert desk.notes() == {"atlas": 1, "evil": 1}
    desk.environment["MCP_MEMORY_PROJECT"] = "atlas"
    desk.at(place, "remember", "Said by name.")
    desk.at(place, "projects", "rename", "atlas", "vault")
    desk.at(place, "remember", "Said by a name that is free again.")
    assert desk.notes() == {"vault": 2, "evil": 1, "atlas": 1}


def test_what_waits_belongs_to_the_project_that_the_user_agreed_to(desk: Desk) -> None:
    place = desk.repository("evil", "atlas")
    desk.talk(place, "two", "Please paint the fence.")
    desk.at(place, "projects", "trust", "atlas")
    desk.hook(place, "UserPromptSubmit", "three", prompt="Please mow the lawn.")
    waiting = [desk.json("forget", "--project", name, "--dry-run")["inbox"] for name in ("evil", "atlas")]
    assert waiting == [0, 1]


def test_consent_is_for_the_name_that_was_claimed(desk: Desk) -> None:
    desk.talk(desk.repository("safe"), "two", "Please hide the numbat.")
    place = desk.repository("clone", "atlas")
    assert desk.at(place, "projects", "trust", "atlas").returncode == 0
    (place / ".mcp-memory.toml").write_text('project = "safe"\n')
    assert desk.hook(place, "SessionStart", "three", source="startup") == ""
    desk.talk(place, "three", "Please paint the fence.")
    assert desk.projects() == {"atlas": 1, "safe": 1, "clone": 1}
    assert [found["what"] for found in claims(desk, place)] == ["the project name safe does not count here"]


def test_consent_is_given_where_the_name_is_claimed(desk: Desk) -> None:
    place = desk.repository("plain")
    refused = desk.at(place, "projects", "trust", "atlas")
    assert refused.returncode == 2
    assert 'Write project = "atlas" there first' in refused.stderr
    other = desk.repository("other", "borealis")
    refused = desk.at(other, "projects", "trust", "atlas")
    assert refused.returncode == 2
    assert "claims 'borealis'" in refused.stderr
    assert desk.at(other, "projects", "trust").returncode == 2


def test_a_name_in_the_environment_is_the_user_s_own_and_counts(desk: Desk) -> None:
    place = desk.repository("evil", "borealis")
    desk.environment["MCP_MEMORY_PROJECT"] = "atlas"
    assert "wombat" in desk.hook(place, "SessionStart", "two", source="startup")
    desk.talk(place, "two", "Please paint the fence.")
    assert desk.projects() == {"atlas": 2}
    assert claims(desk, place) == []


def test_a_name_that_has_no_directory_is_another_s_too(desk: Desk) -> None:
    """An import gave it, the environment, or a version that believed what a repository claims."""
    history = desk.root / "old.jsonl"
    line = {"session_id": "s", "timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "The numbat hides."}
    history.write_text(json.dumps(line) + "\n")
    desk.json("import", str(history), "--client", "jsonl", "--project", "borealis")
    place = desk.repository("clone", "borealis")
    desk.talk(place, "two", "Please paint the fence.")
    assert desk.projects() == {"atlas": 1, "borealis": 1, "clone": 1}
    assert "a project that has a name alone" in claims(desk, place)[0]["why"]
    (place / "src").mkdir()
    assert desk.at(place / "src", "projects", "trust", "borealis").returncode == 0
    assert "numbat" in desk.at(place / "src", "toc", "--budget", "500").stdout


def test_an_older_hook_s_row_is_judged_alike(desk: Desk) -> None:
    """It tells a name of the environment and one of the file in the same way, so that neither counts unasked."""
    place = desk.repository("evil", "atlas")
    row = {"received_ms": 1_790_000_000_000, "client": "claude-code", "root": str(place), "label": "atlas"}
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(place), "prompt": "Paint it."}
    spool = desk.home / "spool"
    spool.mkdir(exist_ok=True)
    (spool / "1790000000000-1-a.json").write_text(json.dumps({**row, "payload": json.dumps(payload)}))
    desk.json("process")
    assert desk.projects() == {"atlas": 1, "evil": 1}


@pytest.mark.anyio
async def test_a_server_in_a_repository_that_claims_a_foreign_name_answers_from_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = desk.repository("evil", "atlas")
    monkeypatch.chdir(place)
    async with connected(desk.settings()) as client:
        told = await ask(client, "teleport", query="wombat key vault")
        assert "green drawer" not in told
        assert "Memory knows no project" in told
        await ask(client, "remember", text="The gate is open.")
        assert "green drawer" not in await ask(client, "teleport", query="wombat key vault drawer")
    assert desk.notes() == {"evil": 1}


def test_the_hook_needs_no_more_than_the_standard_library_to_judge_a_claim(desk: Desk) -> None:
    place = desk.repository("evil", "atlas")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(HOOK)],
        input=json.dumps(
            {"hook_event_name": "SessionStart", "session_id": "x", "cwd": str(place), "source": "startup"}
        ),
        env={**os.environ, **desk.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("", "")
