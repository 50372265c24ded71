"""Finding the few items of a portion that are rejected, so that all others are taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Rejected = TypeVar("Rejected", bound=Exception)


async def halve_rejected(
    items: Sequence[Item], take: Callable[[Sequence[Item]], Awaitable[None]], rejected: type[Rejected]
) -> list[tuple[Item, Rejected]]:
    """Hand a portion to `take`, and its halves if it is rejected; return the single items that are, with the errors.

    `take` takes all of a portion or nothing. Any other error ends it.
    """
    if not items:
        return []
    try:
        await take(items)
    except rejected as error:
        if len(items) == 1:
            return [(items[0], error)]
    else:
        return []
    middle = len(items) // 2
    return [
        *await halve_rejected(items[:middle], take, rejected),
        *await halve_rejected(items[middle:], take, rejected),
    ]
