"""Sessions of Codex, Gemini CLI and Cursor in one memory: captured live, imported afterwards, imported alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS
from mcp_memory.pipeline.importing import import_files
from tests.support import REPO, memory, touch_now

pytestmark = pytest.mark.anyio
NAME = "0a1b2c3d-1111-2222-3333-444455556666"
SAID = [("user", "Count the pears"), ("assistant", "A look first."), ("assistant", "There are 31 pears.")]


class Session:
    """Plays one client: a turn with a reply, a tool call and a last reply, by hooks and in a transcript."""

    def __init__(self, client: str, folder: Path) -> None:
        self.client, self.home, self.project = client, folder / "home", folder / "orchard"
        self.project.mkdir(parents=True)
        place = {
            "codex": f".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-{NAME}.jsonl",
            "gemini": ".gemini/tmp/orchard/chats/session-2026-03-01T10-00-0a1b2c3d.jsonl",
            "cursor": f".cursor/projects/orchard/agent-transcripts/{NAME}/{NAME}.jsonl",
        }[client]
        self.transcript = folder / "user" / place
        self.transcript.parent.mkdir(parents=True)

    def fire(self, event: str, **fields: Any) -> str:
        path = str(self.transcript)
        common: dict[str, Any] = {"session_id": NAME, "cwd": str(self.project), "turn_id": "t1"}
        if self.client == "cursor":
            roots = [str(self.project)]
            common = {"conversation_id": NAME, "workspace_roots": roots, "cursor_version": "2", "generation_id": "g1"}
        payload = {**common, "transcript_path": path, "hook_event_name": event, **fields}
        environment = {"PATH": os.environ["PATH"], "MCP_MEMORY_HOME": str(self.home), "HOME": str(self.home.parent)}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(REPO / "hooks" / "capture.py"), "--client", self.client],
            input=json.dumps(payload),
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def write(self, *lines: dict[str, Any]) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self.transcript.open("a") as file:
            for line in lines:
                timed = line if self.client == "cursor" or "$set" in line else {"timestamp": stamp, **line}
                file.write(json.dumps(timed) + "\n")
        touch_now(self.transcript)

    def play(self) -> Iterator[None]:
        """The turn, step by step."""
        return {"codex": self._codex, "gemini": self._gemini, "cursor": self._cursor}[self.client]()

    def _codex(self) -> Iterator[None]:
        def item(**payload: Any) -> dict[str, Any]:
            return {"type": "response_item", "payload": payload}

        def reply(name: str, text: str) -> list[dict[str, Any]]:
            completed = {"type": "item_completed", "item": {"type": "AgentMessage", "id": name}}
            content = [{"type": "output_text", "text": text}]
            message = item(type="message", role="assistant", id=name, content=content)
            return [{"type": "event_msg", "payload": completed}, message]

        self.fire("SessionStart", source="startup")
        yield
        self.write({"type": "session_meta", "payload": {"id": NAME, "cwd": str(self.project)}})
        self.write({"type": "turn_context", "payload": {"turn_id": "t1"}})
        self.fire("UserPromptSubmit", prompt=SAID[0][1])
        yield
        self.write(item(type="message", role="user", content=[{"type": "input_text", "text": SAID[0][1]}]))
        self.write(*reply("m1", SAID[1][1]))
        given = json.dumps({"cmd": "ls | wc -l"})
        self.write(item(type="function_call", name="exec_command", call_id="c1", arguments=given))
        self.fire(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": "ls | wc -l"},
            tool_response="31\n",
            tool_use_id="c1",
        )
        yield
        self.write(item(type="function_call_output", call_id="c1", output="Wall time: 0 seconds\nOutput:\n31\n"))
        self.write(*reply("m2", SAID[2][1]))
        self.fire("Stop", last_assistant_message=SAID[2][1])
        yield

    def _gemini(self) -> Iterator[None]:
        (self.transcript.parent.parent / ".project_root").write_text(str(self.project))
        self.fire("SessionStart", source="startup")
        yield
        self.write({"sessionId": NAME, "projectHash": "h", "kind": "main"})
        self.fire("BeforeAgent", prompt=f"<hook_context>Remember.</hook_context>\n\n{SAID[0][1]}")
        yield
        self.write({"id": "m1", "type": "user", "content": [{"text": SAID[0][1]}]})
        first = {"id": "m2", "type": "gemini", "content": SAID[1][1]}
        self.write(first)
        given, output = {"command": "ls | wc -l"}, "Output: 31\nProcess Group PGID: 7"
        self.fire("AfterTool", tool_name="run_shell_command", tool_input=given, tool_response={"llmContent": output})
        yield
        result = [{"functionResponse": {"response": {"output": output}}}]
        call = {"id": "c1", "name": "run_shell_command", "args": given, "status": "success", "result": result}
        self.write({**first, "toolCalls": [call]}, {"id": "m3", "type": "gemini", "content": SAID[2][1]})
        self.fire("AfterAgent", prompt=SAID[0][1], prompt_response=f"{SAID[1][1]}\n{SAID[2][1]}")
        yield

    def _cursor(self) -> Iterator[None]:
        def say(role: str, text: str) -> dict[str, Any]:
            return {"role": role, "message": {"content": [{"type": "text", "text": text}]}}

        for event in ("sessionStart", "sessionStart"):  # by its own hooks, and by those of Claude's settings
            self.fire(event)
            yield
        for _ in range(2):
            self.fire("beforeSubmitPrompt", prompt=SAID[0][1])
            yield
        self.write(say("user", f"<user_query>\n{SAID[0][1]}\n</user_query>"), say("assistant", SAID[1][1]))
        for _ in range(2):
            self.fire(
                "postToolUse",
                tool_name="Shell",
                tool_input={"command": "ls | wc -l"},
                tool_output='{"exitCode":0,"stdout":"31\\n"}',
                tool_use_id="c1",
            )
            yield
        self.fire("afterShellExecution", command="ls | wc -l", output="31\n")
        yield
        self.write(say("assistant", SAID[2][1]))
        self.fire("afterAgentResponse", text=SAID[2][1])
        yield
        self.fire("stop", status="completed")
        yield


@pytest.fixture(params=["codex", "gemini", "cursor"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return Session(request.param, tmp_path)


async def told(app: App) -> list[tuple[str, str]]:
    events = [event for _, event in await app.store.log(0, None, 99)]
    events.sort(key=lambda event: event.timestamp_ms)
    return [(str(event.role), event.text) for event in events if event.text and event.role != "system"]


async def brought_in(app: App, session: Session) -> int:
    result = await import_files(app.store, app.inbox, [(CLIENTS[session.client], session.transcript)], app.intaker)
    assert result.skipped == []
    return result.events_new


@pytest.mark.parametrize("served", [True, False])
async def test_a_session_is_stored_once_and_importing_it_adds_nothing(session: Session, served: bool) -> None:
    """Whether a server was there to take each event at once, or came when all was over."""
    async with memory(session.home) as app:
        for _ in session.play():
            if served:
                await app.pipeline.until_idle()
        await app.pipeline.until_idle()
        live = await told(app)
        assert await brought_in(app, session) == 0
        assert await brought_in(app, session) == 0
    assert [line for line in live if line[0] != "tool"] == SAID
    assert [text.partition(": ")[2] for role, text in live if role == "tool"] == ["ls | wc -l\n31"]


async def test_a_session_imported_alone_is_the_same_conversation(session: Session, tmp_path: Path) -> None:
    async with memory(session.home) as app:
        for _ in session.play():
            pass
        await app.pipeline.until_idle()
        live = await told(app)
    async with memory(tmp_path / "fresh") as app:
        assert await brought_in(app, session) > 0
        alone = await told(app)
    # Cursor writes down no results of tools: these only its hooks tell.
    assert alone == [line for line in live if session.client != "cursor" or line[0] != "tool"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_EVENTS = (
    "SessionStart UserPromptSubmit PostToolUse Stop SubagentStart SubagentStop PostCompact BeforeAgent AfterTool "
    "AfterAgent afterAgentResponse afterShellExecution afterMCPExecution afterFileEdit postToolUseFailure preCompact"
).split()
_FIELDS = (
    "prompt text tool_name tool_input tool_response tool_output tool_use_id error transcript_path cwd edits file_path "
    "command output result_json workspace_roots last_assistant_message agent_id mcp_context turn_id timestamp"
).split()


@given(st.sampled_from(_EVENTS), st.dictionaries(st.sampled_from(_FIELDS), _JSON, max_size=6))
def test_no_payload_makes_a_reader_raise(event: str, fields: dict[str, Any]) -> None:
    for client in ("codex", "gemini", "cursor"):
        hooked = CLIENTS[client].hook({"hook_event_name": event, "session_id": "s1", **fields}, 1)
        for one in (*hooked.events, *hooked.fallback):
            assert isinstance(one.text, str)
            json.dumps(dict(one.metadata))
