"""How much a model can hold, told by its name: names are matched by their longest known beginning or part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mcp_memory.domain.events import EventType

#: What is assumed of a model that no one knows, and of a session that does not name one.
DEFAULT = 200_000

#: Tokens of context by a part of the model's name, small local models included. Settings add to it and win over it.
KNOWN: Mapping[str, int] = {
    "claude": 200_000,
    "gpt-5": 400_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "gpt-4-turbo": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4": 8_192,
    "gpt-3.5": 16_385,
    "gpt-oss": 131_072,
    "gpt-2": 1_024,
    "codex": 272_000,
    "o1": 200_000,
    "o3": 200_000,
    "o4": 200_000,
    "gemini": 1_048_576,
    "gemini-1.5-pro": 2_097_152,
    "llama-2": 4_096,
    "llama2": 4_096,
    "llama-3": 8_192,
    "llama3": 8_192,
    "llama-3.1": 131_072,
    "llama3.1": 131_072,
    "llama-3.2": 131_072,
    "llama3.2": 131_072,
    "llama-3.3": 131_072,
    "llama3.3": 131_072,
    "llama-4": 1_048_576,
    "codellama": 16_384,
    "tinyllama": 2_048,
    "mistral": 32_768,
    "mixtral": 32_768,
    "devstral": 131_072,
    "codestral": 32_768,
    "phi-2": 2_048,
    "phi-3": 4_096,
    "phi3": 4_096,
    "phi-4": 16_384,
    "phi4": 16_384,
    "gemma": 8_192,
    "gemma3": 131_072,
    "gemma-3": 131_072,
    "qwen": 32_768,
    "qwen3": 131_072,
    "qwen3-coder": 262_144,
    "deepseek": 131_072,
    "glm-4": 131_072,
    "kimi": 262_144,
    "grok": 256_000,
}
#: How clients mark the variant of a model with a window of a million.
_MILLION = "[1m]"
#: Windows that providers sell beyond the usual one.
_LARGER = (400_000, 1_048_576, 2_097_152, 10_485_760)


def context_length(model: str, table: Mapping[str, int] | None = None) -> int:
    """The tokens of a model's context; the longest name that occurs in the model's own decides."""
    name = model.lower()
    for source in (table or {}, KNOWN):
        # `o1` would be found in many a name, so a short one must stand at the beginning.
        fitting = [key for key in source if name.startswith(key.lower()) or (len(key) > 2 and key.lower() in name)]
        if fitting:
            return 1_000_000 if source is KNOWN and _MILLION in name else source[max(fitting, key=len)]
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


@dataclass(frozen=True, slots=True)
class Last:
    """As much of the latest record as the decision needs. `seen` is the newest event when it was made."""

    seen: tuple[int, int]
    tokens: int
    tokens_after: int
    window: int
    messages: int


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
    last: Last | None,
    depth: int,
    asked: Asked = "",
    table: Mapping[str, int] | None = None,
) -> tuple[History, Usage]:
    """Where a session stands, from its events after those that its records cover."""
    messages = [turn for turn in turns if turn.is_message]
    fresh = [turn for turn in turns if last is None or turn.place > last.seen]
    told = _told(turns)
    model = next((turn.model for turn in reversed(turns) if turn.model), "")
    window = context_length(model, table) if model or last is None else last.window
    window = at_least(window, told.level) if told else window
    history = History(
        messages=(last.messages if last else 0) + len(messages),
        uncovered=len(messages),
        since_last=sum(turn.is_message for turn in fresh),
        depth=depth,
        armed=last is None or _lowest(fresh, last, told, window) < rules.reset_ratio * window,
        asked=asked,
    )
    return history, Usage(_used(turns, last, told), window)


class _Told(NamedTuple):
    """What the context held after the turn at this place, as the client told it."""

    place: int
    level: int


def _told(turns: Sequence[Turn]) -> _Told | None:
    """The last that a client told."""
    found = ((place, _level(turns[place])) for place in range(len(turns) - 1, -1, -1))
    return next((_Told(place, level) for place, level in found if level is not None), None)


def _level(turn: Turn) -> int | None:
    """What the context held after this event, if it says so: a client's compaction leaves its summary alone."""
    return turn.tokens if turn.kind is EventType.COMPACTION and turn.tokens else turn.usage


def _used(turns: Sequence[Turn], last: Last | None, told: _Told | None) -> int:
    """How much of the window is used: what the client told and all since, or else what we count ourselves."""
    if told:
        return told.level + sum(turn.tokens for turn in turns[told.place + 1 :])
    return sum(turn.tokens for turn in turns) + (last.tokens if last else 0)


def _lowest(fresh: Sequence[Turn], last: Last, told: _Told | None, window: int) -> int:
    """The least that the window held since the last record."""
    if not told:
        return last.tokens_after
    return min((level for turn in fresh if (level := _level(turn)) is not None), default=window)


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
