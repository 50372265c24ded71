"""What was really said in Codex, and its tool calls as text and as events.

The hook's view of a call, the model's view and the client's own record read alike. In a rollout, some lines or some
reads lie between a call and what came of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.claude_tools import blocks_text, checklist, compact, relative, without_injected
from mcp_memory.clients.lines import (
    Origin,
    TranscriptReader,
    UnreadableLine,
    digest,
    json_of,
    object_of,
    objects_of,
    text_of,
)
from mcp_memory.clients.replies import REFUSED
from mcp_memory.domain.events import Captured, EventType

#: The client says these in the user's name.
_NOT_TYPED = re.compile(
    r"(?:<(?:environment_context|user_instructions|subagent_notification|turn_aborted|user_shell_command|user_action"
    r"|skill|skills_instructions|permissions instructions|collaboration_mode|hook_prompt|INSTRUCTIONS|memory)\b"
    r"|# AGENTS\.md instructions)"
)
_EDITOR_CONTEXT = "# Context from my IDE setup:"
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*\n", re.MULTILINE)
_SHELLS = frozenset("exec_command shell shell_command local_shell container.exec local_shell_call Bash".split())
_AGENT_SPACE = re.compile(r"\Amulti_agent(?:_v\d+)?[._]*")
#: Calls that only run subagents: what these were asked and answered is told by events of their own.
_BOOKKEEPING = frozenset("spawn_agent wait_agent wait send_input close_agent resume_agent list_agents".split())
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_HEADER = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines): [^\n]*\n"
    r"|Process (?:exited with code|running with session ID) -?\d+\n)+\s*(?:Output:\n?)?"
)
_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)
_RUNNING = re.compile(r"^Process running with session ID (\d+)", re.MULTILINE)
_ABORTED = "aborted by user"
_DECLINED = re.compile(r"(?:(?:exec command|patch) )?rejected by user\.?")
_PENDING = 64
#: A call: the tool's name and its input.
ToolCall = tuple[str, dict[str, Any]]
_NO_CALL: ToolCall = ("", {})


def typed(text: str) -> str:
    """What the user typed; empty if it was the client that wrote it."""
    text = text.strip()
    if _NOT_TYPED.match(text):
        return ""
    if text.startswith(_EDITOR_CONTEXT) and (request := _REQUEST.search(text)):
        text = text[request.end() :]
    return without_injected(text).strip()


def content_text(item: Mapping[str, Any]) -> str:
    """The text of a message's content; of one that is only images, that there were some."""
    if isinstance(content := item.get("content"), str):
        return content
    blocks = objects_of(item, "content")
    texts = [text_of(block, "text") for block in blocks]
    if not any(texts) and any(text_of(block, "type") == "input_image" for block in blocks):
        return "[image]"
    return "\n\n".join(filter(None, texts))


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a call gave back. `running` names the process that goes on."""

    text: str
    exit_code: int = 0
    running: str = ""
    failed: bool = False


def output_of(value: object) -> ToolOutput:
    """What a call gave back, from any of its forms: raw text, wrapped text, blocks, a tool server's answer."""
    if isinstance(value, Mapping):
        text = blocks_text(value.get("content"))
        if not text and value.get("structuredContent") is not None:
            text = compact(value["structuredContent"])
        failed = value.get("isError") is True or "message" in value
        return ToolOutput(text or text_of(value, "message"), failed=failed)
    if isinstance(value, list):
        return output_of(blocks_text(value))
    text = value if isinstance(value, str) else ""
    # Early versions wrote an object with the output and how the command ended.
    old = json_of(text) if text.startswith("{") else None
    if isinstance(old, Mapping) and isinstance(old.get("output"), str) and "metadata" in old:
        code = object_of(old, "metadata").get("exit_code")
        return ToolOutput(old["output"], code if isinstance(code, int) else 0)
    header = _HEADER.match(text)
    if not header:
        return ToolOutput(text)
    code, running = _EXIT.search(header[0]), _RUNNING.search(header[0])
    return ToolOutput(text[header.end() :], int(code[1]) if code else 0, running[1] if running else "")


def called(name: str, space: str, given: Mapping[str, Any]) -> ToolCall:
    """Name and input of a call as the hook gives them."""
    name = _AGENT_SPACE.sub("", name)
    if name in _SHELLS:
        return "Bash", {"command": _command(given.get("cmd", given.get("command")))}
    return (f"{space.rstrip('_')}__{name}" if space.startswith("mcp__") else name), dict(given)


def _command(command: object) -> str:
    """A command line, without the shell that it is handed to."""
    if isinstance(command, str):
        return command
    words = [str(word) for word in command] if isinstance(command, list) else []
    if len(words) == 3 and words[1] in ("-lc", "-c", "-Command"):
        return words[2]
    return shlex.join(words)


def tool_event(origin: Origin, tool_id: str, call: ToolCall, output: ToolOutput) -> Captured | None:
    """One call and what came of it; None if it read our own memory, or only ran a subagent."""
    name, given = call
    server = given.get("server") if "mcp_resource" in name else ""
    if not name or name in _BOOKKEEPING or claude_tools.is_own(name, given, server):
        return None
    result, files = output.text.strip("\n").rstrip(), list[str]()
    facts: dict[str, object] = {}
    refused = bool(_DECLINED.fullmatch(result.strip()))
    failed = refused or output.failed or bool(output.exit_code)
    if name == "apply_patch":
        patch = text_of(given, "command")
        files = [relative(path.strip(), origin.cwd) for path in dict.fromkeys(_PATCHED.findall(patch))]
        head = f"{name}: {', '.join(files)}".rstrip(": ")
        failed = failed or not output.text.startswith("Success")  # that it was turned down only its words tell
        if not failed:
            lines = [line for line in patch.splitlines() if line[:1] in ("+", "-")]
            result = "\n".join(f"{line[0]} {line[1:]}".rstrip() for line in lines)
    elif name == "update_plan" and isinstance(given.get("plan"), list):
        head, result = name, checklist(objects_of(given, "plan"), "step")
    else:
        head, facts = claude_tools.call_head(name, given, origin.cwd, failed=failed)
        files = [relative(text_of(given, "path"), origin.cwd)] if name == "view_image" else []
    if refused:
        result = REFUSED
    elif output.exit_code:
        result = f"Exit code {output.exit_code}\n{result}".rstrip()
    return origin.event(
        f"tool:{tool_id}",
        EventType.TOOL_RESULT,
        "\n".join(filter(None, (head, result))).rstrip(),
        (tool_id,),
        tool=name,
        files=files,
        failed=failed,
        refused=refused,
        is_interrupt=output.text == _ABORTED,
        **facts,
    )


class PendingCalls:
    """The calls that have not been told yet: what was asked, and what a process that still runs has printed.

    The client's own record of a call comes before the model's view of it, and before the hook: only it says how a
    command ended, and has all that a long one printed. Of all of these the places of their lines are kept.
    """

    def __init__(self, reader: TranscriptReader) -> None:
        self._memory, self._reader = reader.memory, reader

    @property
    def _calls(self) -> dict[str, int]:
        calls: dict[str, int] = self._memory.setdefault("calls", {})
        return calls

    def settle(self) -> None:
        """Forget the calls that a line told."""
        for call_id in self._reader.fresh:
            self._calls.pop(call_id, None)

    def item(self, item: Mapping[str, Any], origin: Origin) -> list[Captured]:
        """A line of the conversation: a call, or what the model was shown of its result."""
        kind = text_of(item, "type")
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            call_id = text_of(item, "call_id") or text_of(item, "id")
            if not call_id:
                raise UnreadableLine("call_id is missing")
            self._reader.remember("calls", call_id, self._reader.keep(item), _PENDING)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            return self._shown(item, origin)
        elif kind == "web_search_call":
            action = object_of(item, "action")
            asked = text_of(action, "query") or text_of(action, "url")
            key = f"tool:{text_of(item, 'id') or f'{origin.ms}:{digest(asked)}'}"
            text = f"web_search: {asked}"
            return [origin.event(key, EventType.TOOL_RESULT, text, tool="web_search")] if asked else []
        return []

    def record(self, item: Mapping[str, Any], origin: Origin) -> list[Captured]:
        """The client's own record of a call that has ended."""
        call_id = text_of(item, "id") or text_of(item, "call_id")
        kind, made = item.get("type"), _NO_CALL
        printed = text_of(item, "stdout") + text_of(item, "stderr")
        if kind == "CommandExecution":
            code = item.get("exit_code")
            output = ToolOutput(text_of(item, "aggregated_output") or printed, code if isinstance(code, int) else 0)
            made = "Bash", {"command": _command(item.get("command"))}
        elif kind == "McpToolCall":
            output = output_of(object_of(item, "result") or object_of(item, "error"))
            made = f"mcp__{text_of(item, 'server')}__{text_of(item, 'tool')}", dict(object_of(item, "arguments"))
        elif kind == "FileChange" and call_id in self._calls:
            output = ToolOutput(printed, failed=item.get("status") == "failed")
        else:
            return []
        return self._tell(call_id, output, origin, made)

    def unfinished(self, origin: Origin) -> list[Captured]:
        """A process that outlives its turn is told with what it has printed so far."""
        running = self._memory.get("running", {})
        ended = [(call_id, self._printed(places)) for call_id, places in running.values() if call_id in self._calls]
        running.clear()
        return [event for call_id, printed in ended for event in self._tell(call_id, ToolOutput(printed), origin)]

    def _printed(self, places: list[int]) -> str:
        """What a process printed, from the lines that showed it."""
        return "".join(output_of(item.get("output")).text for place in places for item in self._reader.kept(place))

    def _call(self, call_id: str) -> ToolCall:
        """Name and input of a call, from the line that made it. What is not JSON in a string stays a command."""
        for item in self._reader.kept(self._calls.get(call_id)):
            if call_id in (text_of(item, "call_id"), text_of(item, "id")):
                told = item.get("arguments", item.get("input", object_of(item, "action")))
                given = told if isinstance(told, Mapping) else json_of(told)
                given = given if isinstance(given, Mapping) else {"command": told} if isinstance(told, str) else {}
                return called(text_of(item, "name") or text_of(item, "type"), text_of(item, "namespace"), given)
        return _NO_CALL

    def _shown(self, item: Mapping[str, Any], origin: Origin) -> list[Captured]:
        """What the model was shown of a result, which may be that of a process that is or was still running."""
        call_id = text_of(item, "call_id")
        if not call_id:
            raise UnreadableLine("call_id is missing")
        output = output_of(item.get("output"))
        name, given = self._call(call_id)
        running: dict[str, tuple[str, list[int]]] = self._memory.setdefault("running", {})
        process = output.running or (str(given.get("session_id", "")) if name == "write_stdin" else "")
        if not process or not (output.running or process in running):
            return self._tell(call_id, output, origin) if name else []
        first, places = running.get(process, (call_id, []))
        if len(places) < _PENDING:
            places = [*places, self._reader.keep(item)]
        if call_id != first:
            self._calls.pop(call_id, None)
        if output.running and first in self._calls:
            self._reader.remember("running", process, (first, places), _PENDING)
            return []
        running.pop(process, None)
        ended = ToolOutput(self._printed(places), output.exit_code)
        return self._tell(first, ended, origin) if first in self._calls else []

    def _tell(self, call_id: str, output: ToolOutput, origin: Origin, made: ToolCall = _NO_CALL) -> list[Captured]:
        """The event of a call; `made` is what its record says of it, if no line made it."""
        call = self._call(call_id) if call_id in self._calls else made
        self._reader.fresh.append(call_id)
        event = tool_event(origin, call_id, call, output)
        return [event] if event else []
