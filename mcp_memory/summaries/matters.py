"""What the bullets of a node are about: the matter that is put before a bullet among those of other matters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcp_memory.domain.nodes import Bullet, Node
from mcp_memory.domain.text import terms
from mcp_memory.domain.toc import Level
from mcp_memory.summaries.phrases import headline
from mcp_memory.summaries.readability import readability, word_count

_CALENDAR = re.compile(r"(?:Week of |\w+day, |\w+ \d{4}|\d{4})[^:]*: ")
#: What stands between a matter and what is said of it.
PLACE = " – "
_MAX_WORDS = 10
_ASKED = ("Asked: ", "Reported: ", "User: ")
_READABLE = 0.85
_RAISED = 0.7
_SAME_MATTER_MS = 12 * 3_600_000


def matters_of(child: Node) -> list[str]:
    """The matter of each of a child's bullets; empty where it is not known.

    A segment is about one matter, and a period if its topic names only one. Else a bullet goes on with the matter that
    one before it names, if both come from the same place and were said within half a day.
    """
    whole = _whole(child)
    if whole or child.level is Level.SEGMENT:
        # What was told before the matter was raised is about another one.
        raised = _raised(whole, child.bullets) if child.level is Level.SEGMENT else 0
        return [placed_in(one.text) or (whole if at >= raised else "") for at, one in enumerate(child.bullets)]
    matters: list[str] = []
    current = ""
    source: tuple[str, ...] = ()
    since = 0
    for bullet in child.bullets:
        said = _said_at(bullet)
        if bullet.child_ids != source or said - since > _SAME_MATTER_MS:
            current, source = "", bullet.child_ids
        since = said
        current = placed_in(bullet.text) or current or _asked_for(bullet)
        matters.append(current)
    return matters


def _said_at(bullet: Bullet) -> int:
    """When the words of a bullet were said, which its grips tell; 0 if it has none."""
    parts = bullet.grip_ids[0].split(":") if bullet.grip_ids else []
    return int(parts[1]) if len(parts) > 1 and parts[1].lstrip("-").isdecimal() else 0


def _raised(matter: str, bullets: Sequence[Bullet]) -> int:
    """Where a matter is asked for or reported among the bullets of a segment; 0 if it is not."""
    theme = terms(matter)
    asked = (at for at, one in enumerate(bullets) if one.text.startswith(_ASKED))
    return next((at for at in asked if theme and len(theme & terms(bullets[at].text)) >= _RAISED * len(theme)), 0)


def is_placed(text: str) -> bool:
    return bool(placed_in(text))


def placed_in(text: str) -> str:
    """The matter that stands before a bullet."""
    before, mark, _ = text.partition(PLACE)
    return before if mark and 1 < word_count(before) <= _MAX_WORDS and ": " not in before and "`" not in before else ""


def _asked_for(bullet: Bullet) -> str:
    """The matter that a request names, if it reads well by itself."""
    asked = next((bullet.text[len(mark) :] for mark in _ASKED if bullet.text.startswith(mark)), "")
    named = headline(asked.partition("; ")[0], dict.fromkeys(terms(asked), 0.5)) if asked else ""
    return named if named and readability(named) >= _READABLE else ""


def _whole(child: Node) -> str:
    if child.level is Level.SEGMENT:
        matter = child.title.partition("; ")[0]
    else:
        matter = topic_in(child)
        matter = "" if ", " in matter else f"{matter[:1].upper()}{matter[1:]}"
    return matter if word_count(matter) <= _MAX_WORDS and ": " not in matter else ""


def topic_in(child: Node) -> str:
    """What stands behind a period's date in its title, or what it is looked for by."""
    calendar = _CALENDAR.match(child.title)
    return child.title[calendar.end() :] if calendar else ", ".join(child.keywords[:2])
