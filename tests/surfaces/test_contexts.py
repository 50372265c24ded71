"""Context, snapshots, sessions and records as users and agents meet them."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.config import Settings
from mcp_memory.models.tokens import count
from tests.support import conversation
from tests.surfaces.client import ask, connected, read, refused
from tests.surfaces.shell import Shell

RECORD = {
    "id", "timestamp", "depth", "parent_id", "summary", "key_points", "context", "event_ids", "tokens", "written_by",
}  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A memory with one short session in it."""
    shell = Shell(tmp_path)
    load(shell, "history.jsonl", conversation("2026-03-02"))
    return shell


def load(shell: Shell, name: str, lines: list[dict[str, Any]]) -> None:
    path = shell.cwd / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shell.json("import", str(path), "--client", "jsonl")
    shell.json("process")


def test_context_and_what_changed_since_a_snapshot(shell: Shell) -> None:
    place = ("--focus", "toc:day:2026-03-02", "--project", "alpha")
    first = shell.json("context", *place, "--budget", "500")
    assert set(first) == {"snapshot", "blocks", "tokens", "removed", "kept"}
    assert all(set(block) == {"kind", "anchor", "version", "text", "tokens"} for block in first["blocks"])
    assert all(block["tokens"] == count(block["text"]) for block in first["blocks"])
    assert first["tokens"] <= 500
    assert shell.json("snapshot") == {"snapshot": first["snapshot"]}
    assert shell.run("snapshot").stdout.strip() == first["snapshot"]

    load(shell, "more.jsonl", conversation("2026-03-03", session="s2"))
    later = shell.json("context", *place, "--since", first["snapshot"])
    assert any(block["anchor"].startswith("toc:week:") for block in later["blocks"])
    assert any(anchor.startswith("toc:day:2026-03-02") for anchor in later["kept"])
    then = shell.json("context", *place, "--budget", "500", "--at", first["snapshot"])
    assert then["blocks"] == first["blocks"]
    text = shell.run("context", *place, "--budget", "200", "--order", "u-curve").stdout
    assert count(text.strip()) <= 200
    assert re.search(r"\[\d+ tokens · next: ", text)


def test_context_takes_levels_items_and_style(shell: Shell) -> None:
    options = ("--levels", "week", "--no-memo", "--top-k", "0", "--detailed", "--project", "alpha")
    found = shell.json("context", "--query", "login timeout", *options)
    assert {block["kind"] for block in found["blocks"]} == {"summary", "focus"}
    assert "grip:" in next(block["text"] for block in found["blocks"] if block["kind"] == "summary")
    for wrong in (("--levels", "decade"), ("--since", "yesterday"), ("--focus", "a", "--query", "b")):
        assert shell.run("context", *wrong, "--project", "alpha").returncode == 2
    assert shell.run("context", "--focus", "toc:day:1999-01-01", "--project", "alpha").returncode == 1


def test_a_session_is_condensed_on_demand_and_shown(shell: Shell) -> None:
    before = shell.json("session", "s1")
    assert (before["session_id"], before["project"], before["records"]) == ("s1", "alpha", [])
    assert [event["role"] for event in before["tail"]][:2] == ["user", "assistant"]
    refused = shell.json("compact", "s1")
    assert (refused["compacted"], refused["record"]) == (False, None)
    assert refused["reason"] == "too few messages"
    assert "--force" in shell.run("compact", "s1").stdout

    done = shell.json("compact", "s1", "--force")
    assert (done["compacted"], done["reason"]) == (True, "forced")
    assert set(done["record"]) >= RECORD
    assert set(done["record"]["context"]) == {
        "participants", "decisions", "action_items", "unresolved", "domain_entities",
    }  # fmt: skip
    assert done["record"]["event_ids"]
    after = shell.json("session", "s1")
    assert after["records"] == [done["record"]]
    assert after["tokens"] <= 2_000
    text = shell.run("session", "s1", "--budget", "150").stdout
    assert done["record"]["id"] in text
    assert count(text.strip()) <= 150
    for budget in (1, 30):
        assert count(shell.run("session", "s1", "--budget", str(budget)).stdout.strip()) <= budget
    assert shell.run("session", "s1", "--budget", "0").returncode == 2
    room = done["record"]["tokens"] + count(after["tail"][-1]["text"])
    few = shell.json("session", "s1", "--budget", str(room))
    assert (few["records"], few["tail"]) == (after["records"], after["tail"][-1:])
    assert shell.json("status")["compactions"]["records"] == 1
    log = shell.home / "logs" / "mcp-memory.log"
    assert "Compacted session s1: forced, depth 0" in log.read_text("utf-8")
    assert sys.platform == "win32" or stat.S_IMODE(log.stat().st_mode) == 0o600
    assert re.search(r"^compactions +records 1, sessions 1, waiting 0$", shell.run("status", "--verbose").stdout, re.M)
    assert shell.run("session", "nobody").returncode == 1
    assert shell.run("compact", "nobody").returncode == 1


@pytest.mark.anyio
async def test_an_agent_builds_a_context_and_later_asks_what_changed(settings: Settings) -> None:
    async with connected(settings) as client:
        answer = await ask(client, "build_context", focus="toc:day:2026-10-26", budget_tokens=2_000)
        assert "toc:day:2026-10-26" in answer
        assert "toc:week:2026-W44" in answer
        snapshot = re.search(r"since='(snap:[\w.]+)'", answer)
        assert snapshot
        again = await ask(client, "build_context", focus="toc:day:2026-10-26", since=snapshot[1])
        assert again.startswith("Nothing has changed.")
        assert "Unchanged: " in again
        assert "not a level" in await refused(client, "build_context", levels=["decade"])
        assert "teleport" in await refused(client, "build_context", focus="nowhere")


@pytest.mark.anyio
async def test_the_resummarize_prompt_makes_a_record_at_once(settings: Settings) -> None:
    async with connected(settings) as client:
        assert "no record yet" in await ask(client, "session_context", session_id="tidepool-api-07")
        prompt = await client.get_prompt("resummarize", {"session": "tidepool-api-07"})
        (message,) = prompt.messages
        told = re.search(r"Its record (\w{26}) was made just now", str(message.content))
        assert told
        answer = await ask(client, "session_context", session_id="tidepool-api-07", budget_tokens=600)
        assert told[1] in answer
        assert told[1] in (await read(client, "memory://session/tidepool-api-07")).text
        assert "There is no session" in await refused(client, "session_context", session_id="nobody")
