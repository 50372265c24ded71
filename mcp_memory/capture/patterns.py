"""Regular expressions that are compiled when first used: the hook starts anew for every event and needs few of them."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    _Rule = TypeVar("_Rule")


def lazy(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A function that gives the compiled expression."""
    made: list[re.Pattern[str]] = []

    def pattern() -> re.Pattern[str]:
        if not made:
            made.append(re.compile(expression, flags))
        return made[0]

    return pattern


#: Characters from the rarest to the commonest in what people and programs write; all others are commoner.
_RARITY = "~$QZJXK@%zqjVYUWHGkFxBMPDNLROCTAIES=79v12_w-yghfpu."


def by_rarest(rules: Iterable[tuple[str, _Rule]]) -> list[tuple[str, list[_Rule]]]:
    """The rules by the rarest character of the sign of each: where that is missing, none of their signs is there."""
    groups: dict[str, list[_Rule]] = {}
    for sign, rule in rules:
        groups.setdefault(next((char for char in _RARITY if char in sign), ""), []).append(rule)
    return list(groups.items())
