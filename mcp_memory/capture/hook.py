"""The capture hook: hands the event that a client tells on stdin to the inbox; prints the brief at a session's start.

It must never disturb the agent: whatever happens, nothing unexpected is printed and the exit code is 0.
"""

from __future__ import annotations

import json
import os
import sys
import time

from mcp_memory.capture.clipping import bounded, clean, clip, looked_through, shorten
from mcp_memory.capture.home import home_dir
from mcp_memory.capture.inbox import Row, append, read_brief
from mcp_memory.capture.patterns import lazy
from mcp_memory.capture.payload import CLAUDE_CODE, CURSOR, client_of, directory_of, event_of, is_own, is_silent, plain
from mcp_memory.capture.project import detect, places
from mcp_memory.capture.redaction import Clean, redact, redact_json
from mcp_memory.capture.settings import read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mcp_memory.capture.project import Project

_MAX_INPUT = 64 * 1024 * 1024
#: What is larger is not parsed whole: it would take longer than an agent should wait.
_WHOLE = 4 * 1024 * 1024
#: Of a longer string in such a payload the middle is left out; after so many strings the rest of it is.
_LONG, _STRINGS = 1024 * 1024, 100_000
#: More entries of an object are not kept, so not read one by one either.
_ENTRIES = 5_000
_ENTRY = lazy(r'\s{0,99}[{,]\s{0,99}"([^"\\]{1,200})"\s{0,99}:\s{0,99}')

#: How a session starts of which a part is no longer, or may not be, in the model's context.
_GOING_ON = frozenset({"compact", "resume"})


def main(argv: Sequence[str] | None = None) -> int:
    """Capture the event on stdin. Always 0."""
    env = os.environ
    if env.get("MCP_MEMORY_DISABLE", "") not in ("", "0"):
        return 0
    try:
        words = sys.argv[1:] if argv is None else argv
        home = _option(words, "--home")
        output = _capture(_client(words), _read_input(), dict(env, MCP_MEMORY_HOME=home) if home else env)
        if output:
            sys.stdout.buffer.write(output.encode("ascii") + b"\n")
            sys.stdout.buffer.flush()
    except Exception as error:  # the one broad catch: an agent must not notice that its memory failed
        # Of the error only its type: its text could quote what must not be written anywhere.
        sys.stderr.write("mcp-memory: the event was not captured (%s)\n" % type(error).__name__)
    return 0


def _client(argv: Sequence[str]) -> str:
    name = _option(argv, "--client")
    return name if name.replace("-", "").isalnum() and len(name) <= 40 else CLAUDE_CODE


def _option(argv: Sequence[str], option: str) -> str:
    """The value given to an option, as `--option VALUE` or `--option=VALUE`; the last one counts."""
    value = ""
    for index, word in enumerate(argv):
        if word == option and index + 1 < len(argv):
            value = argv[index + 1]
        elif word.startswith(option + "="):
            value = word.partition("=")[2]
    return value


def _read_input() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    data = sys.stdin.buffer.read(_MAX_INPUT)
    while sys.stdin.buffer.read(1 << 20):  # a client must not fail to write the rest
        pass
    return data.decode("utf-8-sig", "replace")


def _capture(client: str, text: str, env: Mapping[str, str]) -> str:
    """Store the event; what to print, or nothing."""
    told = _parse(text)
    if told is None:
        return ""
    client, payload = client_of(told, client), plain(told)
    if is_silent(payload) or is_own(payload, client):
        return ""
    home = home_dir(env)
    settings = read_settings(os.path.join(home, "config.toml"), env)
    project = detect(directory_of(payload), env)
    if not settings.enabled or not project.enabled:
        return ""
    stored = _storable(payload, text, settings.max_event_bytes)
    project = project._replace(root=clean(project.root), label=clean(project.label))
    append(home, Row(_now_ms(), client, project.root, project.label, stored))
    if event_of(payload) != "sessionstart" or not settings.brief:
        return ""
    return _greeting(payload, client, _own_text(home, payload, client) or _brief(home, project))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _brief(home: str, project: Project) -> str:
    """What the server keeps for the project: a name that is claimed has a brief here only if the claim counts."""
    return next(filter(None, (read_brief(home, place) for place in places(project.root, project.label))), "")


def _own_text(home: str, payload: Mapping[str, Any], client: str) -> str:
    """What the server keeps for a session that goes on without its earlier words, if it has a record of it."""
    session = payload.get("session_id")
    if str(payload.get("source")) not in _GOING_ON or not isinstance(session, str) or not session:
        return ""
    return read_brief(home, "session:%s:%s" % (client, session))


def _parse(text: str) -> dict[str, Any] | None:
    """The payload, whatever came; None if nothing did."""
    if not text or text.isspace():
        return None
    if len(text) > _WHOLE:
        text = _without_long_strings(text)
    try:
        payload = json.loads(text) if len(text) <= _WHOLE else None
    except (ValueError, RecursionError):
        payload = None
    if payload is None:
        payload = _entries(text[:_WHOLE])
    return payload if isinstance(payload, dict) else {"unparsed": text}


def _without_long_strings(text: str) -> str:
    parts = []
    last, position, decoder = 0, text.find('"'), json.JSONDecoder(strict=False)
    try:
        for _ in range(_STRINGS):
            if position < 0:
                break
            value, end = decoder.raw_decode(text, position)
            if end - position > _LONG:
                parts += [text[last:position], json.dumps(shorten(value, _LONG))]
                last = end
            position = text.find('"', end)
    except ValueError:  # cut off within a string
        pass
    return "".join(parts) + text[last:]


def _entries(text: str) -> dict[str, Any] | None:
    """The entries of an object that is cut off, broken or too large: the last one as the text that is left of it."""
    found: dict[str, Any] = {}
    entry = _ENTRY().match(text)
    for _ in range(_ENTRIES):
        if not entry:
            break
        try:
            found[entry[1]], position = json.JSONDecoder().raw_decode(text, entry.end())
        except (ValueError, RecursionError):
            return {**found, entry[1]: text[entry.end() :]} if found else None
        entry = _ENTRY().match(text, position)
    return found or None


def _storable(payload: dict[str, Any], text: str, max_bytes: int) -> Clean:
    """The payload as JSON text, without secrets and with no string longer than allowed."""
    try:
        clear = _clip_json(redact_json(bounded(payload, max_bytes)), max_bytes)
    except RecursionError:
        clear = {"unparsed": clip(redact(looked_through(text, max_bytes)), max_bytes)[0]}
    return Clean(json.dumps(clear, ensure_ascii=False, separators=(",", ":")))


def _clip_json(value: Any, max_bytes: int) -> Any:
    if isinstance(value, str):
        return clip(value, max_bytes)[0]
    if isinstance(value, dict):
        return {clip(key, max_bytes)[0]: _clip_json(item, max_bytes) for key, item in value.items()}
    if isinstance(value, list):
        return [_clip_json(item, max_bytes) for item in value]
    return value


def _greeting(payload: Mapping[str, Any], client: str, brief: str) -> str:
    """The brief in the form the client takes as context; escaped to ASCII, which every console can print."""
    if not brief:
        return ""
    if client == CURSOR:
        return json.dumps({"additional_context": brief})
    event = payload.get("hook_event_name")
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": brief}})
