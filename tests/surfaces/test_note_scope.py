"""A note in a directory without memory: where it is kept, and what other commands there go on reading."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.config import Settings
from tests.support import conversation
from tests.surfaces.client import ask, connected
from tests.surfaces.shell import Shell

NOTE = "The harbour gate is green"
#: Commands whose default is the project of the directory, or everything.
READING = [
    ["search", "kettle"],
    ["toc", "--depth", "segment"],
    ["sessions"],
    ["today"],
    ["last"],
    ["open"],
    ["context"],
]


@pytest.fixture
def elsewhere(shell: Shell) -> Shell:
    """A memory of the projects alpha and beta, in a directory that is neither."""
    path = shell.home.parent / "history.jsonl"
    lines = [*conversation("2026-03-02"), *conversation("2026-03-04", session="s2", project="beta")]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert shell.json("import", str(path), "--client", "jsonl")["events_new"] == 16
    shell.json("process")
    return shell


def test_a_note_says_which_project_it_belongs_to(elsewhere: Shell) -> None:
    assert elsewhere.run("remember", NOTE).stdout.startswith("Remembered in project work as grip:")
    assert "in project alpha as" in elsewhere.run("remember", NOTE, "--project", "alpha").stdout
    assert elsewhere.json("remember", "The lamp is out")["project"] == "work"


def test_a_note_does_not_narrow_what_is_read_in_its_directory(elsewhere: Shell) -> None:
    elsewhere.json("remember", NOTE)
    for command in READING:
        narrow = elsewhere.run(*command).stdout
        assert narrow == elsewhere.run(*command, "--project", "*").stdout, command
    projects = {node["project"] for node in elsewhere.json("toc", "--depth", "segment")["nodes"]}
    assert {"alpha", "beta"} <= projects


def test_a_note_is_found_where_it_was_made_and_by_its_project(elsewhere: Shell) -> None:
    elsewhere.json("remember", NOTE)
    assert [hit["project"] for hit in elsewhere.json("search", "harbour gate")["hits"][:1]] == ["work"]
    only = elsewhere.json("search", "harbour gate", "--project", "work")["hits"]
    assert {hit["project"] for hit in only} == {"work"}


def test_a_captured_session_makes_the_directory_a_project_of_its_own(elsewhere: Shell, tmp_path: Path) -> None:
    elsewhere.json("remember", NOTE)
    line = {"sessionId": "w1", "uuid": "u1", "timestamp": "2026-03-09T09:00:00Z", "cwd": str(elsewhere.cwd)}
    path = tmp_path / "w1.jsonl"
    path.write_text(json.dumps(line | {"type": "user", "message": {"role": "user", "content": "Paint the gate."}}))
    assert elsewhere.json("import", str(path))["events_new"] == 1
    elsewhere.json("process")
    assert {node["project"] for node in elsewhere.json("toc", "--depth", "segment")["nodes"]} == {"work"}


def test_the_start_page_of_a_directory_with_only_a_note_names_the_other_projects(elsewhere: Shell) -> None:
    elsewhere.json("remember", NOTE)
    shown = elsewhere.run().stdout
    assert "alpha" in shown
    assert "No session" in shown


@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("here", ["work", "alpha"])
def test_an_export_is_everything_unless_a_project_is_named(elsewhere: Shell, noted: bool, here: str) -> None:
    if noted:
        elsewhere.json("remember", NOTE)
    elsewhere.environment["MCP_MEMORY_PROJECT"] = here
    assert len(elsewhere.json("export")["lines"]) == 16 + noted
    assert elsewhere.run("export", "--format", "markdown", "-o", str(elsewhere.cwd / "pages")).returncode == 0
    assert {"alpha", "beta"} <= {folder.name for folder in (elsewhere.cwd / "pages").iterdir()}
    assert len(elsewhere.json("export", "--project", "beta")["lines"]) == 8


@pytest.mark.anyio
async def test_an_agent_reads_its_notes_where_it_could_read_nothing_before(settings: Settings) -> None:
    nowhere = replace(settings, project="loft")
    async with connected(nowhere) as client:
        assert "knows no project" in await ask(client, "teleport", query="kiosks")
        told = await ask(client, "remember", text=NOTE)
        assert "in project loft" in told
        assert NOTE in await ask(client, "teleport", query="harbour gate")
        assert "tidepool-api" in await ask(client, "toc_root", project="*", budget_tokens=1_000)
