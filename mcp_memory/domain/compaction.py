"""When to compact a session: how full its model's window is, and which rule applies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from mcp_memory import lexicon
from mcp_memory.domain.events import EventType

if TYPE_CHECKING:
    from mcp_memory.domain.records import Record

#: What is assumed of a model that no one knows, and of a session that does not name one.
DEFAULT = 200_000
#: How clients mark the variant of a model with a window of a million.
_MILLION = "[1m]"
#: Windows that providers sell beyond the usual one.
_LARGER = (400_000, 1_048_576, 2_097_152, 10_485_760)


@cache
def known_lengths() -> Mapping[str, int]:
    return {name: int(tokens) for name, tokens in map(str.split, lexicon.lines("context_lengths"))}


def context_length(model: str, table: Mapping[str, int] | None = None) -> int:
    """The tokens of a model's context; the longest name that occurs in the model's own decides."""
    name, known = model.lower(), known_lengths()
    for source in (table or {}, known):
        # `o1` would be found in many a name, so a short one must stand at the beginning.
        fitting = [key for key in source if name.startswith(key.lower()) or (len(key) > 2 and key.lower() in name)]
        if fitting:
            return 1_000_000 if source is known and _MILLION in name else source[max(fitting, key=len)]
    return DEFAULT


def at_least(length: int, used: int) -> int:
    """A window that holds what a client says it has sent: what it could send must have fitted."""
    return length if used <= length else next((size for size in _LARGER if size >= used), used)


def parse_table(text: str) -> dict[str, int]:
    """`name=tokens, name=tokens` as a table; raises ValueError for anything else."""
    table: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, tokens = part.rpartition("=")
        if not name.strip() or not tokens.strip().isdecimal() or not 256 <= int(tokens) <= 100_000_000:
            raise ValueError(part)
        table[name.strip()] = int(tokens)
    return table


#: No tail is ever shorter: the last question and its answer.
LEAST_TAIL = 2
Asked = Literal["", "client", "user"]
Reason = Literal[
    "forced", "client", "emergency", "refresh", "trigger",
    "disabled", "nothing new", "too few messages", "cooldown", "below trigger", "not re-armed", "depth limit",
]  # fmt: skip
_MESSAGES = frozenset({EventType.USER_MESSAGE, EventType.ASSISTANT_MESSAGE})


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """The settings of compaction. `refresh_after_messages` 0: records are never made by mere count."""

    enabled: bool = True
    trigger_ratio: float = 0.80
    reset_ratio: float = 0.70
    min_messages: int = 12
    preserve_recent: int = 6
    max_depth: int = 3
    cooldown_messages: int = 4
    refresh_after_messages: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """As much of an event as the decision needs. `usage` is what the client says its context held after it."""

    number: int
    timestamp_ms: int
    kind: EventType
    tokens: int
    usage: int | None = None
    model: str = ""

    @property
    def is_message(self) -> bool:
        return self.kind in _MESSAGES

    @property
    def place(self) -> tuple[int, int]:
        return self.timestamp_ms, self.number

    @property
    def level(self) -> int | None:
        """What the context held after this event, if it says so: a client's compaction leaves its summary alone."""
        return self.tokens if self.kind is EventType.COMPACTION and self.tokens else self.usage


@dataclass(frozen=True, slots=True)
class History:
    """What came before: all messages of the session, those that no record covers, those since the last record.

    `depth` is how many records are chained; `armed` whether usage has been low enough since the last of them.
    """

    messages: int
    uncovered: int
    since_last: int
    depth: int = 0
    armed: bool = True
    asked: Asked = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """How full the model's window is."""

    tokens: int
    window: int

    @property
    def ratio(self) -> float:
        return self.tokens / self.window


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to make a record and why. `refresh`: it takes the place of the last one instead of following it."""

    act: bool
    reason: Reason
    refresh: bool = False


def decide(rules: CompactionRules, history: History, usage: Usage) -> Decision:
    """The first rule that applies. An emergency, the client's own compaction and the user are not held up by depth."""
    full = history.depth >= rules.max_depth
    first = history.depth == 0
    compressible = history.uncovered > LEAST_TAIL
    if history.asked == "user":
        return Decision(True, "forced", full) if compressible else Decision(False, "nothing new")
    if not rules.enabled:
        return Decision(False, "disabled")
    if not compressible:
        return Decision(False, "nothing new")
    rested = first or history.since_last >= rules.cooldown_messages
    if history.asked == "client" and rested:
        return Decision(True, "client", full)
    if usage.ratio >= 1.0:
        return Decision(True, "emergency", full)
    if history.messages < rules.min_messages:
        return Decision(False, "too few messages")
    if not rested:
        return Decision(False, "cooldown")
    if not first and 0 < rules.refresh_after_messages <= history.since_last:
        return Decision(True, "refresh", full)
    if usage.ratio < rules.trigger_ratio:
        return Decision(False, "below trigger")
    if not (first or history.armed or history.since_last >= rules.min_messages):
        return Decision(False, "not re-armed")
    return Decision(False, "depth limit") if full else Decision(True, "trigger")


def measure(
    rules: CompactionRules,
    turns: Sequence[Turn],
    last: Record | None,
    depth: int,
    asked: Asked = "",
    table: Mapping[str, int] | None = None,
) -> tuple[History, Usage]:
    """Where a session stands, from its events after those that its `last` record covers."""
    messages = [turn for turn in turns if turn.is_message]
    fresh = [turn for turn in turns if last is None or turn.place > last.seen]
    # What the client last told its context to hold, and what has come since; or else what we count ourselves.
    told = next((place for place in range(len(turns) - 1, -1, -1) if turns[place].level is not None), None)
    level = 0 if told is None else turns[told].level or 0
    if told is not None:
        used = level + sum(turn.tokens for turn in turns[told + 1 :])
    else:
        used = sum(turn.tokens for turn in turns) + (last.tokens if last else 0)
    model = next((turn.model for turn in reversed(turns) if turn.model), "")
    window = at_least(context_length(model, table) if model or last is None else last.window, level)
    # The least that the window held since the last record.
    lowest = last.tokens_after if last else 0
    if told is not None:
        lowest = min((turn.level for turn in fresh if turn.level is not None), default=window)
    history = History(
        messages=(last.messages if last else 0) + len(messages),
        uncovered=len(messages),
        since_last=sum(turn.is_message for turn in fresh),
        depth=depth,
        armed=last is None or lowest < rules.reset_ratio * window,
        asked=asked,
    )
    return history, Usage(used, window)


def tail_start(turns: Sequence[Turn], size: int) -> int:
    """The index from which on `size` messages are kept; at least one message always comes before it."""
    places = [index for index, turn in enumerate(turns) if turn.is_message]
    kept = min(size, len(places) - 1)
    return places[-kept] if kept > 0 else len(turns)


def shorter_tail(turns: Sequence[Turn], size: int, record_tokens: int, room: int) -> int:
    """The longest tail below `size` with which record and tail fit into the room, and no less than two messages."""
    for smaller in range(size - 1, LEAST_TAIL, -1):
        if record_tokens + sum(turn.tokens for turn in turns[tail_start(turns, smaller) :]) < room:
            return smaller
    return min(size, LEAST_TAIL)
