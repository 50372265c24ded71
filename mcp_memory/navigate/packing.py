"""Packing an answer into its token budget: blocks in order of worth; what does not fit is counted, not shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_memory import errors
from mcp_memory.errors import Step

SMALLEST_BUDGET = 60
#: The rank from which on a block may be left out of an answer that is whole all the same.
_OPTIONAL = 3
#: Tokens below which the beginning of an answer tells nothing.
_SOME_WORDS = 8
#: Tokens by which texts may cost more together than apart.
_JOINTS = 3
#: Stands for a count that is not known yet: none has more digits.
_ANY_COUNT = 9_999


@dataclass(frozen=True, slots=True)
class Page:
    """A finished answer: its text, its exact tokens, how many of the items given are in it, and how many are left.

    `whole`: all that should be shown is, if not all that might be.
    """

    text: str
    tokens: int
    shown: int
    left: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that are shown together; of an item at least the first. A lower rank is given its room earlier.

    An item without lines has been told by another one: it counts as shown.
    """

    lines: tuple[str, ...]
    item: bool = True
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Packer:
    """Knows the budget's tokenizer, and whether the reader types commands instead of calling tools."""

    count: Callable[[str], int]
    cut_to: Callable[[str, int], str]
    typed: bool

    def say(self, step: Step) -> str:
        """A next step in the reader's words."""
        return step.command if self.typed else step.call

    def page(self, head: str, blocks: Sequence[Block], step: Step, budget: int, more: Step | None = None) -> Page:
        """As many blocks as fit between head and foot. Items end with the first that does not fit, so that a cursor can
        go on from there; other blocks are passed over. `more` tells how many items were left out."""
        items = sum(block.item for block in blocks)
        chosen = self._choose(blocks, self.room(head, step, budget))
        if more and _items(blocks, chosen) < items:
            # Something is left out, so room is needed to say so.
            chosen = self._choose(blocks, self.room(head, step, budget, more))
        left = items - _items(blocks, chosen)
        lines = [chosen[index] for index in sorted(chosen) if chosen[index]]
        if left and more:
            lines.append(self.say(more).format(left))
        text = self._with_foot("\n".join([head, *lines]), self.say(step), max(budget, SMALLEST_BUDGET))
        whole = all(index in chosen for index, block in enumerate(blocks) if block.rank < _OPTIONAL)
        return Page(text, self.count(text), items - left, left, whole)

    def room(self, head: str, step: Step, budget: int, more: Step | None = None) -> int:
        """The tokens that are left for blocks between head and foot."""
        told = self.count(self.say(more)) + _JOINTS if more else 0
        foot = self.count(_foot(_ANY_COUNT, self.say(step)))
        return max(budget, SMALLEST_BUDGET) - self.count(head) - foot - _JOINTS - told

    def _choose(self, blocks: Sequence[Block], room: int) -> dict[int, str]:
        """The texts of the blocks that fit, by their place in the list."""
        chosen: dict[int, str] = {}
        full = False
        for index in sorted(range(len(blocks)), key=lambda index: blocks[index].rank):
            block = blocks[index]
            if block.item and full:
                continue
            text = self._fitting(block, room)
            if text is None:
                full = full or block.item
            else:
                chosen[index] = text
                room -= self.count(text) + 1 if text else 0
        return chosen

    def _fitting(self, block: Block, room: int) -> str | None:
        """All of a block if there is room for it; of an item at least its first line; None if not even that fits."""
        if not block.lines:
            return ""
        texts = ["\n".join(block.lines), *(block.lines[:1] if block.item else ())]
        return next((text for text in texts if self.count(text) < room), None)

    def _with_foot(self, body: str, next_call: str, budget: int) -> str:
        body = self.cut_to(body, budget - self.count(_foot(_ANY_COUNT, next_call)) - 1)
        text = with_count(self.count, lambda tokens: f"{body}\n{_foot(tokens, next_call)}")
        return text if self.count(text) <= budget else self.cut_to(text, budget)

    def fit(self, text: str, budget: int, least: int = SMALLEST_BUDGET) -> str:
        """The text, or its beginning and the least budget for all of it: no answer exceeds its budget."""
        if self.count(text) <= budget:
            return text
        note = self.say(errors.too_small(least))
        room = budget - self.count(f"\n{note}") - 1
        short = f"{self.cut_to(text, room).rstrip()}\n{note}" if room >= _SOME_WORDS else note
        return self.cut_to(short, budget)


def with_count(count: Callable[[str], int], form: Callable[[int], str]) -> str:
    """A text that says how many tokens it has: the number is part of what is counted, but settles at once."""
    text = form(_ANY_COUNT)
    for _ in range(3):
        text = form(count(text))
    return text


def _items(blocks: Sequence[Block], chosen: dict[int, str]) -> int:
    return sum(blocks[index].item for index in chosen)


def _foot(tokens: int, next_call: str) -> str:
    return f"[{tokens} tokens · next: {next_call}]"
