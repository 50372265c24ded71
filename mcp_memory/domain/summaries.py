"""Summaries as a summarizer gives them, and the node versions they become."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_memory.domain.depth import Metrics
from mcp_memory.domain.toc import Level, NodeRef


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a bullet's words stand: characters `start` to `end` of one event's text."""

    event_key: bytes
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DraftBullet:
    """A bullet of a segment. Without evidence it gets no grip, rather than a wrong one."""

    text: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """A segment's summary; `written_by` is who wrote it, if not the summarizer that was asked."""

    title: str
    bullets: tuple[DraftBullet, ...]
    keywords: tuple[str, ...]
    written_by: str = ""
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True)
class Bullet:
    """A stored bullet: its grips lead to the words, its children to where it came from."""

    text: str
    grip_ids: tuple[str, ...] = ()
    child_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RollupSummary:
    """A period's summary: `topic` joins the calendar title, bullets carry grips and children upward."""

    topic: str
    bullets: tuple[Bullet, ...]
    keywords: tuple[str, ...]
    written_by: str = ""
    metrics: Metrics | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One version of one node."""

    ref: NodeRef
    project: str
    version: int
    title: str
    start_ms: int
    end_ms: int
    bullets: tuple[Bullet, ...]
    keywords: tuple[str, ...]
    child_ids: tuple[str, ...]
    open: bool
    written_by: str
    input_hash: str
    tokens: int = 0
    removed: bool = False
    created_ms: int = 0
    session_id: str | None = None
    metrics: Metrics | None = None
    #: How much lies beneath: the tokens of conversation.
    weight: int = 0

    @property
    def level(self) -> Level:
        return self.ref.level

    @property
    def node_id(self) -> str:
        return self.ref.node_id()
