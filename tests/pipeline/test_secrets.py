"""Secrets on their way in: from no field of any source, and at no time between two reads, do they reach a file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.pipeline.importing import import_files
from mcp_memory.surfaces import output
from tests.pipeline.test_ingest import KEY, Client, texts
from tests.store.sqlite.test_migrations import WORDLESS, older
from tests.support import learn, memory

pytestmark = pytest.mark.anyio


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "home", tmp_path / "work" / "orchard")


async def test_a_call_that_waits_for_its_result_leaves_no_secret_on_the_disk_and_finds_it_later(client: Client) -> None:
    async with memory(client.home) as app:
        command = f"deploy --fast --api-key {KEY}"
        use = {"type": "tool_use", "id": "tool-1", "name": "Bash", "input": {"command": command}}
        client.write("assistant", "u1", 0.00, [use])
        client.queue("enqueue", f"the key is {KEY}")
        client.fire("Stop")
        await app.pipeline.until_idle()
        for path in (path for path in client.home.rglob("*") if path.is_file()):
            assert KEY.encode() not in path.read_bytes(), path.name
        result = {"type": "tool_result", "tool_use_id": "tool-1", "content": "deployed"}
        client.write("user", "u3", 0.02, [result])
        client.queue("remove")
        client.fire("SessionEnd", reason="other")
        await app.pipeline.until_idle()
        found = [text for _, text in await texts(app)]
    assert [text for text in found if text.startswith("Bash: deploy --fast") and text.endswith("deployed")]
    assert [text for text in found if text.startswith("the key is [redacted")]


async def test_names_that_are_secrets_are_told_apart_and_not_stored(client: Client, tmp_path: Path) -> None:
    async with memory(client.home) as app:
        lines = [
            {
                "session_id": f"{KEY}{number}",
                "timestamp": f"2026-03-02T10:00:0{number}Z",
                "role": "user",
                "text": f"Number {number}.",
                "source_id": f"{KEY}{number}",
                "project": f"{KEY} project",
            }
            for number in range(2)
        ]
        await learn(app, lines)
        assert (await app.store.counts()).sessions == 2
    for path in (path for path in client.home.rglob("*") if path.is_file()):
        assert KEY.encode() not in path.read_bytes(), path.name


def everywhere(value: Any, secret: str) -> Any:
    """The same with the secret in every text that has no fixed meaning, and in every name of a field beside them."""
    if isinstance(value, dict):
        kept = {key: item if key in FIXED else everywhere(item, secret) for key, item in value.items()}
        return {**kept, f"extra {secret}": secret}
    if isinstance(value, list):
        return [everywhere(item, secret) for item in value]
    return f"{value} {secret}" if isinstance(value, str) else value


FIXED = {"type", "hook_event_name", "timestamp", "role", "operation", "source", "reason", "event_type"}


async def test_a_secret_in_whatever_field_of_payload_transcript_or_import_reaches_no_file(
    client: Client, tmp_path: Path
) -> None:
    output.keep_log(client.home)
    folder = tmp_path / f"transcripts {KEY}"
    folder.mkdir()
    client.transcript = folder / f"{KEY}.jsonl"
    use = {"type": "tool_use", "id": "tool-1", "name": "Read", "input": {"file_path": "/home/ada/a.py"}}
    result = {"type": "tool_result", "tool_use_id": "tool-1", "content": "31"}
    said = [{"type": "text", "text": "Done."}]
    stamp = "2026-03-02T10:00:00Z"
    base = {"uuid": "u", "sessionId": "s", "timestamp": stamp, "cwd": str(folder), "gitBranch": "b", "promptId": "p"}
    lines = [
        {**base, "type": "user", "message": {"role": "user", "content": "Count."}},
        {**base, "type": "assistant", "message": {"role": "assistant", "model": "m", "content": [use, *said]}},
        {**base, "type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": "31"}},
        {**base, "type": "assistant", "isSidechain": True, "agentId": "a", "message": {"role": "x", "content": said}},
        {**base, "type": "assistant", "message": {"role": "assistant", "content": [{**use, "id": "waits"}]}},
        {**base, "type": "user", "message": 7},
    ]
    client.transcript.write_text("".join(json.dumps(everywhere(line, KEY)) + "\n" for line in lines))
    history = folder / "history.jsonl"
    line = {"session_id": "s", "timestamp": stamp, "role": "user", "text": "Hi.", "project": "p", "source_id": "i"}
    history.write_text(json.dumps(everywhere({**line, "metadata": {"file": "f"}}, KEY)) + "\n{broken " + KEY)
    async with memory(client.home) as app:
        for event in ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "Unheard"):
            fields = everywhere({"prompt": "Hi.", "tool_name": "Bash", "tool_input": {"command": "ls"}}, KEY)
            client.fire(event, **{**fields, "session_id": f"s {KEY}", "cwd": str(folder)})
        adapters = app.pipeline.clients
        sources = [(adapters["jsonl"], history), (adapters["claude-code"], client.transcript)]
        await import_files(app.store, app.inbox, sources, app.intaker)
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
        assert (await app.store.counts()).events >= 8
        logging.getLogger("mcp_memory").warning("It fails: %s", KEY)
    for handler in logging.getLogger("mcp_memory").handlers[:]:
        logging.getLogger("mcp_memory").removeHandler(handler)
        handler.close()
    held = [path for path in client.home.rglob("*") if path.is_file() and KEY[:40].encode() in path.read_bytes()]
    assert held == []
    assert (client.home / "logs" / output.LOG_NAME).stat().st_size


async def test_a_call_that_an_older_version_remembered_finds_its_result_after_the_upgrade(client: Client) -> None:
    command = f"deploy --key {KEY}"
    use = {"type": "tool_use", "id": "tool-1", "name": "Bash", "input": {"command": command}}
    client.write("assistant", "u1", 0.00, [{"type": "text", "text": "Told before."}])
    client.write("assistant", "u2", 0.01, [use])
    client.home.mkdir()
    memory_then = {"tools": {"tool-1": ["Bash", {"command": command}, "u2"]}, "ms": 5, "cwd": "/x"}
    then = {"offset": client.transcript.stat().st_size, "line": 2, "events": 1, "memory": memory_then}
    row = f"INSERT INTO checkpoint VALUES ('transcript:{client.transcript}', '{json.dumps(then)}')"
    older(client.home / "memory.db", WORDLESS, row)
    async with memory(client.home) as app:
        client.write("user", "u3", 0.02, [{"type": "tool_result", "tool_use_id": "tool-1", "content": "deployed"}])
        client.fire("Stop")
        await app.pipeline.until_idle()
        found = [text for _, text in await texts(app)]
    assert [text for text in found if text.startswith("Bash: deploy --key [redacted") and text.endswith("deployed")]
    assert "Told before." not in found
    held = [path.name for path in client.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert held == []
