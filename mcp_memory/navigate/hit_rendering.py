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
from mcp_memory.search.hits import Hit, Passage

#: Tokens per hit from which on each gets its score and its session; below it each word counts.
ROOMY = 48
#: From here on an id also says where in its event the passage stands.
DEEP = 400
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
#: How many grips a summary is shown with.
_GRIPS = 2
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)


@dataclass(frozen=True, slots=True)
class HitLines:
    """Writes hits for a certain room."""

    hits: Sequence[Hit]
    count: Callable[[str], int]
    moment: Callable[[int], str]

    def within(self, room: int) -> list[tuple[str, ...]]:
        """The lines of each hit, filling the room as well as passages allow; what is too much is left to the page.

        A hit that is the reply to one above it has been told there, and has no line of its own.
        """
        hits = self.hits
        if room / max(len(hits), 1) < ROOMY:
            return self._in_short(room)
        frames = [self._frame(at) for at in range(len(hits))]
        # Characters for each share, if passages were endless and ids of usual length.
        shares = 0.0
        for at, hit in enumerate(hits):
            if frames[at]:
                shares += _share(at, hit) + (self._reply_share(at) if hit.reply else 0.0)
        unit = max(room - 30 * len(hits) - 25, 40) * _PER_TOKEN / max(shares, 1.0)
        low, high = 0.0, 0.0
        best: list[tuple[str, ...]] = []
        for _ in range(_ROUNDS):
            texts = ["\n".join([_filled(unit, *line) for line in frame]) for frame in frames]
            written = [tuple(text.split("\n")) if text else () for text in texts]
            spent = sum(self.count(text) + 1 for text in texts if text)
            if spent <= room:
                best, low = written, unit
                if spent >= _FULL * room:
                    break
            else:
                high = unit
            unit = (low + high) / 2 if high else unit * 1.6
        return best or written

    def _in_short(self, room: int) -> list[tuple[str, ...]]:
        """A line for each hit, up to the first that does not fit; the others will not be shown and need none.

        The best hit is shown in any room that holds a few words of it: an answer without one says nothing.
        """
        written: list[tuple[str, ...]] = []
        for at, hit in enumerate(self.hits):
            line = "…"
            for width in () if room <= 0 else _TIGHT if at == 0 else _SHORT[at:][:1] or _SHORT[-1:]:
                who = f"{self.moment(hit.start_ms)[:10]} {hit.role or hit.kind}"
                line = f"{at + 1}. {who} {_target(hit)} {safe(hit.passage.window(width))}"
                if self.count(line) < room:
                    break
            written.append((line,))
            room -= self.count(line) + 1
        return written

    def _frame(self, at: int) -> list[tuple[str, Passage, float, int]]:
        """The lines of a hit and of the reply to it: what stands before the passage, the passage itself, its share of
        the room and how many characters it may have."""
        hits, hit = self.hits, self.hits[at]
        if self._is_told_above(hit.event_ids[0] if hit.event_ids else "", at):
            return []
        moment, role = self.moment(hit.start_ms), hit.role or hit.kind
        # Date, session and, where there are several, project are said where they change.
        same = at > 0 and hit.session_id == hits[at - 1].session_id
        # The beginning of a UUID is enough to find a session again.
        session = hit.session_id or ""
        session = session[:8] if _UUID.fullmatch(session) else safe(session, 60)
        where = f" s:{session}" if session and not same else ""
        where += f" @{hit.project}" if not same and len({other.project for other in hits}) > 1 else ""
        if at:
            dated = "" if same and moment[:10] == self.moment(hits[at - 1].start_ms)[:10] else f"{moment[:10]} "
            head = f"{at + 1}. {hit.score:.2f} {dated}{role}{where} {_target(hit, words=True)} "
            lines = [(head, hit.passage, _share(at, hit), _MOST)]
        else:
            lack = f" · without: {', '.join(hit.missing[:4])}" if hit.missing and hit.score < _SURE else ""
            target = _target(hit, whole=True, words=True)
            head = f"1. {hit.score:.2f} {hit.band} · {moment} {role}{where} · {target}{lack}\n  "
            lines = [(head, hit.passage, _share(at, hit), _MOST_BEST)]
        if hit.reply and not self._is_told_above(hit.reply.id, at):
            # A reply that is a hit as well stands here with its number.
            number = next((f"{n}. " for n, each in enumerate(hits, 1) if hit.reply.id in each.event_ids), "")
            head = f"  → {number}{hit.reply.role} {short_grip_id(parse_ulid(hit.reply.id)[1])} "
            lines.append((head, hit.reply.passage, self._reply_share(at), _MOST))
        return lines

    def _is_told_above(self, event_id: str, at: int) -> bool:
        """Whether an event was shown already, as a hit or as the reply to one."""
        above = self.hits[:at]
        return any(event_id in hit.event_ids or (hit.reply and hit.reply.id == event_id) for hit in above)

    def _reply_share(self, at: int) -> float:
        """A reply has as much room as what it answers; one that is a hit as well has the room of that, too."""
        hit = self.hits[at]
        own = [_share(1, other) for other in self.hits if hit.reply and hit.reply.id in other.event_ids]
        return _share(at, hit) + sum(own)


def _filled(unit: float, head: str, passage: Passage, share: float, most: int) -> str:
    """A line, with `unit` characters for each share of room."""
    return head + safe(passage.window(int(max(_LEAST, min(most, share * unit)))))


def _share(at: int, hit: Hit) -> float:
    plain = 1.0 if hit.score > 0 else _NEIGHBOUR
    return plain + _CLEAR * hit.score + (_BEST if at == 0 else 0.0)


def _target(hit: Hit, *, whole: bool = False, words: bool = False) -> str:
    """The id to go on with: of a message its own grip, which opens all of it at the place that matters.

    With `words`, also where the words behind a summary stand that was found by its time alone.
    """
    if not hit.role:
        behind = list(dict.fromkeys(hit.event_ids))[:_GRIPS] if words and not (hit.matched or hit.missing) else ()
        return hit.id + "".join(f" {short_grip_id(parse_ulid(name)[1])}" for name in behind)
    timestamp_ms, key = parse_ulid(hit.event_ids[0])
    place = hit.passage.place
    name = event_grip_id(timestamp_ms, key) if whole else short_grip_id(key)
    return f"{name}+{place}" if place >= DEEP else name
