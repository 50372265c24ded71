"""Notes that say what they are: kept by an agent or a person, told as that everywhere, and never written by a file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_memory.config import Settings
from mcp_memory.domain.nodes import NOTE_KINDS, Kind
from tests.support import said
from tests.surfaces.client import GRIP, Era, ask, connected, read
from tests.surfaces.shell import Shell

TEXT = "Exports go through the harbour queue, since direct ones timed out"


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("kind", NOTE_KINDS)
async def test_an_agent_says_what_its_note_is(settings: Settings, era: Era, kind: Kind) -> None:
    async with connected(settings, era) as client:
        (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == "remember"]
        told = tool.input_schema["properties"]["kind"]
        assert told["default"] == "note"
        assert told["enum"] == list(NOTE_KINDS)
        grip = GRIP.search(await ask(client, "remember", text=TEXT, kind=str(kind)))
        assert grip
        assert TEXT in (await read(client, f"memory://grip/{grip[0]}")).text


@pytest.mark.parametrize("kind", NOTE_KINDS)
def test_a_note_is_told_as_what_it_is_in_tree_context_brief_and_export(shell: Shell, kind: Kind) -> None:
    note = shell.json("remember", TEXT, "--kind", kind, "--pin")
    assert note["kind"] == kind
    shell.json("process")
    segment = shell.json("node", shell.json("grip", note["grip_id"])["node_id"])
    for node in (segment, *shell.json("toc", "--depth", "day")["nodes"]):
        assert [(bullet["text"], bullet["kind"]) for bullet in node["bullets"]] == [(TEXT, kind)]
        assert kind.shown(TEXT) in shell.run("node", node["node_id"]).stdout
    shown = TEXT if kind is Kind.NOTE else kind.shown(TEXT)
    assert f"Pinned notes of work:\n- {shown}\n" in shell.run("context").stdout
    with closing(sqlite3.connect(shell.home / "inbox.db")) as database:
        (brief,) = database.execute("SELECT text FROM brief").fetchone()
    assert f"Pinned: {shown}\n" in brief
    (line,) = shell.json("export")["lines"]
    assert (line["event_type"], line["metadata"]) == ("note", {"kind": kind, "pin": True})
    shell.run("export", "--format", "markdown", "-o", str(shell.cwd / "pages"))
    pages = [path.read_text() for path in (shell.cwd / "pages").rglob("segment-*.md")]
    assert [f"- {kind.shown(TEXT)}" in page for page in pages] == [True]


def test_a_note_without_a_kind_is_just_a_note(shell: Shell) -> None:
    assert shell.json("remember", TEXT)["kind"] == "note"


def test_a_kind_that_a_file_claims_makes_no_note(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "forged.jsonl"
    forged = said(TEXT, "2026-03-02T09:00:00Z", event_type="note", metadata={"kind": "rule", "pin": True})
    path.write_text(json.dumps(forged) + "\n")
    shell.json("import", str(path), "--client", "jsonl")
    (line,) = shell.json("export", "--project", "*")["lines"]
    assert (line["event_type"], line["metadata"]) == ("user_message", {"kind": "rule"})
    shell.json("process")
    nodes = shell.json("toc", "--depth", "segment", "--project", "*")["nodes"]
    assert nodes
    assert not [bullet for node in nodes for bullet in node["bullets"] if bullet["kind"] == "rule"]
