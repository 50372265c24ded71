"""The hits of a search as text: the best with the passage that matters and its reply, the others in a line each.

The room is shared out by worth: whoever stands further up gets more characters, and what short passages leave over goes
to the longer ones. Only the first id is written out; the others are shortened, which expand_grip understands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.nodes import event_grip_id, short_grip_id
from mcp_memory.domain.text import safe
from mcp_memory.search.hits import Hit, Reply

#: Tokens per hit from which on each gets its score and its session.
_ROOMY = 48
#: From this score on the best hit holds what matters, and what it lacks need not be said.
_SURE = 0.8
#: What a passage's room is shared out by: a clear hit takes it from the others, a doubtful one has to be compared.
_BEST, _CLEAR, _NEIGHBOUR = 0.2, 4.0, 0.6
#: Characters of a passage: below the least nothing can be understood, above the most expand_grip is the better way.
_LEAST, _MOST, _MOST_BEST = 60, 400, 900
_PER_TOKEN = 3.6
_ROUNDS, _FULL = 6, 0.96
#: Characters of the passages of many hits, by their place; the last holds for all that follow.
_SHORT = (180, 100, 100, 60)
#: Those that are tried for the best one.
_TIGHT = (180, 100, 60, 30)
#: From here on an id also says where in its event the passage stands.
_DEEP = 400
#: How many grips a summary is shown with.
_GRIPS = 2
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)


@dataclass(frozen=True, slots=True)
class HitLines:
    """Writes hits for a certain room."""

    count: Callable[[str], int]
    moment: Callable[[int], str]

    def lines(self, hits: Sequence[Hit], room: int) -> list[tuple[str, ...]]:
        """The lines of each hit, filling the room as well as passages allow; what is too much is left to the page.

        A hit that is the reply to one above it has been told there, and has no line of its own.
        """
        if room / max(len(hits), 1) < _ROOMY:
            return self._in_short(hits, room)
        unit, low, high = _first_unit(hits, room), 0.0, 0.0
        best: list[tuple[str, ...]] = []
        for _ in range(_ROUNDS):
            written = [self._hit(at, hits, unit) for at in range(len(hits))]
            spent = sum(self.count("\n".join(lines)) + 1 for lines in written if lines)
            if spent <= room:
                best, low = written, unit
                if spent >= _FULL * room:
                    break
            else:
                high = unit
            unit = (low + high) / 2 if high else unit * 1.6
        return best or written

    def _in_short(self, hits: Sequence[Hit], room: int) -> list[tuple[str, ...]]:
        """A line for each hit, up to the first that does not fit; the others will not be shown and need none."""
        written: list[tuple[str, ...]] = []
        for at, hit in enumerate(hits):
            if room <= 0:
                written.append(("…",))
            else:
                written.append(self._best_in(hit, room) if at == 0 else self._short(at, hit, _short_width(at)))
            room -= self.count(written[-1][0]) + 1
        return written

    def _best_in(self, hit: Hit, room: int) -> tuple[str, ...]:
        """The best hit is shown in any room that holds a few words of it: an answer without one says nothing."""
        for width in _TIGHT:
            line = self._short(0, hit, width)
            if self.count(line[0]) < room:
                break
        return line

    def _short(self, at: int, hit: Hit, width: int) -> tuple[str, ...]:
        """One line: of many hits, each shows little, so that the evidence of all fits in."""
        said = _said(hit, width)
        return (f"{at + 1}. {self.moment(hit.start_ms)[:10]} {hit.role or hit.kind} {_target(hit)} {said}",)

    def _hit(self, at: int, hits: Sequence[Hit], unit: float) -> tuple[str, ...]:
        """A hit and the reply to it, with `unit` characters for each share of room."""
        hit, above = hits[at], hits[:at]
        if _told_above(_name(hit), above):
            return ()
        lines = self._next(at, hits, unit) if at else self._best(hits, unit)
        if hit.reply and not _told_above(hit.reply.event_id, above):
            said = _window(hit.reply, _reply_share(at, hit, hits) * unit)
            lines.append(f"  → {_number(hit.reply, hits)}{hit.reply.event.role} {short_of(hit.reply)} {said}")
        return tuple(lines)

    def _best(self, hits: Sequence[Hit], unit: float) -> list[str]:
        hit = hits[0]
        lack = f" · without: {', '.join(hit.missing[:4])}" if hit.missing and hit.score < _SURE else ""
        who = f"{self.moment(hit.start_ms)} {hit.role or hit.kind}{_where(hits, 0)}"
        return [
            f"1. {hit.score:.2f} {hit.band} · {who} · {_target(hit, whole=True, words=True)}{lack}",
            f"  {_said(hit, _width(_share(0, hit) * unit, _MOST_BEST))}",
        ]

    def _next(self, at: int, hits: Sequence[Hit], unit: float) -> list[str]:
        hit, day = hits[at], self.moment(hits[at].start_ms)[:10]
        same = _as_above(hits, at) and day == self.moment(hits[at - 1].start_ms)[:10]
        who = f"{'' if same else day + ' '}{hit.role or hit.kind}{_where(hits, at)}"
        said = _said(hit, _width(_share(at, hit) * unit, _MOST))
        return [f"{at + 1}. {hit.score:.2f} {who} {_target(hit, words=True)} {said}"]


def _first_unit(hits: Sequence[Hit], room: int) -> float:
    """Characters per share, if passages were endless and ids of usual length."""
    shares = 0.0
    for at, hit in enumerate(hits):
        told = _told_above(_name(hit), hits[:at])
        shares += 0.0 if told else _share(at, hit)
        shares += _reply_share(at, hit, hits) if hit.reply and not told else 0.0
    fixed = 30 * len(hits) + 25
    return max(room - fixed, 40) * _PER_TOKEN / max(shares, 1.0)


def _where(hits: Sequence[Hit], at: int) -> str:
    """The session of a hit, and its project where there are several."""
    if _as_above(hits, at):
        return ""
    hit, several = hits[at], len({other.project for other in hits}) > 1
    session = f" s:{short_session(hit.session_id)}" if hit.session_id else ""
    return f"{session} @{hit.project}" if several else session


def _as_above(hits: Sequence[Hit], at: int) -> bool:
    """Date and session are said where they change."""
    return at > 0 and hits[at].session_id == hits[at - 1].session_id


def _share(at: int, hit: Hit) -> float:
    plain = 1.0 if hit.score > 0 else _NEIGHBOUR
    return plain + _CLEAR * hit.score + (_BEST if at == 0 else 0.0)


def _reply_share(at: int, hit: Hit, hits: Sequence[Hit]) -> float:
    """A reply has as much room as what it answers; one that is a hit as well has the room of that, too."""
    own = [_share(1, other) for other in hits if hit.reply and hit.reply.event_id in other.event_ids]
    return _share(at, hit) + sum(own)


def _short_width(at: int) -> int:
    return _SHORT[min(at, len(_SHORT) - 1)]


def _width(wanted: float, most: int) -> int:
    return int(max(_LEAST, min(most, wanted)))


def _said(hit: Hit, width: int) -> str:
    return safe(hit.passage.window(width))


def _window(reply: Reply, wanted: float) -> str:
    return safe(reply.passage.window(_width(wanted, _MOST)))


def _name(hit: Hit) -> str:
    """The event that a hit is, or the first one behind it."""
    return hit.event_ids[0] if hit.event_ids else ""


def _told_above(event_id: str, above: Sequence[Hit]) -> bool:
    """Whether an event was shown already, as a hit or as the reply to one."""
    return any(event_id in hit.event_ids or (hit.reply and hit.reply.event_id == event_id) for hit in above)


def _number(reply: Reply, hits: Sequence[Hit]) -> str:
    """The number of a reply that is a hit as well."""
    return next((f"{at}. " for at, hit in enumerate(hits, 1) if reply.event_id in hit.event_ids), "")


def _target(hit: Hit, *, whole: bool = False, words: bool = False) -> str:
    """The id to go on with: of a message its own grip, which opens all of it at the place that matters."""
    if not hit.role:
        return f"{hit.id}{_grips(hit)}" if words else hit.id
    timestamp_ms, key = parse_ulid(hit.event_ids[0])
    place = hit.passage.place
    name = event_grip_id(timestamp_ms, key) if whole else short_grip_id(key)
    return f"{name}+{place}" if place >= _DEEP else name


def _grips(hit: Hit) -> str:
    """Where the words behind a summary stand that was found by its time alone."""
    if hit.matched or hit.missing:
        return ""
    names = list(dict.fromkeys(hit.event_ids))[:_GRIPS]
    return "".join(f" {short_grip_id(parse_ulid(name)[1])}" for name in names)


def short_of(reply: Reply) -> str:
    return short_grip_id(reply.event.key)


def short_session(session_id: str) -> str:
    """A session's id as it is shown: the beginning of a UUID is enough to find it again."""
    return session_id[:8] if _UUID.fullmatch(session_id) else safe(session_id, 60)
