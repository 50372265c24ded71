"""What was really said in Codex: prompts without what the client puts around them, summaries without their preamble."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.claude_tools import blocks_text, compact, compact_summary, without_injected
from mcp_memory.clients.lines import Account, Earlier, Unreadable, digest, keep_newest, object_of, text_of
from mcp_memory.clients.port import Told
from mcp_memory.domain.events import EventType, Role

#: The client says these in the user's name.
_NOT_TYPED = re.compile(
    r"(?:<(?:environment_context|user_instructions|subagent_notification|turn_aborted|user_shell_command|user_action"
    r"|skill|skills_instructions|permissions instructions|collaboration_mode|hook_prompt|INSTRUCTIONS|memory)\b"
    r"|# AGENTS\.md instructions)"
)
_EDITOR_CONTEXT = "# Context from my IDE setup:"
_REQUEST = re.compile(r"^## My request for Codex:[ \t]*\n", re.MULTILINE)
_PREAMBLE = re.compile(r"\AAnother language model started to solve this problem.*?own analysis:\s*", re.DOTALL)


def typed(text: str) -> str:
    """What the user typed; empty if it was the client that wrote it."""
    text = text.strip()
    if _NOT_TYPED.match(text):
        return ""
    if text.startswith(_EDITOR_CONTEXT) and (request := _REQUEST.search(text)):
        text = text[request.end() :]
    return without_injected(text).strip()


def is_typed(item: Mapping[str, Any]) -> bool:
    """Whether a message in the user's name is the user's, where the client says so."""
    kinds = object_of(item, "internal_chat_message_metadata_passthrough").get("content_item_kinds")
    return (
        not isinstance(kinds, list)
        or not kinds
        or any(isinstance(kind, str) and kind.startswith("user.") for kind in kinds)
    )


def content_text(item: Mapping[str, Any]) -> str:
    """The text of a message's content; of one that is only images, that there were some."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    texts = [text_of(block, "text") for block in blocks]
    if not any(texts) and any(text_of(block, "type") == "input_image" for block in blocks):
        return "[image]"
    return "\n\n".join(filter(None, texts))


def summary(message: str) -> str:
    """The client's own summary of what it compacted."""
    return compact_summary(_PREAMBLE.sub("", message))


def error_text(message: str) -> str:
    """What a provider's error says, out of the JSON that it may be wrapped in."""
    try:
        value = json.loads(message)
    except (ValueError, RecursionError):
        return message.strip()
    while isinstance(value, Mapping) and isinstance(value.get("error"), Mapping):
        value = value["error"]
    return text_of(value, "message").strip() or message.strip()


_SHELLS = frozenset("exec_command shell shell_command local_shell container.exec local_shell_call".split())
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
_MARKS = {"completed": "x", "in_progress": "~"}


@dataclass(frozen=True, slots=True)
class Output:
    """What a call gave back. `running` names the process that goes on."""

    text: str
    exit_code: int = 0
    running: str = ""
    failed: bool = False

    @property
    def stopped(self) -> bool:
        return self.text == _ABORTED


def called(name: str, space: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and input of a call as the hook gives them."""
    name = _AGENT_SPACE.sub("", name)
    if name in _SHELLS or name == "Bash":
        return "Bash", {"command": command_text(given.get("cmd", given.get("command")))}
    if space.startswith("mcp__"):
        return f"{space.rstrip('_')}__{name}", dict(given)
    return name, dict(given)


def command_text(command: object) -> str:
    """A command line, without the shell that it is handed to."""
    if isinstance(command, str):
        return command
    words = [str(word) for word in command] if isinstance(command, list) else []
    if len(words) == 3 and words[1] in ("-lc", "-c", "-Command"):
        return words[2]
    return shlex.join(words)


def arguments(text: object) -> dict[str, Any]:
    """The input of a call, which is JSON in a string; what is not stays a command."""
    if isinstance(text, Mapping):
        return dict(text)
    try:
        value = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"command": text}


def is_own(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the call read our own memory, or only ran a subagent."""
    server = given.get("server") if "mcp_resource" in name else ""
    return name in _BOOKKEEPING or claude_tools.is_own(name, given, server)


def call_text(name: str, given: Mapping[str, Any], output: Output, cwd: str) -> str:
    """The event's text: the call, then the result if there is any."""
    result = output.text.strip("\n").rstrip()
    if name == "apply_patch":
        head = f"{name}: {', '.join(touched(name, given, cwd))}".rstrip(": ")
        result = result if has_failed(name, output) else _changes(text_of(given, "command"))
    elif name == "update_plan" and isinstance(given.get("plan"), list):
        head, result = name, _plan(given["plan"])
    else:
        head = claude_tools.headline(name, given, cwd)
    if output.exit_code:
        result = f"Exit code {output.exit_code}\n{result}".rstrip()
    return "\n".join(filter(None, (head, result)))


def has_failed(name: str, output: Output) -> bool:
    """Whether a call failed, as far as its result says: that a patch was turned down only its words tell."""
    refused = name == "apply_patch" and not output.text.startswith("Success")
    return output.failed or bool(output.exit_code) or refused


def touched(name: str, given: Mapping[str, Any], cwd: str) -> list[str]:
    """The files that the call names."""
    if name == "apply_patch":
        found = _PATCHED.findall(text_of(given, "command"))
        return [claude_tools.relative(path.strip(), cwd) for path in dict.fromkeys(found)]
    return [claude_tools.relative(text_of(given, "path"), cwd)] if name == "view_image" else []


def output_of(value: object) -> Output:
    """What a call gave back, from any of its forms: raw text, wrapped text, blocks, a tool server's answer."""
    if isinstance(value, Mapping):
        return _answer(value)
    if isinstance(value, list):
        return output_of(blocks_text(value))
    text = value if isinstance(value, str) else ""
    if text.startswith("{") and (old := _old_output(text)):
        return old
    header = _HEADER.match(text)
    if not header:
        return Output(text)
    code, running = _EXIT.search(header[0]), _RUNNING.search(header[0])
    body = text[header.end() :]
    return Output(body, int(code[1]) if code else 0, running[1] if running else "")


def _old_output(text: str) -> Output | None:
    """The form of early versions: an object with the output and how the command ended."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("output"), str) or "metadata" not in value:
        return None
    code = object_of(value, "metadata").get("exit_code")
    return Output(value["output"], code if isinstance(code, int) else 0)


def _answer(value: Mapping[str, Any]) -> Output:
    text = blocks_text(value.get("content"))
    if not text and value.get("structuredContent") is not None:
        text = compact(value["structuredContent"])
    return Output(text or text_of(value, "message"), failed=value.get("isError") is True or "message" in value)


def _changes(patch: str) -> str:
    """The lines that a patch took out and put in."""
    lines = [line for line in patch.splitlines() if line[:1] in ("+", "-")]
    return "\n".join(f"{line[0]} {line[1:]}".rstrip() for line in lines)


def _plan(steps: list[Any]) -> str:
    known = [step for step in steps if isinstance(step, Mapping)]
    return "\n".join(f"[{_MARKS.get(text_of(step, 'status'), ' ')}] {text_of(step, 'step')}" for step in known)


_PENDING = 64
_Call = tuple[str, dict[str, Any]]
_NONE: _Call = ("", {})


class Calls:
    """The calls that have not been told yet: what was asked, and what a process that still runs has printed.

    The client's own record of a call comes before the model's view of it, and before the hook: only it says how a
    command ended, and has all that a long one printed. Of all of these the places of their lines are kept.
    """

    def __init__(self, memory: dict[str, Any], earlier: Earlier) -> None:
        self._memory = memory
        self._earlier = earlier
        self._told: list[str] = []

    def settle(self) -> None:
        """Forget the calls that a line told: only now, so that a line that is read again reads the same."""
        for call_id in self._told:
            self._calls.pop(call_id, None)
        self._told.clear()

    def item(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        """A line of the conversation: a call, or what the model was shown of its result."""
        kind = text_of(item, "type")
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            self._remember(item)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            return self._shown(item, account)
        elif kind == "web_search_call":
            return _searched(item, account)
        return []

    def record(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        """The client's own record of a call that has ended."""
        call_id = text_of(item, "id") or text_of(item, "call_id")
        kind = item.get("type")
        if kind == "CommandExecution":
            code = item.get("exit_code")
            printed = text_of(item, "aggregated_output") or text_of(item, "stdout") + text_of(item, "stderr")
            output = Output(printed, code if isinstance(code, int) else 0)
            made = "Bash", {"command": command_text(item.get("command"))}
        elif kind == "McpToolCall":
            output = output_of(object_of(item, "result") or object_of(item, "error"))
            made = f"mcp__{text_of(item, 'server')}__{text_of(item, 'tool')}", dict(object_of(item, "arguments"))
        elif kind == "FileChange" and call_id in self._calls:
            failed = item.get("status") == "failed"
            output, made = Output(text_of(item, "stdout") + text_of(item, "stderr"), failed=failed), _NONE
        else:
            return []
        return self._tell(call_id, output, account, made)

    def unfinished(self, account: Account) -> list[Told]:
        """A process that outlives its turn is told with what it has printed so far."""
        running = self._memory.get("running", {})
        ended = [(call_id, self._output(places)) for call_id, places in running.values() if call_id in self._calls]
        running.clear()
        return [told for call_id, printed in ended for told in self._tell(call_id, Output(printed), account)]

    @property
    def _calls(self) -> dict[str, int]:
        calls: dict[str, int] = self._memory.setdefault("calls", {})
        return calls

    def _call(self, call_id: str) -> _Call:
        """Name and input of a call, from the line that made it."""
        for item in self._earlier.at(self._calls.get(call_id)):
            if call_id in (text_of(item, "call_id"), text_of(item, "id")):
                given = item.get("arguments", item.get("input", object_of(item, "action")))
                name = text_of(item, "name") or text_of(item, "type")
                return called(name, text_of(item, "namespace"), arguments(given))
        return _NONE

    def _output(self, places: list[int]) -> str:
        """What a process printed, from the lines that showed it."""
        return "".join(output_of(item.get("output")).text for place in places for item in self._earlier.at(place))

    def _remember(self, item: Mapping[str, Any]) -> None:
        call_id = text_of(item, "call_id") or text_of(item, "id")
        if not call_id:
            raise Unreadable("call_id is missing")
        self._calls[call_id] = self._earlier.keep(item)
        keep_newest(self._calls, _PENDING)

    def _shown(self, item: Mapping[str, Any], account: Account) -> list[Told]:
        call_id = text_of(item, "call_id")
        if not call_id:
            raise Unreadable("call_id is missing")
        output = output_of(item.get("output"))
        name, given = self._call(call_id)
        running = self._memory.setdefault("running", {})
        process = output.running or (str(given.get("session_id", "")) if name == "write_stdin" else "")
        if process and (output.running or process in running):
            return self._printed(process, call_id, item, output, account)
        return self._tell(call_id, output, account) if name else []

    def _printed(
        self, process: str, call_id: str, item: Mapping[str, Any], output: Output, account: Account
    ) -> list[Told]:
        """A process that is still running, or was when it was last looked at."""
        running: dict[str, tuple[str, list[int]]] = self._memory["running"]
        first, places = running.get(process, (call_id, []))
        if len(places) < _PENDING:
            places = [*places, self._earlier.keep(item)]
        if call_id != first:
            self._calls.pop(call_id, None)
        if output.running and (first in self._calls):
            running[process] = first, places
            keep_newest(running, _PENDING)
            return []
        running.pop(process, None)
        ended = Output(self._output(places), output.exit_code)
        return self._tell(first, ended, account) if first in self._calls else []

    def _tell(self, call_id: str, output: Output, account: Account, made: _Call = _NONE) -> list[Told]:
        """The event of a call; `made` is what its record says of it, if no line made it."""
        name, given = self._call(call_id) if call_id in self._calls else made
        self._told.append(call_id)
        if not name or is_own(name, given):
            return []
        cwd = account.cwd
        told = account.tell(
            f"tool:{call_id}",
            EventType.TOOL_RESULT,
            Role.TOOL,
            call_text(name, given, output, cwd),
            (call_id,),
            tool=name,
            files=touched(name, given, cwd),
            failed=has_failed(name, output),
            is_interrupt=output.stopped,
        )
        return [told]


def _searched(item: Mapping[str, Any], account: Account) -> list[Told]:
    action = object_of(item, "action")
    asked = text_of(action, "query") or text_of(action, "url")
    if not asked:
        return []
    name = text_of(item, "id") or f"{account.ms}:{digest(asked)}"
    return [account.tell(f"tool:{name}", EventType.TOOL_RESULT, Role.TOOL, f"web_search: {asked}", tool="web_search")]
