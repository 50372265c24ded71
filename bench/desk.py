"""An agent's desk: it asks the server's tools through a client, sees nothing but their texts, and keeps account."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcp import Client

from mcp_memory.domain.text import STOP_WORDS, inflected
from mcp_memory.models import tokens

#: A line is not taken for a better one only because it is shorter than this.
SHORT = 10
_WORD = re.compile(r"[^\W_]+")


@dataclass(slots=True)
class Desk:
    """What the agent has read and what it cost."""

    client: Client
    calls: int = 0
    tokens: int = 0
    opened: set[str] = field(default_factory=set)
    read: list[str] = field(default_factory=list)

    async def ask(self, tool: str, **arguments: str | int) -> str:
        result = await self.client.call_tool(tool, dict(arguments))
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        self.calls += 1
        self.tokens += tokens.count(text)
        self.opened |= {str(value) for value in arguments.values()}
        self.read.append(text)
        return text


def stems(text: str) -> frozenset[str]:
    found = (word.lower() for word in _WORD.findall(text))
    return frozenset(inflected(word) for word in found if word not in STOP_WORDS)


def shared(asked: frozenset[str], lines: Iterable[str]) -> list[float]:
    """How much of a question stands in each line, for its length; a word that stands in few of them tells more."""
    found = [stems(line) for line in lines]
    often: Mapping[str, int] = {word: sum(word in words for words in found) for word in asked}
    told = [sum(math.log(1 + len(found) / often[word]) for word in asked & words) for words in found]
    return [much / math.sqrt(SHORT + len(words)) for much, words in zip(told, found, strict=True)]
