"""Keeping the branches that a topic touches: a node stays if it, or anything beneath it, speaks of the topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcp_memory.domain.indexing import terms_of
from mcp_memory.domain.summaries import Bullet, Node
from mcp_memory.domain.text import stem, words
from mcp_memory.domain.toc import Level, NodeRef, ancestors
from mcp_memory.errors import UsageError
from mcp_memory.ports import Library

_LEVELS = frozenset(level.label for level in Level)
_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Topic:
    """The branches of a topic, and the stems of its words."""

    text: str
    stems: frozenset[str]
    branches: frozenset[tuple[str, NodeRef]]

    def keeps(self, node: Node) -> bool:
        return (node.project, node.ref) in self.branches

    def bullets(self, bullets: Sequence[Bullet]) -> list[Bullet]:
        """The bullets that name the topic; all of them if none does, since the branch was kept for a reason."""
        named = [bullet for bullet in bullets if self.stems & {stem(word) for word in words(bullet.text)}]
        return named or list(bullets)


async def topic_of(library: Library, text: str | None, project: str | None) -> Topic | None:
    if text is None or not text.strip():
        return None
    terms = terms_of(text)
    if not terms:
        raise UsageError(f"The topic {text[:60]!r} holds no word to look for; leave it out or name one.")
    found = await library.search(terms, project=project, kinds=_LEVELS, start_ms=None, end_ms=None, limit=_LIMIT)
    branches: set[tuple[str, NodeRef]] = set()
    for candidate in found:
        if candidate.node:
            refs = [candidate.node.ref, *ancestors(candidate.node.ref)]
            branches.update((candidate.project, ref) for ref in refs)
    stems = frozenset(stem(word) for term in terms for word in term.words)
    return Topic(text, stems, frozenset(branches))
