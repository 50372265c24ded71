"""A session's records: what they hold, how one follows from another, and how one is shortened.

A record is cumulative. It takes over what its parent holds and adds its own share, so that a decision of the first part
is still in the third record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import zip_longest
from typing import TypeVar

from mcp_memory.domain.compaction import Asked, Turn
from mcp_memory.domain.events import ulid
from mcp_memory.domain.quoting import quoted, quoted_behind_label
from mcp_memory.domain.text import one_line, similar, terms

T = TypeVar("T")
#: How a text of a record is shown.
Show = Callable[[str], str]

MAX_KEY_POINTS = 30
MAX_PARTICIPANTS = 12
MAX_DECISIONS = 24
MAX_ACTIONS = 18
MAX_UNRESOLVED = 12
MAX_ENTITIES = 45
MAX_ITEM = 240
MAX_NAME = 60
MAX_SUMMARY = 1_200
#: A full list is shared by the records of a chain of the usual depth.
_SHARES = 3
_SAME = 0.8
_SETTLED = 0.7
_SCALES = (1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.08)


@dataclass(frozen=True, slots=True)
class ActionItem:
    task: str
    owner: str = ""
    due: str = ""

    @property
    def shown(self) -> str:
        return (f"{self.owner}: " if self.owner else "") + self.task + (f" (due {self.due})" if self.due else "")


@dataclass(frozen=True, slots=True)
class Facets:
    """What must not be lost when words are."""

    participants: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    action_items: tuple[ActionItem, ...] = ()
    unresolved: tuple[str, ...] = ()
    domain_entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """What a record says."""

    summary: str
    key_points: tuple[str, ...] = ()
    context: Facets = Facets()


@dataclass(frozen=True, slots=True)
class Record:
    """One link of a session's chain. `refreshes` is the record of the same depth whose place it took.

    `through` is the last event it covers and `seen` the newest there was, both as (time, the store's own number).
    """

    key: bytes
    timestamp_ms: int
    depth: int
    parent_id: str | None
    body: Body
    event_ids: tuple[str, ...]
    tokens: int
    written_by: str
    reason: str = ""
    refreshes: str | None = None
    through: tuple[int, int] = (0, 0)
    seen: tuple[int, int] = (0, 0)
    messages: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    window: int = 1

    @property
    def id(self) -> str:
        return ulid(self.timestamp_ms, self.key)

    @property
    def ratio(self) -> float:
        return round(self.tokens_before / self.window, 3)


def record_key(session_key: bytes, depth: int, through: tuple[int, int], refreshes: str | None) -> bytes:
    """The same record of the same events always has the same key."""
    name = session_key + f"{depth}:{through}:{refreshes}".encode()
    return hashlib.blake2b(name, digest_size=10, person=b"record").digest()


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def fold(parts: Sequence[Body]) -> Body:
    """The share of one record, from the parts its events were read in: something of every part, oldest first."""
    return _gathered(_joined([part.summary for part in parts], MAX_SUMMARY // 2), parts, _dealt, _SHARES)


def _gathered(summary: str, parts: Sequence[Body], choose: Callable[..., tuple[str, ...]], shares: int) -> Body:
    """What several bodies hold; of points, decisions and names, what is chosen from the lists of all."""
    held = [part.context for part in parts]
    return Body(
        summary,
        choose([part.key_points for part in parts], MAX_KEY_POINTS // shares),
        Facets(
            _distinct((name for each in held for name in each.participants), MAX_PARTICIPANTS),
            choose([each.decisions for each in held], MAX_DECISIONS // shares),
            _newest_items([item for each in held for item in each.action_items], MAX_ACTIONS // shares),
            _newest([text for each in held for text in each.unresolved], MAX_UNRESOLVED // min(shares, 2)),
            choose([each.domain_entities for each in held], MAX_ENTITIES // shares, exact=True),
        ),
    )


def combined(told: Facets, found: Facets) -> Facets:
    """What a model tells and what the rules find, by turns, so that a full list loses neither's first."""

    def turns(first: Sequence[T], second: Sequence[T]) -> list[T]:
        return [item for pair in zip_longest(first, second) for item in pair if item is not None]

    actions = turns(told.action_items, found.action_items)
    tasks = _distinct([item.task for item in actions], len(actions), exact=False)
    return Facets(
        _distinct([*told.participants, *found.participants], MAX_PARTICIPANTS),
        _distinct(turns(told.decisions, found.decisions), MAX_DECISIONS, exact=False),
        tuple(next(item for item in actions if item.task == task) for task in tasks),
        _distinct(turns(told.unresolved, found.unresolved), MAX_UNRESOLVED, exact=False),
        _distinct(turns(told.domain_entities, found.domain_entities), MAX_ENTITIES),
    )


def follow(prior: Body | None, own: Body) -> Body:
    """A record that follows another: all that it holds, and what is new. What was settled since is left out."""
    if prior is None:
        return own
    told, before = [*own.key_points, *own.context.decisions], prior.context
    context = replace(
        before,
        action_items=tuple(item for item in before.action_items if not is_settled(item.task, told)),
        unresolved=tuple(text for text in before.unresolved if not is_settled(text, told)),
    )
    summary = _joined([prior.summary, own.summary], MAX_SUMMARY)
    return _gathered(summary, [replace(prior, context=context), own], _merged, 1)


def renew(parent: Body | None, last: Body, own: Body) -> Body:
    """A record that takes the last one's place: the parent's share stays, the last's own and the new one are shared."""
    if parent is None:
        return fold([last, own])
    held, context, before = set(parent.key_points), last.context, parent.context
    added = Body(
        last.summary.removeprefix(parent.summary).strip(),
        tuple(point for point in last.key_points if point not in held),
        Facets(
            context.participants,
            tuple(text for text in context.decisions if text not in before.decisions),
            tuple(item for item in context.action_items if item not in before.action_items),
            tuple(text for text in context.unresolved if text not in before.unresolved),
            tuple(name for name in context.domain_entities if name not in before.domain_entities),
        ),
    )
    return follow(parent, fold([added, own]))


def shortened(body: Body, room: int, count: Callable[[str], int]) -> Body:
    """The body in at most `room` tokens: every list loses its middle first, since beginnings and ends matter most."""
    smaller = body
    for scale in _SCALES:
        smaller = _scaled(body, scale)
        if count(body_text(smaller)) <= room:
            return smaller
    return Body(one_line(smaller.summary, max(40, room)), (), Facets(smaller.context.participants[:2]))


def _scaled(body: Body, scale: float) -> Body:
    """The body with every list and every text within its limit, whatever a summarizer gave, or a part of that."""

    def some(items: Sequence[str], most: int, length: int = 0) -> tuple[str, ...]:
        length = length or max(60, int(MAX_ITEM * min(1.0, scale * 2)))
        return tuple(one_line(item, length) for item in _ends([item for item in items if item.strip()], most))

    context = body.context
    actions = _ends(context.action_items, max(1, int(MAX_ACTIONS * scale)))
    return Body(
        one_line(body.summary, max(80, int(MAX_SUMMARY * scale))),
        some(body.key_points, max(1, int(MAX_KEY_POINTS * scale))),
        Facets(
            some(context.participants[: max(2, int(MAX_PARTICIPANTS * scale))], MAX_PARTICIPANTS, MAX_NAME),
            some(context.decisions, max(1, int(MAX_DECISIONS * scale))),
            tuple(ActionItem(*map(one_line, astuple(item), (MAX_ITEM, MAX_NAME, MAX_NAME))) for item in actions),
            some(context.unresolved, max(1, int(MAX_UNRESOLVED * scale))),
            some(context.domain_entities, max(3, int(MAX_ENTITIES * scale)), MAX_NAME),
        ),
    )


def body_lines(body: Body) -> list[str]:
    """A record as lines in order of worth, for a reader who may not get to the end."""
    return _lines_of(body, str, str, str)


def quoted_record(body: Body, width: int) -> list[str]:
    """Return the lines of a record, each cut at the width, so that none can pose as a line of ours.

    The labels of key points were set when the record was made.
    """
    return _lines_of(
        body,
        lambda text: quoted(text, width, starts_line=True),
        lambda text: quoted(text, width),
        lambda text: quoted_behind_label(text, width),
    )


def _lines_of(body: Body, summary: Show, item: Show, point: Show) -> list[str]:
    context = body.context
    lines = [summary(body.summary)] if body.summary else []
    for title, items, show in (
        ("Decided", context.decisions, item),
        ("To do", [each.shown for each in context.action_items], item),
        ("Unresolved", context.unresolved, item),
        ("Key points", body.key_points, point),
    ):
        if items:
            lines += [f"{title}:", *(f"- {show(each)}" for each in items)]
    if context.domain_entities:
        lines.append("Names: " + item(", ".join(context.domain_entities)))
    return lines


def body_text(body: Body) -> str:
    return "\n".join([*body_lines(body), ", ".join(body.context.participants)])


def _distinct(items: Iterable[str], most: int, exact: bool = True) -> tuple[str, ...]:
    """The first of these, without what differs only in case or, unless `exact`, says the same in other words."""
    found: list[str] = []
    for item in items:
        if len(found) == most:
            break
        if exact:
            known = any(item.casefold() == other.casefold() for other in found)
        else:
            known = any(item == other or similar(terms(item), terms(other)) >= _SAME for other in found)
        if not known:
            found.append(item)
    return tuple(found)


def _dealt(parts: Sequence[Sequence[str]], most: int, exact: bool = False) -> tuple[str, ...]:
    """At most so many items, dealt in turn from every part, in the order of the parts."""
    turns = [(rank, at, item) for at, part in enumerate(parts) for rank, item in enumerate(part)]
    chosen = _distinct((item for _, _, item in sorted(turns, key=lambda turn: turn[:2])), most, exact)
    order = {item: (at, rank) for rank, at, item in sorted(turns, key=lambda turn: (turn[1], turn[0]), reverse=True)}
    return tuple(sorted(chosen, key=lambda item: order[item]))


def _merged(parts: Sequence[Sequence[str]], most: int, exact: bool = False) -> tuple[str, ...]:
    every = [item for part in parts for item in part]
    return tuple(_ends(_distinct(every, len(every), exact), most))


def _newest(items: Sequence[str], most: int) -> tuple[str, ...]:
    return _distinct(reversed(items), most, exact=False)[::-1]


def _newest_items(items: Sequence[ActionItem], most: int) -> tuple[ActionItem, ...]:
    kept = _newest([item.task for item in items], most)
    by_task = {item.task: item for item in items}
    return tuple(by_task[task] for task in kept)


def _ends(items: Sequence[T], most: int) -> Sequence[T]:
    if len(items) <= most:
        return items
    head = (most + 1) // 2
    return [*items[:head], *items[len(items) - (most - head) :]]


def is_settled(text: str, told: Sequence[str]) -> bool:
    """Whether something later speaks of the same matter in most of its words."""
    own = terms(text)
    return len(own) > 2 and any(len(own & terms(other)) / len(own) >= _SETTLED for other in told)


def _joined(texts: Sequence[str], limit: int) -> str:
    """Accounts one after the other; if they are too long together, each is cut, and the middle ones are left out."""
    texts = [text for text in texts if text]
    while len(texts) > 2 and limit // len(texts) < 80:
        texts = [*texts[: len(texts) // 2], *texts[len(texts) // 2 + 1 :]]
    if sum(map(len, texts)) + len(texts) <= limit:
        return " ".join(texts)
    return " ".join(one_line(text, limit // len(texts)) for text in texts)


@dataclass(frozen=True, slots=True)
class Account:
    """A session as compaction sees it: its chain of records, oldest first, and the events that none of them covers."""

    session: int
    session_key: bytes
    client: str
    session_id: str
    project: str
    chain: tuple[Record, ...]
    turns: tuple[Turn, ...]
    asked: Asked = ""
    seq: int = 0

    @property
    def last(self) -> Record | None:
        return self.chain[-1] if self.chain else None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A record, the last of its account, that a model should write anew.

    `replaced` is the record whose place it took, `tokens` what a model would have to read, `failures` how often one
    has failed at it.
    """

    account: Account
    replaced: Record | None
    tokens: int
    failures: int = 0

    @property
    def name(self) -> str:
        return f"the record of session {self.account.session_id}"

    @property
    def record(self) -> Record:
        return self.account.chain[-1]

    @property
    def parent(self) -> Record | None:
        return self.account.chain[-2] if len(self.account.chain) > 1 else None


@dataclass(frozen=True, slots=True)
class Compactions:
    """How compaction goes: how many records there are, the latest with their sessions, and what failed last."""

    records: int
    sessions: int
    waiting: int
    latest: tuple[tuple[Record, str], ...]
    failed: str


def text_key(client: str, session_id: str) -> str:
    """Where the hook finds a session's own text: among the briefs, under a name that is no directory."""
    return f"session:{client}:{session_id}"
