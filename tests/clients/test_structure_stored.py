"""Refusals, commits, answers and titles in a memory: without secrets, once, found, and exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS
from mcp_memory.clients.jsonl import event_of_line
from mcp_memory.domain.events import MESSAGES, Event, EventQuery, EventType
from mcp_memory.navigate.shapes import event_shape
from mcp_memory.pipeline.importing import import_files
from tests.clients.conftest import Transcript
from tests.support import memory

pytestmark = pytest.mark.anyio
KEY = "sk-ant-api03-" + "Q7x" * 31 + "AA"
QUESTION = {"question": f"Use {KEY}?", "options": [{"label": "Yes", "description": f"With {KEY}"}, {"label": "No"}]}
SAID = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n"


@pytest.fixture
def session(transcript: Transcript) -> Transcript:
    say, use, result = transcript.say, transcript.use, transcript.result
    answered = {"questions": [QUESTION], "answers": {QUESTION["question"]: f"Take {KEY}"}}
    return transcript.write(
        {"type": "summary", "summary": f"Quaggas and {KEY}", "leafUuid": "u1"},
        say("user", "Count the pears in the orchard."),
        use("Bash", {"command": "rm -r farm"}),
        result(f"{SAID}Never with {KEY}.", failed=True),
        use("Bash", {"command": f"git commit -m 'Mend the gate' -m 'It used {KEY} before.'"}, "t2"),
        result("ok", tool_id="t2"),
        use("AskUserQuestion", {"questions": [QUESTION]}, "t3"),
        result("", answered, "t3"),
        say("assistant", "There are 31 pears."),
    )


async def stored(app: App, session: Transcript) -> list[Event]:
    await import_files(app.store, app.inbox, [(CLIENTS["claude-code"], session.path)], app.intaker)
    await app.pipeline.until_idle()
    return [event for _, event in await app.store.log(0, None, 99)]


async def test_no_secret_of_them_is_stored(session: Transcript, tmp_path: Path) -> None:
    async with memory(tmp_path / "memory") as app:
        events = await stored(app, session)
    assert len(events) == 7
    assert not [event.text for event in events if "Q7xQ7x" in f"{event.text} {event.metadata}"]
    assert sum("[redacted:" in event.text for event in events) == 4


async def test_a_title_is_found_but_nobodys_message(session: Transcript, tmp_path: Path) -> None:
    async with memory(tmp_path / "memory") as app:
        events = await stored(app, session)
        found, _ = await app.answers.teleport("quaggas", "*", budget=500)
        assert [(hit.role, hit.session_id) for hit in found.hits if hit.role] == [("system", "s1")]
        assert not [event for event in await app.store.events(EventQuery(types=MESSAGES)) if "Quaggas" in event.text]
        asked = next(event for event in events if event.event_type is EventType.USER_MESSAGE)
        record = await app.store.grip(asked.key, 3, 3)
        assert record
        around = [*record.before, *record.events, *record.after]
        assert not [event for event in around if event.event_type is EventType.SESSION_TITLE]


async def test_what_was_exported_is_the_same_event_when_it_comes_back(session: Transcript, tmp_path: Path) -> None:
    async with memory(tmp_path / "memory") as app:
        events = await stored(app, session)
    lines = [{**event_shape(event), "source_ids": event.source_ids, "metadata": event.metadata} for event in events]
    back = [event_of_line(json.loads(json.dumps(line))) for line in lines]
    fields = ("key", "session_id", "timestamp_ms", "event_type", "role", "text", "source_ids", "metadata")
    assert [[getattr(one, field) for field in fields] for one in back] == [
        [getattr(event, field) for field in fields] for event in events
    ]
