"""Packing into a token budget: the one packer, where a list goes on, and how blocks of context are laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from mcp_memory.errors import UsageError

T = TypeVar("T")
Order = Literal["top-down", "u-curve"]
Kind = Literal["memo", "summary", "focus", "linked", "item"]
ORDERS: tuple[Order, ...] = ("top-down", "u-curve")
SEPARATOR = "\n\n"
_ELLIPSIS = "…"
#: In which order kinds of blocks are given room. What is pinned is kept, whatever it is about.
_ROOM: tuple[Kind, ...] = ("focus", "memo", "linked", "item", "summary")
#: Stands for a count that is not known yet: none has more digits.
ANY_COUNT = 9_999


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts exactly, and cuts a text to a number of tokens."""

    count: Callable[[str], int]
    cut_to: Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Something to show, in the first of its forms that fits. A lower rank is given its room earlier.

    After a listed piece that does not fit no other listed one is tried, so that a reader can go on from there; any
    other piece is passed over.
    """

    forms: tuple[T, ...]
    rank: int = 0
    listed: bool = False


def pack(pieces: Sequence[Piece[T]], room: int, cost: Callable[[T], int]) -> dict[int, T]:
    """The forms of the pieces that fit, by their place in the list, in the order in which they were given room."""
    chosen: dict[int, T] = {}
    full = False
    for index in sorted(range(len(pieces)), key=lambda index: pieces[index].rank):
        piece = pieces[index]
        if piece.listed and full:
            continue
        form = next((form for form in piece.forms if cost(form) <= room), None)
        if form is None:
            full = full or piece.listed
        else:
            chosen[index] = form
            room -= cost(form)
    return chosen


def first_lines(lines: Sequence[str], around: str, budget: int, chars: int, count: Callable[[str], int]) -> list[str]:
    """As many of the first lines, each with its end, as fit together with the text `around` them."""
    pieces = [Piece((f"{line}\n",), listed=True) for line in lines]
    kept = list(pack(pieces, budget - count(around), count).values())
    # The parts of a text may count less than the whole.
    while kept and (len(text := around + "".join(kept)) > chars or count(text) > budget):
        kept.pop()
    return kept


def in_parts(items: Iterable[tuple[T, int]], most: int) -> list[list[T]]:
    """Neighbours in parts of at most so many tokens, which each item is given with; a larger one stands alone."""
    parts: list[list[T]] = []
    size = most + 1
    for item, tokens in items:
        if size + tokens > most:
            parts.append([])
            size = 0
        parts[-1].append(item)
        size += tokens
    return parts


def offset_of(cursor: str | None) -> int:
    """The position in a list that a cursor stands for; callers need not know what it looks like."""
    if not cursor:
        return 0
    if cursor.startswith("at:") and cursor[3:].isdigit() and len(cursor) < 12:
        return int(cursor[3:])
    raise UsageError(f"{cursor[:40]!r} is not a cursor of this answer; leave it out to start at the beginning.")


def cursor_of(offset: int | None) -> str | None:
    return f"at:{offset}" if offset is not None else None


def with_count(count: Callable[[str], int], form: Callable[[int], str]) -> str:
    """A text that says how many tokens it has: the number is part of what is counted, but settles at once."""
    text = form(ANY_COUNT)
    for _ in range(3):
        text = form(count(text))
    return text


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of context: `anchor` is what can be asked for by id, `version` which state of it the text shows."""

    kind: Kind
    anchor: str
    version: int
    text: str
    tokens: int


def arranged(blocks: Sequence[T], order: Order) -> list[T]:
    """As a u-curve, best first, second best last, the weakest in the middle: A B C D E F G becomes A C E G F D B."""
    return [*blocks[::2], *reversed(blocks[1::2])] if order == "u-curve" else list(blocks)


def assemble(blocks: Sequence[Block], budget: int, tokens: Tokenizer, order: Order = "top-down") -> list[Block]:
    """As many blocks as the budget holds, separators included, in the order wanted.

    The first focus is given room first, then the pinned notes, what is linked to it or lies beneath it, and the
    summaries above it, the nearest first. One that does not fit is passed over and later ones are still tried. If the
    most important one does not fit, it is cut. Which blocks are chosen does not depend on the order they are laid out
    in.
    """
    unique: dict[str, Block] = {}
    for block in blocks:
        unique.setdefault(block.anchor, block)
    best = next((block for block in unique.values() if block.kind == "focus"), next(iter(unique.values()), None))
    first = cut(best, budget, tokens) if best else None
    if first is None:
        return []
    unique[first.anchor] = first
    between = tokens.count(SEPARATOR)
    laid = list(unique.values())

    def turn(at: int) -> tuple[bool, int, int]:
        # Summaries lie from the top down: the nearest is the last.
        kind = laid[at].kind
        return laid[at] is not first, _ROOM.index(kind), -at if kind == "summary" else at

    turns = {at: rank for rank, at in enumerate(sorted(range(len(laid)), key=turn))}
    pieces = [Piece((block,), rank=turns[at]) for at, block in enumerate(laid)]
    chosen = pack(pieces, budget + between, lambda block: block.tokens + between)
    while True:
        shown = [chosen[index] for index in sorted(chosen)]
        # Far enough from the edge: counting the whole takes longer than all the rest.
        if len(shown) == 1 or total(shown, tokens) + 2 * len(shown) <= budget:
            break
        if all(tokens.count(joined(arranged(shown, each))) <= budget for each in ORDERS):
            break
        # Joining texts can, very rarely, take a token more than the texts and separators do by themselves.
        chosen.popitem()
    return arranged(shown, order)


def cut(block: Block, budget: int, tokens: Tokenizer) -> Block | None:
    """The beginning of a block, marked as such; None if not even a word of it has room."""
    if block.tokens <= budget:
        return block
    room = budget - tokens.count(_ELLIPSIS)
    while room > 0:
        text = tokens.cut_to(block.text, room).rstrip() + _ELLIPSIS
        size = tokens.count(text)
        if size <= budget and text != _ELLIPSIS:
            return replace(block, text=text, tokens=size)
        room -= max(1, size - budget)
    return None


def joined(blocks: Sequence[Block]) -> str:
    return SEPARATOR.join(block.text for block in blocks)


def total(blocks: Sequence[Block], tokens: Tokenizer) -> int:
    """What the blocks cost a reader: their own tokens and the separators."""
    return sum(block.tokens for block in blocks) + tokens.count(SEPARATOR) * max(0, len(blocks) - 1)


def difference(
    before: Sequence[Block], now: Sequence[Block]
) -> tuple[tuple[Block, ...], tuple[str, ...], tuple[str, ...]]:
    """What a reader of the earlier blocks must be told: new and changed ones whole; those removed or kept by anchor.

    Compares by anchor and version, and by text where one version can be shown in several ways.
    """
    old = {block.anchor: (block.version, block.text) for block in before}
    added = tuple(block for block in now if old.get(block.anchor) != (block.version, block.text))
    removed = old.keys() - {block.anchor for block in now}
    kept = tuple(block.anchor for block in now if block not in added)
    return added, tuple(anchor for anchor in old if anchor in removed), kept
