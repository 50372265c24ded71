"""Packing blocks of context into a hard token budget, laying them out, and telling what changed. All of it pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

T = TypeVar("T")
Order = Literal["top-down", "u-curve"]
Kind = Literal["memo", "summary", "focus", "linked", "item"]
ORDERS: tuple[Order, ...] = ("top-down", "u-curve")
SEPARATOR = "\n\n"
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of context: `anchor` is what can be asked for by id, `version` which state of it the text shows."""

    kind: Kind
    anchor: str
    version: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts exactly, and cuts a text to a number of tokens."""

    count: Callable[[str], int]
    cut_to: Callable[[str, int], str]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a reader of the earlier blocks must be told: new and changed ones whole, the others by their anchors."""

    added: tuple[Block, ...]
    removed: tuple[str, ...]
    kept: tuple[str, ...]


def u_curve(items: Sequence[T]) -> list[T]:
    """Best first, second best last, the weakest in the middle: A B C D E F G becomes A C E G F D B."""
    return [*items[::2], *reversed(items[1::2])]


def arranged(blocks: Sequence[Block], order: Order) -> list[Block]:
    return u_curve(blocks) if order == "u-curve" else list(blocks)


def pack(blocks: Sequence[Block], budget: int, tokens: Tokenizer, order: Order = "top-down") -> list[Block]:
    """As many blocks as the budget holds, separators included, in the order wanted.

    The first focus is given room first, then the others in turn; one that does not fit is passed over and later ones
    are still tried. If the most important one does not fit, it is cut. Which blocks are chosen does not depend on the
    order they are laid out in.
    """
    unique = _once(blocks)
    if not unique:
        return []
    ranked = sorted(range(len(unique)), key=lambda index: (_after_focus(unique, index), index))
    first = cut(unique[ranked[0]], budget, tokens)
    if first is None:
        return []
    unique[ranked[0]] = first
    chosen = _chosen(unique, ranked, budget, tokens)
    while len(chosen) > 1 and not _fits(unique, chosen, budget, tokens):
        # Joining texts can, very rarely, take a token more than the texts and separators do by themselves.
        chosen.pop()
    return arranged([unique[index] for index in sorted(chosen)], order)


def _once(blocks: Sequence[Block]) -> list[Block]:
    found: dict[str, Block] = {}
    for block in blocks:
        found.setdefault(block.anchor, block)
    return list(found.values())


def _after_focus(blocks: Sequence[Block], index: int) -> bool:
    """False sorts first."""
    return index != next((at for at, block in enumerate(blocks) if block.kind == "focus"), -1)


def _chosen(blocks: Sequence[Block], ranked: Sequence[int], budget: int, tokens: Tokenizer) -> list[int]:
    between = tokens.count(SEPARATOR)
    chosen: list[int] = []
    left = budget
    for index in ranked:
        cost = blocks[index].tokens + (between if chosen else 0)
        if cost <= left:
            chosen.append(index)
            left -= cost
    return chosen


def _fits(blocks: Sequence[Block], chosen: Sequence[int], budget: int, tokens: Tokenizer) -> bool:
    shown = [blocks[index] for index in sorted(chosen)]
    if total(shown, tokens) + 2 * len(shown) <= budget:
        return True  # far enough from the edge, and counting the whole takes longer than all the rest
    return all(tokens.count(joined(arranged(shown, order))) <= budget for order in ORDERS)


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


def difference(before: Sequence[Block], now: Sequence[Block]) -> Difference:
    """Compares by anchor and version, and by text where one version can be shown in several ways."""
    old = {block.anchor: (block.version, block.text) for block in before}
    added = tuple(block for block in now if old.get(block.anchor) != (block.version, block.text))
    changed = {block.anchor for block in added}
    shown = {block.anchor for block in now}
    return Difference(
        added,
        tuple(anchor for anchor in old if anchor not in shown),
        tuple(block.anchor for block in now if block.anchor not in changed),
    )
