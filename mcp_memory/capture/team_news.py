"""The lines of a brief that tell what others of a team did: read from their file when the brief is printed.

A brief that is ready holds only their place. So what the team's server has erased is in no text that is kept here, and
lines that it has not confirmed for a day are not printed, whoever prints.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The file that `mcp_memory.team.known` writes.
KNOWN = "team-known.json"
#: How long lines may be printed after the server sent them.
NEWS_MS = 86_400_000
NEWS_LINES, LINE_CHARS = 2, 220
HEAD = "Of the team: "
#: A control character, which no text that is shown can hold; and what stands between the parts of a place.
_MARK, _PART = "\x1d", "\x1f"
_MAX_BYTES = 2_000_000


def place_of_news(slug: str, since_ms: int, lines: int) -> str:
    """Return the line that stands for the news of a project since a time, with their maximum number."""
    return f"{_MARK}{slug}{_PART}{since_ms}{_PART}{lines}\n"


def with_news(home: str, brief: str, now_ms: int) -> str:
    """Return the brief with the news that may be printed now."""
    # Earlier versions put the lines themselves into a brief.
    before, mark, rest = "".join(line for line in brief.splitlines(True) if not line.startswith(HEAD)).partition(_MARK)
    if not mark:
        return before
    place, _, after = rest.partition("\n")
    try:
        slug, since_ms, most = place.split(_PART)
        lines = news_lines(read_known(os.path.join(home, KNOWN)), slug, int(since_ms), now_ms)[: int(most)]
    except ValueError:
        lines = []
    return before + "".join(f"{HEAD}{line}\n" for line in lines) + after


def read_known(path: str) -> dict[str, Any]:
    """Return what the file tells, nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def news_lines(known: dict[str, Any], slug: str, since_ms: int, now_ms: int) -> list[str]:
    """Return the lines about a project since a time, if the server sent them within a day."""
    try:
        if not known["mark"] or abs(now_ms - int(known["news_ms"])) >= NEWS_MS:
            return []
        lines = [str(line) for at_ms, line in known["news"].get(slug, ()) if int(at_ms) > since_ms]
    except (AttributeError, KeyError, TypeError, ValueError):
        return []
    return [" ".join(line.split())[:LINE_CHARS] for line in lines[:NEWS_LINES]]
