"""Draws what commands show to people: on a terminal trees in colour, elsewhere one plain line for each thing.

A command hands over lines and entries, and this decides how they look. All of it is cleaned here, since what memory
holds may have been written by anyone. rich is loaded only where there is a terminal.
"""

from __future__ import annotations

import io
import math
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from mcp_memory.domain.inventory import DayActivity
from mcp_memory.domain.text import clean, safe
from mcp_memory.surfaces import output

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text
    from rich.tree import Tree

_BARS, _NONE = "▁▂▃▄▅▆▇█", "·"
#: How many bars a chart has at most; of a longer time each stands for several days.
_MOST_BARS = 60
#: Columns below which nothing can be read.
_NARROW = 20
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: How long a time is told by how long ago it was; after that, by its date.
_RECENT_DAYS = 14
_ID = re.compile(r"\b(?:grip|toc):[\w:@.+-]*\w|\bs:[\w:.-]*\w|^\[\d+ tokens · next: .*\]$", re.MULTILINE)
#: How a line of quoted words begins; on a terminal it is set apart by how it looks.
QUOTE = "> "
#: Shorter words are marked only where they stand alone.
_LONG_WORD = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """A thing that is shown: what it is called or says, what is known of it, its id at the end, and what is beneath it.

    `lead` comes first and stands out; its `tone` is a style of rich. A `point` is one of a list of sentences.
    """

    text: str
    facts: Sequence[str] = ()
    id: str = ""
    below: Sequence[Listed] = ()
    lead: str = ""
    tone: str = "bold"
    point: bool = False


def is_terminal() -> bool:
    return sys.stdout.isatty()


def show(*parts: str | Listed, marked: Collection[str] = ()) -> int:
    """Print lines and entries in their order; the `marked` words stand out on a terminal."""
    if not is_terminal():
        for part in parts:
            lines = [clean(part)] if isinstance(part, str) else _plain(part)
            output.write("".join(f"{line}\n" for line in lines))
        return 0
    console = _console()
    for part, before in zip(parts, ("", *parts), strict=False):
        if _is_whole(part) and _is_whole(before):
            console.print()
        console.print(_line(part, marked) if isinstance(part, str) else _tree(_dotted(part), marked))
    return _printed(console)


def page(text: str) -> int:
    """Print an answer that was made for agents. On a terminal its ids and its last line step back."""
    return show(*text.splitlines()) if is_terminal() else output.text(text)


def _dotted(entry: Listed) -> Listed:
    """In a list that hangs on nothing, a point begins with a dot."""
    return replace(entry, lead=f"• {entry.lead}".strip()) if entry.point else entry


def _is_whole(part: str | Listed) -> bool:
    """Whether it takes several lines, so that it should stand apart from one before it."""
    return isinstance(part, Listed) and bool(part.facts or part.below)


def _plain(entry: Listed, depth: int = 0) -> Iterator[str]:
    told = " · ".join([_words(entry), *(safe(fact) for fact in entry.facts)])
    yield f"{'  ' * depth}{'- ' * entry.point}{told}{'  ' * bool(entry.id)}{safe(entry.id)}"
    for each in entry.below:
        yield from _plain(each, depth + 1)


def _words(entry: Listed) -> str:
    return safe(f"{entry.lead} {entry.text}" if entry.lead else entry.text)


def _console() -> Console:
    """Where things are drawn before they are printed, by the one way that copes with any encoding."""
    from rich.console import Console

    width = max(shutil.get_terminal_size().columns, _NARROW)
    colours: Literal["auto"] | None = "auto" if output.is_coloured() else None
    return Console(file=io.StringIO(), force_terminal=True, color_system=colours, width=width, highlight=False)


def _printed(console: Console) -> int:
    assert isinstance(console.file, io.StringIO)
    # Lines are filled up with blanks, which a copied text would keep.
    output.write(re.sub(r"[ \t]+$", "", console.file.getvalue(), flags=re.MULTILINE))
    return 0


def _line(line: str, marked: Collection[str]) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    inner = clean(line)
    if inner.startswith(QUOTE):
        return Padding(_mark(Text(inner.removeprefix(QUOTE), "bold"), marked), (0, 0, 0, len(QUOTE)))
    indent = len(inner) - len(inner.lstrip())
    text = Text(inner.strip())
    text.highlight_regex(_ID, "dim")
    return Padding(_mark(text, marked), (0, 0, 0, indent))


def _tree(entry: Listed, marked: Collection[str]) -> Tree:
    from rich.tree import Tree

    tree = Tree(_label(entry, marked), guide_style="dim")
    for each in entry.below:
        tree.add(_tree(each, marked))
    return tree


def _label(entry: Listed, marked: Collection[str]) -> Text:
    from rich.text import Text

    whole, lead = _words(entry), safe(entry.lead)
    text = Text(whole)
    text.stylize(entry.tone, 0, len(lead) if lead else 0 if entry.point else len(whole))
    _mark(text, marked)
    if entry.facts:
        text.append("\n" + " · ".join(safe(fact) for fact in entry.facts), "dim")
    if entry.id:
        text.append(f"  {safe(entry.id)}", "dim")
    return text


def _mark(text: Text, marked: Collection[str]) -> Text:
    for word in filter(None, marked):
        form = re.escape(word) + r"\w*"
        text.highlight_regex(re.compile(form if len(word) >= _LONG_WORD else rf"\b{form}\b", re.I), "bold yellow")
    return text


def chart(days: Collection[DayActivity], first: date, last: date) -> str:
    """How much was said from one day to another, as bars: the highest is the busiest."""
    count = (last - first).days + 1
    each = max(1, math.ceil(count / _MOST_BARS))
    bars = [0] * math.ceil(count / each)
    for day in days:
        if first <= day.day <= last:
            bars[(day.day - first).days // each] += max(day.weight, 1)
    most = max(bars, default=0)
    return "".join(_BARS[math.ceil(bar / most * len(_BARS)) - 1] if bar else _NONE for bar in bars)


def activity_line(days: Collection[DayActivity], first: date, last: date) -> str:
    """The chart with what it shows; nothing if nothing was said then."""
    active = [day for day in days if first <= day.day <= last]
    if not active or first == last:
        return ""
    busiest = max(active, key=lambda day: day.weight).day
    many = f"{len(active)} active day{'s' * (len(active) != 1)}, the busiest {busiest}"
    return f"{first} {chart(active, first, last)} {last}: {many}"


def ago(timestamp_ms: int, now: datetime) -> str:
    """How long ago something was; the date if that is long ago, or still to come."""
    then = datetime.fromtimestamp(timestamp_ms / 1000, now.tzinfo)
    seconds, days = (now - then).total_seconds(), (now.date() - then.date()).days
    if not is_recent(timestamp_ms, now):
        return f"on {then.date()}"
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return _many(int(seconds // _MINUTE), "minute")
    if seconds < _DAY / 2 or days == 0:
        return _many(int(seconds // _HOUR), "hour")
    return "yesterday" if days == 1 else _many(days, "day")


def is_recent(timestamp_ms: int, now: datetime) -> bool:
    """Return whether `ago` counts from now, and does not name the date."""
    then = datetime.fromtimestamp(timestamp_ms / 1000, now.tzinfo)
    return then <= now and (now.date() - then.date()).days <= _RECENT_DAYS


def lasted(start_ms: int, end_ms: int) -> str:
    """How long something took."""
    took = timedelta(milliseconds=max(end_ms - start_ms, 0))
    if took < timedelta(minutes=1):
        return "under a minute"
    if took < timedelta(hours=1):
        return f"{took.seconds // _MINUTE} min"
    return f"{took.seconds // _HOUR} h {took.seconds % _HOUR // _MINUTE} min" if not took.days else f"{took.days} d"


def _many(count: int, unit: str) -> str:
    return f"{count} {unit}{'s' * (count != 1)} ago"
