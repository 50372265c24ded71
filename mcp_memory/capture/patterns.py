"""Regular expressions that are compiled when first used: the hook starts anew for every event and needs few of them."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def lazy(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A function that gives the compiled expression."""
    made: list[re.Pattern[str]] = []

    def pattern() -> re.Pattern[str]:
        if not made:
            made.append(re.compile(expression, flags))
        return made[0]

    return pattern
