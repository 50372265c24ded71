"""Lines of the table of contents. The first id of each kind is written out, further ones are shortened.

A whole id costs as much as ten words. One of each kind shows its form and can be cited; the others only lead on, and
every tool understands them shortened.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.nodes import Bullet, Node, event_grip_id, parse_grip_id, short_grip_id
from mcp_memory.domain.text import safe
from mcp_memory.domain.toc import Level
from mcp_memory.search.found import Hit
from mcp_memory.search.scope import Scope

_TITLE, _BULLET = 140, 240
#: From here on the id of something said also tells where in its event the passage stands.
_DEEP = 400


@dataclass(slots=True)
class Ids:
    """Writes the lines of one answer, and remembers what was written out already."""

    scope: Scope
    _told: set[str] = field(default_factory=set)

    def line(self, node: Node, width: int = _TITLE) -> str:
        """A node's id and title; the id already says which day or month it is."""
        name = node.title
        if node.level is not Level.SEGMENT and ": " in name:
            name = name.split(": ", 1)[1]
        name = safe(name, width)
        whole = self.scope.id_of(node.node_id, node.project)
        shown = whole if self._first("segment", node.level) else self.scope.short_id_of(node.ref, node.project)
        return f"{shown} {name}"

    def _first(self, kind: str, level: Level = Level.SEGMENT) -> bool:
        if level is not Level.SEGMENT:
            return True
        first = kind not in self._told
        self._told.add(kind)
        return first

    def bullet(self, bullet: Bullet, *, gripped: bool = True) -> str:
        text = f"- {safe(bullet.text, _BULLET)}"
        return f"{text} {self.grip(bullet.grip_ids[0])}" if gripped and bullet.grip_ids else text

    def grip(self, grip_id: str) -> str:
        return grip_id if self._first("grip") else short_grip_id(parse_grip_id(grip_id)[1])

    def said(self, hit: Hit, when: str, width: int) -> tuple[str, ...]:
        """Something that was said, by its own grip: the whole message, opened where it matters; and the reply to it.

        What was told already, as the reply to another, is not told again.
        """
        if hit.id in self._told:
            return ()
        timestamp_ms, key = parse_ulid(hit.event_ids[0])
        name = self.grip(event_grip_id(timestamp_ms, key))
        place = hit.passage.place
        deep = f"+{place}" if place >= _DEEP else ""
        line = f"* {when} {hit.role} {name}{deep} {safe(hit.passage.window(width))}"
        self._told.add(hit.id)
        reply = hit.reply
        if reply is None or reply.event_id in self._told:
            return (line,)
        self._told.add(reply.event_id)
        words = safe(reply.passage.window(width))
        return line, f"* → {reply.event.role} {short_grip_id(reply.event.key)} {words}"
