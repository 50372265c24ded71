"""What was really said in Codex: prompts without what the client puts around them, summaries without their preamble."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mcp_memory.clients.account import object_of, text_of
from mcp_memory.clients.claude_text import compact_summary, without_injected

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
