"""What the user wants forgotten, what that comes to, and what it means for data that is not an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mcp_memory.capture.project import places
from mcp_memory.domain.matching import TextMatch, match_of
from mcp_memory.domain.projects import slugify
from mcp_memory.domain.text import holds, same_letters

#: Bytes of a key that a short id tells.
KEY_BEGINNING = 5
#: How many events of a request are shown before they go.
PREVIEWED = 10


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: exactly one of these is given. With `part` a text matches inside of words, too."""

    session_id: str | None = None
    event_key: bytes | None = None
    project: str | None = None
    before_ms: int | None = None
    match: str | None = None
    #: Whether the text may be part of a word.
    part: bool = False
    #: Whether only what is stored now is refused later, and not what else falls under the request.
    only_stored: bool = False

    @property
    def kind(self) -> str:
        """Return how the request names what is to be forgotten: session, event, project, before or match."""
        given = {
            "session": self.session_id,
            "event": self.event_key,
            "project": self.project,
            "before": self.before_ms,
            "match": self.match,
        }
        return next(name for name, value in given.items() if value is not None)

    @property
    def text_match(self) -> TextMatch | None:
        return None if self.match is None else match_of(self.match, part=self.part)


@dataclass(frozen=True, slots=True)
class ForgetCounts:
    """How much falls under a request. `inbox` counts what waits to become an event, in the inbox and in the spool.

    `cleared` events say something else and lose a path or name that bears the text; `names` bear it and stay.
    `summaries` counts the nodes and records that hold the text, of which the pipeline may make more at any time.
    `handed` counts what was kept of answers to agents, which grows with each of them.
    """

    events: int
    sessions: int
    inbox: int = 0
    cleared: int = 0
    names: tuple[str, ...] = ()
    summaries: int = field(default=0, compare=False)
    handed: int = field(default=0, compare=False)
    #: The keys of the first events, for a preview.
    first: tuple[bytes, ...] = field(default=(), compare=False)
    #: How many other events hold the text as a part of words, and some of those words.
    in_words: int = field(default=0, compare=False)
    words: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ForgetScope:
    """What a request means for that which is no event: a payload, a file, what a reader keeps."""

    request: ForgetRequest
    #: Under which names the project is captured, and under which all others are.
    places: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    #: The session of the forgotten event, and what it said.
    said: frozenset[tuple[str, str]] = frozenset()
    #: The sessions of all forgotten events.
    sessions: frozenset[str] = frozenset()
    #: How the keys of all forgotten events, and of grips on them, begin.
    beginnings: frozenset[bytes] = frozenset()

    def covers(self, received_ms: int, root: str, label: str, payload: str, remote: str = "") -> bool:
        """Whether a captured payload falls under the request."""
        request = self.request
        if request.before_ms is not None:
            return received_ms < request.before_ms
        if request.project is not None:
            known = [place for place in places(root, label, remote) if place in self.places or place in self.others]
            return known[0] in self.places if known else bool(label and not root) and slugify(label) == request.project
        return self.is_in(f"{root}\n{label}\n{remote}\n{payload}")

    def covers_rest(self, modified_ms: int, text: str) -> bool:
        """The same for what is left of a payload that cannot be read."""
        if self.request.before_ms is not None:
            return modified_ms < self.request.before_ms
        names = [place.removeprefix("label:") for place in self.places]
        return any(holds(text, same_letters(f'"{name}"')) for name in names) or self.is_in(text)

    def is_in(self, text: str) -> bool:
        """Whether it holds the text, or as whole values the session's name, or an event's and what that said."""
        request = self.request
        if match := request.text_match:
            return match.is_in(text)
        wanted = [*self.said, *([(request.session_id,)] if request.session_id else [])]
        told = [values for values in wanted if all(map(_sought, values))]
        return any(all(holds(text, _sought(f'"{value}"')) for value in values) for values in told)


#: The same few values are looked for in many texts.
_sought = lru_cache(maxsize=64)(same_letters)


def without_names(value: Any, holds_text: Callable[[str], bool]) -> Any:
    """Return metadata without the paths, branches and other names that hold the text."""

    def bears(item: object) -> bool:
        return isinstance(item, str) and holds_text(item)

    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not bears(key) and not bears(item)}
        return {key: without_names(item, holds_text) for key, item in kept.items()}
    if isinstance(value, list):
        return [without_names(item, holds_text) for item in value if not bears(item)]
    return value
