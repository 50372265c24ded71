"""Passages as text: the hits of a search with what else was said in the same exchange, and what stands around a grip.

The room is shared out by worth: whoever stands further up gets more characters, and what short passages leave over goes
to the longer ones. The first id is written out, to be cited; the others are short, which every tool understands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mcp_memory.domain.budget import Piece
from mcp_memory.domain.events import Event, EventType, parse_ulid, short_session
from mcp_memory.domain.nodes import event_grip_id, quoted_title, short_grip_id
from mcp_memory.domain.quoting import quoted, quoted_name, unposed_ids
from mcp_memory.domain.text import safe
from mcp_memory.navigate.browse import OpenedGrip
from mcp_memory.search.hits import Hit, Passage, TermMark

#: Tokens per hit from which on each gets its score and the lines beside it; below it each word counts.
ROOMY = 48
#: From here on an id also says where in its event the passage stands.
DEEP = 400
#: From this score on the best hit holds what matters, and what it lacks need not be said.
_SURE = 0.8
#: What a passage's room is shared out by: a clear hit takes it from the others, a doubtful one has to be compared.
_BEST, _CLEAR, _NEIGHBOUR = 0.2, 1, 0.6
#: Characters of a passage: below the least nothing can be understood, above the most expand_grip is the better way.
_LEAST, _MOST, _MOST_BEST = 80, 400, 500
_PER_TOKEN = 3.6
_ROUNDS, _FULL = 6, 0.96
#: Characters of the passages of many hits, by their place; the last holds for all that follow.
_SHORT = (180, 100, 100, 60)
#: Those that are tried for the best one.
_TIGHT = (180, 100, 60, 30)
#: A line beside a hit has so much of its room; there are as many as leave each passage so many tokens.
_BESIDE, _READABLE = 0.7, 70
#: How many grips a summary is shown with, and the characters of its title.
_GRIPS, _TITLE = 2, 90


#: The words of a passage, by the number of characters that they may have.
Words = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class HitLines:
    """Writes hits for a certain room."""

    hits: Sequence[Hit]
    count: Callable[[str], int]
    moment: Callable[[int], str]

    def within(self, room: int) -> list[tuple[str, ...]]:
        """The lines of the first hits, filling the room as well as passages allow; the page may have room for fewer."""
        hits = self.hits
        if room / max(len(hits), 1) < ROOMY:
            return self._in_short(room)
        beside = self._beside(room)
        frames = [self._frame(at, beside[at]) for at in range(len(hits))]
        # Characters for each share, if passages were endless and ids of usual length.
        shares = sum(share for frame in frames for _, _, share, _ in frame)
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
        """A line for each hit that has room for one, and for the first that does not fit.

        The best hit is shown in any room that holds a few words of it: an answer without one says nothing.
        """
        written: list[tuple[str, ...]] = []
        for at, hit in enumerate(self.hits):
            if room <= 0:
                break
            line = ""
            for width in _TIGHT if at == 0 else _SHORT[at:][:1] or _SHORT[-1:]:
                who = f"{self.moment(hit.start_ms)[:10]} {hit.who}{self._where(hit)}"
                line = f"{at + 1}. {who} {_target(hit)} {quoted_passage(hit, width)}"
                if self.count(line) < room:
                    break
            written.append((line,))
            room -= self.count(line) + 1
        return written

    def _beside(self, room: int) -> list[int]:
        """How many lines stand beside each hit: as many as can be read, one of each before a second."""
        left, beside = room // _READABLE - len(self.hits), [0] * len(self.hits)
        for round_of in range(max((len(hit.lines) for hit in self.hits), default=0)):
            for at, hit in enumerate(self.hits):
                if left > 0 and len(hit.lines) > round_of:
                    beside[at], left = beside[at] + 1, left - 1
        return beside

    def _frame(self, at: int, beside: int) -> list[tuple[str, Words, float, int]]:
        """The lines of a hit and of what stands beside it: what comes before the words, the words of a passage by their
        number of characters, its share of the room and how many characters it may have."""
        hit = self.hits[at]
        moment, who = self.moment(hit.start_ms), f"{hit.who}{self._where(hit)}"
        words: Words = partial(quoted_passage, hit)
        lines: list[tuple[str, Words, float, int]]
        if at:
            head = f"{at + 1}. {hit.score:.2f} {moment[:10]} {who} {_target(hit, words=True)} "
            lines = [(head, words, _share(at, hit), _MOST)]
        else:
            lack = f" · without: {', '.join(hit.missing[:4])}" if hit.missing and hit.score < _SURE else ""
            head = f"1. {hit.score:.2f} {hit.band} · {moment} {who} · {_target(hit, whole=True, words=True)}{lack}\n  "
            words = partial(quoted_passage, hit, starts_line=True)
            lines = [(head, words, _share(at, hit), _MOST_BEST)]
        for line in hit.lines[:beside]:
            head = f"  → {line.role} {short_grip_id(parse_ulid(line.id)[1])} "
            lines.append((head, partial(quoted_passage, line), _BESIDE * _share(at, hit), _MOST))
        if later := hit.contradicted:
            number = next((n for n, other in enumerate(self.hits, 1) if later.id in other.event_ids), 0)
            head = (
                f"  ✗ contradicted by {number}" if number else f"  ✗ later: {short_grip_id(parse_ulid(later.id)[1])} "
            )
            shown = replace(later, passage=Passage("")) if number else later
            lines.append((head, partial(quoted_passage, shown), 0.0, _LEAST))
        return lines

    def _where(self, hit: Hit) -> str:
        """The session of a hit, and the project, if there are several."""
        session = quoted_name(short_session(hit.session_id), 60) if hit.session_id else ""
        where = f" s:{session}" if session else ""
        return where + (f" @{hit.project}" if len({other.project for other in self.hits}) > 1 else "")


def _filled(unit: float, head: str, words: Words, share: float, most: int) -> str:
    """A line, with `unit` characters for each share of room."""
    return head + words(int(max(_LEAST, min(most, share * unit))))


def quoted_passage(hit: Hit, width: int, *, starts_line: bool = False) -> str:
    """Return the part of a hit that matters. The bullets of a summary were quoted one by one."""
    window = hit.passage.window(width)
    return quoted(window, starts_line=starts_line) if hit.role else unposed_ids(safe(window))


def _share(at: int, hit: Hit) -> float:
    plain = 1.0 if hit.score > 0 else _NEIGHBOUR
    return plain + _CLEAR * hit.score + (_BEST if at == 0 else 0.0)


def _target(hit: Hit, *, whole: bool = False, words: bool = False) -> str:
    """The id to go on with: of a message its own grip, which opens all of it at the place that matters; of a summary
    its node, before the title. With `words`, also where the words behind a summary stand.
    """
    if not hit.role:
        behind = list(dict.fromkeys(hit.event_ids))[:_GRIPS] if words else ()
        title = f" {quoted_title(hit.title, _TITLE, is_period=hit.kind != 'segment')}" if hit.title else ""
        return (hit.short_id or hit.id) + "".join(f" {short_grip_id(parse_ulid(name)[1])}" for name in behind) + title
    (timestamp_ms, key), place = parse_ulid(hit.event_ids[0]), hit.passage.place
    name = event_grip_id(timestamp_ms, key) if whole else short_grip_id(key)
    return f"{name}+{place}" if place >= DEEP else name


_TOOL_WIDTH = 80
_NO_PARENTHESES = str.maketrans("()", "‹›")
#: Characters of a call that did not go well, and of what it gave back.
_CALL, _ERROR = 60, 70
#: The rank of the messages nearest to a grip. Those further away come later, and then what did not go well.
_NEAREST = -100


@dataclass(frozen=True, slots=True)
class GripLines:
    """Writes the lines around one grip; `clock` tells the time of day."""

    opened: OpenedGrip
    clock: Callable[[int], str]

    def around(self, width: int) -> list[Piece[str]]:
        """The event around an excerpt, unless that is all of it; what was said with and after the words, then before
        them, each in order of time. By turns the nearest get their room first, so that either may be cut off."""
        record, cited = self.opened.record, self.opened.record.cited
        pieces = []
        if cited and self.opened.end - self.opened.start != len(cited.text):
            whole = Passage(cited.text, (TermMark(self.opened.start, 0, 1.0),))
            pieces.append(Piece((f"in: {quoted(whole.window(width))}",), _NEAREST))
        told = [("with", event) for event in record.events if cited is None or event.key != cited.key]
        told += [("after", event) for event in record.after]
        before = [("before", event) for event in reversed(record.before)]
        shown = {event.key for _, event in (*told, *before)} | ({cited.key} if cited else set())
        # A call that was turned down is told by the words it was turned down with.
        folded = {call.key for words, call in self.opened.refused.items() if words in shown}
        sides = [
            [
                Piece((f"{name}: {self._line(event, width)}",), _NEAREST + turn if _is_talk(event) else 0)
                for turn, (name, event) in enumerate(side)
                if event.key not in folded
            ]
            for side in (told, before)
        ]
        return [*pieces, *sides[0], *reversed(sides[1])]

    def mark(self, event: Event) -> str:
        """What came of an event, if that was not as it was meant, to stand behind its role."""
        if "refuses" in event.metadata:
            call = self.opened.refused.get(event.key)
            return f" (refused {_call(call) if call else quoted_name(str(event.metadata['refuses']), _CALL)})"
        if event.outcome == "interrupted" and event.event_type is not EventType.TOOL_RESULT:
            return " (interrupted the agent)"
        return f" ({event.outcome})" if event.outcome else ""

    def _line(self, event: Event, width: int) -> str:
        """An event in a line: who, when, what came of it if that was not as it was meant, and what was said."""
        is_tool, mark = event.event_type is EventType.TOOL_RESULT, self.mark(event)
        role, text = str(event.role), quoted(event.text, min(width, _TOOL_WIDTH) if is_tool else width)
        if is_tool and event.outcome == "refused":
            role, mark, text = "user", f" (refused {_call(event)})", ""
        elif is_tool and event.outcome:
            gave = quoted(event.text[event.call_end :].strip(), min(width, _ERROR))
            text = f"{_call(event)} → {gave}" if gave else _call(event)
        elif event.outcome == "interrupted":
            # The client's own words tell no more than the mark; what comes after them in a message is the user's.
            rest = "" if event.event_type is EventType.ASSISTANT_STOP else event.text.partition("]")[2]
            role, text = "user", quoted(rest, width)
        return f"[{role} {self.clock(event.timestamp_ms)}]{mark}{':' if mark and text else ''} {text}".rstrip()


def _is_talk(event: Event) -> bool:
    """Whether it is a message, or stands in for one; the other lines come after these."""
    return event.event_type is not EventType.ASSISTANT_STOP and not (
        event.event_type is EventType.TOOL_RESULT and event.outcome
    )


def _call(event: Event) -> str:
    """The first line of a tool's result, which names the call."""
    return quoted(event.text.strip().partition("\n")[0], _CALL).translate(_NO_PARENTHESES)
