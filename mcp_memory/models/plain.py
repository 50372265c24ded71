"""Prose without a model, for the adaptive summarizer: the most telling sentences of a text, in its own words."""

from __future__ import annotations

import re

from mcp_memory.capture.redaction import Clean
from mcp_memory.domain.events import Event, EventType, Role, event_key
from mcp_memory.domain.text import one_line
from mcp_memory.models.chunks import middle_truncate
from mcp_memory.summaries.extractive import ExtractiveSummarizer

#: How much of an earlier summary is carried over.
_PRIOR_CHARS = 2_400
_SPEAKER = re.compile(r"^(?:\[[^\]]*\]\s*)?(user|human|me|assistant|agent|ai|tool|system)\s*:\s*", re.I)
_LABEL = re.compile(r"(?:\A|\n\n)Section \d+:\n")
_ROLES = {"assistant": Role.ASSISTANT, "agent": Role.ASSISTANT, "ai": Role.ASSISTANT, "tool": Role.TOOL}
_TYPES = {
    Role.USER: EventType.USER_MESSAGE,
    Role.ASSISTANT: EventType.ASSISTANT_MESSAGE,
    Role.TOOL: EventType.TOOL_RESULT,
}


class PlainWriter:
    """Implements the `TextWriter` interface by choosing sentences."""

    written_by = ExtractiveSummarizer.name

    async def write(self, content: str, length: str, content_type: str, prior: str) -> str:
        if length == "merge":
            # The numbers are for a model; here they would be taken for words of the text.
            content = _LABEL.sub("\n\n", content)
        summary = await ExtractiveSummarizer().segment(_events(content, content_type), [])
        chosen = [_sentence(bullet.text) for bullet in summary.bullets]
        text = one_line(chosen[0], 300) if length == "brief" and chosen else " ".join(chosen) or summary.title
        earlier, _ = middle_truncate(prior.strip(), _PRIOR_CHARS)
        return f"{earlier}\n\n{text}" if earlier else text


def _sentence(text: str) -> str:
    return text if text[-1:] in ".!?…。" else text + "."


def _events(content: str, content_type: str) -> list[Event]:
    """The paragraphs as messages: of a conversation by who speaks, of any other text by its author."""
    events = []
    role = Role.ASSISTANT
    for number, paragraph in enumerate(re.split(r"\n[ \t]*\n", content)):
        body = paragraph
        if content_type == "conversation" and (speaker := _SPEAKER.match(paragraph)):
            role = _ROLES.get(speaker[1].lower(), Role.USER)
            body = paragraph[speaker.end() :]
        if body.strip():
            key = event_key("text", "", str(number))
            events.append(Event(key, "text", "", "", number * 1_000, _TYPES[role], role, Clean(body.strip()), 0))
    return events
