"""Tool calls of Claude Code as text: one line that names the call, then what came back.

The hook gives the tool's result as an object, the main transcript the object and the model's view of it, a subagent's
transcript the view alone. All three must give the same text, or a call would be two memories.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_SHORT = 200
_LONG_COMMAND = 300
_OWN_TOOL = re.compile(r"mcp__(?:plugin_.*_)?(?:mcp[-_])?memory__")
_OWN_SERVERS = frozenset({"memory", "mcp-memory", "mcp_memory"})
_OWN_COMMAND = re.compile(
    r"(?:^|[;&|(]\s*)(?:\S*/)?(?:mcp-memory|python3?\s+-m\s+mcp_memory)\s+"
    r"(?:toc|node|grip|search|timeline|context|snapshot|session|export|forget)\b",
    re.MULTILINE,
)
#: Tools whose result says something about the client alone.
_BOOKKEEPING = frozenset({"ToolSearch"})
_FILE_TOOLS = frozenset({"Read", "Edit", "MultiEdit", "Write", "NotebookEdit", "NotebookRead"})
_TELLING_FIELD = {
    "WebFetch": "url",
    "WebSearch": "query",
    "Task": "description",
    "Agent": "description",
    "ExitPlanMode": "plan",
}
_LINE_NUMBER = re.compile(r"^ *\d+(?:→|\t)", re.MULTILINE)
_ERROR_TAG = re.compile(r"</?(?:tool_use_error|error)>")
_NOTHING_SAID = frozenset({"(Bash completed with no output)", "Tool ran without output"})
_FOUND_FILES = re.compile(r"\AFound \d+ files?(?: limit: \d+)?\n")
_AGENT_FOOTER = re.compile(r"\n*agentId: \S+ \(.*", re.DOTALL)


def is_own(name: str, given: Mapping[str, Any], server: object = "") -> bool:
    """Whether the call read our own memory, or only the client's list of tools: not to be remembered again."""
    if name in _BOOKKEEPING or _OWN_TOOL.match(name):
        return True
    servers = (server, given.get("server")) if "Mcp" in name else (server,)
    if any(isinstance(one, str) and one.rpartition(":")[2] in _OWN_SERVERS for one in servers):
        return True
    return name == "Bash" and bool(_OWN_COMMAND.search(_text(given, "command")))


def call_text(name: str, given: Mapping[str, Any], result: str, cwd: str) -> str:
    """The event's text: the call, then the result if there is any."""
    return "\n".join(part for part in (headline(name, given, cwd), result) if part)


def headline(name: str, given: Mapping[str, Any], cwd: str) -> str:
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        name = f"{server}.{tool}" if tool else server
        short = clip(compact(given), _SHORT) if given else ""
    else:
        short = _short_input(name, given, cwd)
    return f"{name}: {short}" if short else name


def _short_input(name: str, given: Mapping[str, Any], cwd: str) -> str:
    if name == "Bash":
        return _short_command(given)
    if name in _FILE_TOOLS:
        return relative(_file(given), cwd)
    if name in ("Grep", "Glob"):
        where = relative(_text(given, "path"), cwd)
        pattern = clip(_one_line(_text(given, "pattern")), _SHORT)
        return f"{pattern} in {where}" if where and where != cwd else pattern
    if name == "TodoWrite":
        return ""
    field = _TELLING_FIELD.get(name)
    short = _one_line(_text(given, field)) if field else ""
    return clip(short or (compact(given) if given else ""), _SHORT)


def _short_command(given: Mapping[str, Any]) -> str:
    command = _text(given, "command").strip().partition("\n")[0].rstrip()
    if len(command) > _LONG_COMMAND:
        return clip(_one_line(_text(given, "description")) or command, _LONG_COMMAND)
    return command


def touched(name: str, given: Mapping[str, Any], cwd: str) -> list[str]:
    """The files that the call names."""
    path = _file(given) if name in _FILE_TOOLS else ""
    return [relative(path, cwd)] if path else []


def result_text(name: str, given: Mapping[str, Any], response: object) -> str:
    """What a call that went well gave back: `response` is the tool's object, or the model's view of it."""
    if isinstance(response, dict):
        text = _from_object(given, response)
    else:
        text = _from_view(name, given, without_injected(blocks_text(response)).strip("\n"))
    return without_injected(text).strip("\n").rstrip()


def failure_text(error: object) -> str:
    """What a failed call gave back."""
    return _ERROR_TAG.sub("", without_injected(blocks_text(error))).strip()


def blocks_text(content: object) -> str:
    """The text of message content: a string, a block or a list of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return _block_text(content)
    if isinstance(content, Sequence):
        return "\n".join(filter(None, map(blocks_text, content)))
    return ""


def _block_text(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind in ("image", "document"):
        return f"[{kind}]"
    for field in ("text", "content", "uri", "tool_name"):
        if isinstance(block.get(field), str):
            return str(block[field])
    resource = block.get("resource")
    return _block_text(resource) if isinstance(resource, dict) else ""


def _from_object(given: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Told by its shape, not by the tool's name: names change between versions."""
    if "stdout" in result or "stderr" in result:
        return _shell(result)
    if isinstance(result.get("file"), dict):
        return _file_content(result, result["file"])
    if isinstance(result.get("newTodos"), list):
        return _todos(result["newTodos"])
    if changed := _changes(result) or ("structuredPatch" in result and _changes(given)):
        return changed
    if isinstance(result.get("filenames"), list):
        return _search(result)
    if isinstance(result.get("answers"), dict):
        return "\n".join(f"{question} → {answer}" for question, answer in result["answers"].items())
    if isinstance(result.get("results"), list):
        return "\n".join(filter(None, map(_web_hit, result["results"])))
    for field in ("result", "content", "plan", "new_source", "output", "message", "text"):
        if text := blocks_text(result.get(field)):
            return text
    return compact(result)


def _from_view(name: str, given: Mapping[str, Any], text: str) -> str:
    """The same as from the object, where only what the model saw is known."""
    if name in ("Edit", "MultiEdit"):
        return _changes(given) or text
    if name == "Write":
        return _text(given, "content") or text
    if name == "TodoWrite" and isinstance(given.get("todos"), list):
        return _todos(given["todos"])
    if name == "Read":
        return _LINE_NUMBER.sub("", text)
    if name == "Grep":
        return _FOUND_FILES.sub("", text)
    if name in ("Task", "Agent"):
        return _AGENT_FOOTER.sub("", text)
    return "" if text.strip() in _NOTHING_SAID else text


def _shell(result: Mapping[str, Any]) -> str:
    if result.get("isImage") is True:
        return "[image]"
    parts = [_text(result, "stdout").strip("\n").rstrip(), _text(result, "stderr").strip()]
    if not any(parts) and (task := _text(result, "backgroundTaskId")):
        return f"Command running in background with ID: {task}"
    return "\n".join(filter(None, parts))


def _file_content(result: Mapping[str, Any], file: Mapping[str, Any]) -> str:
    if text := _text(file, "content"):
        return text
    if isinstance(file.get("cells"), list):
        return "\n\n".join(_text(cell, "source") for cell in file["cells"] if isinstance(cell, dict))
    kind = _text(result, "type")
    return f"[{kind}]" if kind not in ("", "text") else ""


def _changes(edit: Mapping[str, Any]) -> str:
    """The lines that an edit took out and put in, by the tool's object or its input."""
    edits = edit.get("edits")
    pairs = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else [edit]
    return "\n".join(filter(None, map(_change, pairs)))


def _change(edit: Mapping[str, Any]) -> str:
    old = (_text(edit, "oldString") or _text(edit, "old_string")).splitlines()
    new = (_text(edit, "newString") or _text(edit, "new_string")).splitlines()
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    return "\n".join([*(f"- {line}" for line in gone), *(f"+ {line}" for line in come)])


def _search(result: Mapping[str, Any]) -> str:
    content = _text(result, "content")
    names = [name for name in result["filenames"] if isinstance(name, str)]
    if content or names:
        return content or "\n".join(names)
    return "No matches found" if result.get("mode") in ("content", "count") else "No files found"


def _todos(todos: list[Any]) -> str:
    marks = {"completed": "x", "in_progress": "~"}
    items = [todo for todo in todos if isinstance(todo, dict)]
    return "\n".join(f"[{marks.get(_text(todo, 'status'), ' ')}] {_text(todo, 'content')}" for todo in items)


def _web_hit(hit: object) -> str:
    if isinstance(hit, dict) and isinstance(hit.get("content"), list):
        pages = [page for page in hit["content"] if isinstance(page, dict)]
        return "\n".join(f"{_text(page, 'title')} {_text(page, 'url')}".strip() for page in pages)
    return blocks_text(hit)


def _text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


def _file(given: Mapping[str, Any]) -> str:
    return _text(given, "file_path") or _text(given, "notebook_path")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def relative(path: str, cwd: str) -> str:
    """The path as seen from the working directory, if it lies below."""
    root = cwd.rstrip("/\\")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("/", "\\"):
        return path[len(root) + 1 :]
    return path


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def compact(value: object) -> str:
    """One line of JSON; what cannot be written so is told as nothing."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, RecursionError):
        return ""


#: Blocks that the client or a hook writes into a user's message.
_INJECTED = (
    "system-reminder hook_context ide_opened_file ide_selection ide_diagnostics new-diagnostics task-notification "
    "teammate-message user-prompt-submit-hook session-start-hook local-command-caveat local-command-stdout "
    "local-command-stderr bash-stdout bash-stderr"
).split()
_OPENING = re.compile(rf"<({'|'.join(_INJECTED)})(?:\s[^<>]*)?>")
_COMMAND_TAGS = ("<command-name>", "<command-message>")
_BARE_COMMAND = re.compile(r"/(?:clear|compact|model|exit|quit|help|config|cost|status|resume|login|logout|mcp|memory)")
_INTERRUPTED = "[Request interrupted by user"
#: The client says these in the user's or the model's name.
_NOT_TYPED = ("Operation stopped by hook: ", "Caveat: The messages below were generated by the user")
_NOT_SAID = frozenset({"", "(no content)", "No response requested."})

_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)
_SUMMARY_TAG = re.compile(r"</?summary>")
_PREAMBLE = "This session is being continued from a previous conversation"
_SUMMARY_HEAD = re.compile(r"^Summary:[ \t]*$", re.MULTILINE)
_CLOSING = re.compile(
    r"\n\s*(?:If you need specific details from before compaction|Recent messages are preserved verbatim"
    r"|(?:Please )?[Cc]ontinue the conversation from where)"
)


def without_injected(text: str) -> str:
    """The text without the blocks that a client or a hook put into it. An unclosed block is left as it is."""
    if "</" not in text:
        return text
    parts: list[str] = []
    position, unclosed = 0, set[str]()
    for opening in _OPENING.finditer(text):
        tag = opening[1]
        if opening.start() < position or tag in unclosed:
            continue
        end = text.find(f"</{tag}>", opening.end())
        if end < 0:
            unclosed.add(tag)  # so that a thousand unclosed tags do not cost a thousand searches
            continue
        parts.append(text[position : opening.start()])
        position = end + len(tag) + 3
    return "".join([*parts, text[position:]]) if parts else text


def typed(text: str) -> str:
    """What the user typed, from a prompt as a hook or a transcript tells it; empty if it was nothing worth keeping."""
    text = text.strip()
    if text.startswith(_COMMAND_TAGS):
        return _command(text)
    if text.startswith("<bash-input>"):
        command = _inside(text, "bash-input")
        return f"! {command}" if command else ""
    if text.startswith(_NOT_TYPED) or _BARE_COMMAND.fullmatch(text):
        return ""
    return without_injected(text).strip()


def _command(text: str) -> str:
    """A slash command as it was typed.

    The client's own commands tell their name first, those that are prompts their message: `/exit` says nothing,
    `/review-pull-request` is a request.
    """
    name, args = _inside(text, "command-name"), _inside(text, "command-args")
    if not name or (not args and (text.startswith("<command-name>") or _BARE_COMMAND.fullmatch(name))):
        return ""
    name = name if name.startswith("/") else f"/{name}"
    return f"{name} {args}".strip()


def _inside(text: str, tag: str) -> str:
    _, opened, rest = text.partition(f"<{tag}>")
    inner, closed, _ = rest.partition(f"</{tag}>")
    return inner.strip() if opened and closed else ""


def interrupted(text: str) -> bool:
    return text.lstrip().startswith(_INTERRUPTED)


def said(text: str) -> str:
    """What the model said; empty for the client's stand-ins."""
    text = text.strip()
    return "" if text in _NOT_SAID else text


def compact_summary(text: str) -> str:
    """The summary alone, from the hook's form (tags) and the transcript's (headings between set phrases)."""
    text = _SUMMARY_TAG.sub("", _ANALYSIS.sub("", text)).strip()
    if text.startswith(_PREAMBLE):
        _, _, text = text.partition("\n")
        if closing := _CLOSING.search(text):
            text = text[: closing.start()]
    if head := _SUMMARY_HEAD.search(text):
        text = text[head.end() :]
    return text.strip()
