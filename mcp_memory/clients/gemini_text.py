"""What was really said in Gemini CLI, and its tool calls as text; hook and transcript give the same words.

The hook names no call, so one call is one memory only if both accounts of it read alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mcp_memory.clients import claude_tools
from mcp_memory.clients.account import object_of, text_of
from mcp_memory.clients.claude_text import without_injected
from mcp_memory.clients.claude_tools import clip, compact, relative
from mcp_memory.clients.lines import settled

SHELL = "run_shell_command"
_FILE_TOOLS = frozenset({"read_file", "write_file", "replace"})
#: What ends a subagent is told as its answer.
_BOOKKEEPING = frozenset({"complete_task"})
_OWN_TOOL = re.compile(r"mcp_(?:mcp[-_])?memory_|(?:mcp[-_])?memory__")
_OWN_SERVERS = frozenset({"memory", "mcp-memory", "mcp_memory"})
#: The client says these in the user's name.
_NOT_TYPED = ("<session_context>", "System: Potential loop detected.")
_BARE_COMMAND = re.compile(r"[/?][\w:-]*")
_REFERENCED = re.compile(r"\s*--- Content from referenced files ---.*(?:--- End of content ---|\Z)", re.DOTALL)
_NO_ANSWER = "[no response text]"
_FENCE = re.compile(r"</?untrusted_context>\n?")
_SHELL_HEAD = re.compile(r"(?:Command: .*?\n)?(?:Directory: [^\n]*\n)?(?:Output|Stdout): ?", re.DOTALL)
_SHELL_TAIL = re.compile(
    r"(?:\A|\n)((?:(?:Error|Stderr|Exit Code|Signal|Background PIDs|Process Group PGID): [^\n]*(?:\n|\Z))+)\s*\Z"
)
_EXIT_CODE = re.compile(r"^Exit Code: (-?\d+)", re.MULTILINE)
_SHELL_ERROR = re.compile(r"^(?:Error|Stderr): (?!\(none\))[^\n]+", re.MULTILINE)
_EMPTY = frozenset({"(empty)", "(none)"})
_SHORT = 200


def typed(text: str) -> str:
    """What the user typed, without the context and the files that the client adds."""
    text = text.strip()
    if text.startswith(_NOT_TYPED):
        return ""
    text = _REFERENCED.sub("", without_injected(text)).strip()
    return "" if _BARE_COMMAND.fullmatch(text) else settled(text)


def said(text: str) -> str:
    """What the model said; empty for the client's stand-in."""
    text = text.strip()
    return "" if text == _NO_ANSWER else text


def parts_text(content: object) -> str:
    """The text of a message, which is a string, a part or a list of parts; thoughts are not said aloud."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return "" if content.get("thought") is True else text_of(content, "text")
    if isinstance(content, list):
        return "\n".join(filter(None, map(parts_text, content)))
    return ""


def is_own(name: str, given: Mapping[str, Any], server: str = "") -> bool:
    """Whether the call read our own memory, or only ended a subagent."""
    if name in _BOOKKEEPING or _OWN_TOOL.match(name) or server in _OWN_SERVERS:
        return True
    return name == SHELL and claude_tools.is_own("Bash", given)


def call_text(name: str, given: Mapping[str, Any], result: str, error: str, cwd: str) -> str:
    """The event's text: the call, then what came back."""
    result = _FENCE.sub("", result).strip("\n").rstrip()
    if error:
        result = _FENCE.sub("", error).strip()
    elif name == SHELL:
        result = _shell(result)
    elif name == "write_file":
        result = text_of(given, "content") or result
    elif name == "replace":
        result = claude_tools.result_text("Edit", given, result)
    elif name == "write_todos" and isinstance(given.get("todos"), list):
        result = result.partition("now:\n")[2] or result
    head = _headline(name, given, cwd)
    return settled("\n".join(filter(None, (head, without_injected(result).strip("\n").rstrip()))))


def failed(name: str, result: str, error: str) -> bool:
    return bool(error) or (name == SHELL and _exit_code(_tail(_FENCE.sub("", result))[1]) != 0)


def touched(name: str, given: Mapping[str, Any], cwd: str) -> list[str]:
    path = _file(given) if name in _FILE_TOOLS else ""
    return [relative(path, cwd)] if path else []


def response_text(response: Mapping[str, Any]) -> tuple[str, str]:
    """Result and error of a call as the hook tells them."""
    content = response.get("llmContent")
    text = parts_text(content) or (compact(content) if isinstance(content, Mapping) else "")
    return text, text_of(object_of(response, "error"), "message")


def recorded_text(result: object) -> tuple[str, str]:
    """Result and error of a call as the transcript tells them."""
    parts = result if isinstance(result, list) else [result]
    answers = [object_of(object_of(part, "functionResponse"), "response") for part in parts]
    texts = [text_of(answer, "output") or (compact(answer) if answer else "") for answer in answers]
    errors = [text_of(answer, "error") for answer in answers]
    if any(errors):
        return "", "\n".join(filter(None, errors))
    return "\n".join(filter(None, texts)) or parts_text(result), ""


def _headline(name: str, given: Mapping[str, Any], cwd: str) -> str:
    if name == SHELL:
        return claude_tools.headline("Bash", given, cwd).replace("Bash", SHELL, 1)
    if name in _FILE_TOOLS:
        short = relative(_file(given), cwd)
    elif name == "write_todos":
        short = ""
    else:
        short = next(filter(None, (text_of(given, key) for key in ("pattern", "query", "url", "dir_path"))), "")
        short = relative(short, cwd) if short and len(given) == 1 else compact(given) if given else ""
    short = clip(" ".join(short.split()), _SHORT)
    return f"{name}: {short}" if short else name


def _file(given: Mapping[str, Any]) -> str:
    return text_of(given, "file_path") or text_of(given, "absolute_path")


def _tail(result: str) -> tuple[str, str]:
    """A shell's result without and with what the client says of it at the end."""
    tail = _SHELL_TAIL.search(result)
    return (result[: tail.start()], tail[1]) if tail else (result, "")


def _exit_code(tail: str) -> int:
    code = _EXIT_CODE.search(tail)
    return int(code[1]) if code else 0


def _shell(result: str) -> str:
    head = _SHELL_HEAD.match(result)
    if not head:
        return result
    printed, tail = _tail(result[head.end() :])
    code = _exit_code(tail)
    shown = [f"Exit code {code}"] if code else []
    shown += [] if printed.strip() in _EMPTY else [printed]
    return "\n".join([*shown, *_SHELL_ERROR.findall(tail)])
