"""Tool calls of Codex as text: the hook's view, the model's view and the client's own record read alike."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.account import object_of, text_of
from mcp_memory.clients.claude_tools import blocks_text, compact

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
