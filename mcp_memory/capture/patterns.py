"""Regular expressions that are compiled when first used: the hook starts anew for every event and needs few of them."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    _Rule = TypeVar("_Rule", bound="tuple[Any, ...]")


def lazy(expression: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A function that gives the compiled expression."""
    made: list[re.Pattern[str]] = []

    def pattern() -> re.Pattern[str]:
        if not made:
            made.append(re.compile(expression, flags))
        return made[0]

    return pattern


def grouped(rules: Iterable[_Rule], shared: Sequence[str]) -> list[tuple[str, list[_Rule]]]:
    """Rules whose first part is a trigger, by what several triggers have in common: where that is missing, none of them
    needs to be looked for."""
    groups: dict[str, list[_Rule]] = {}
    for rule in rules:
        sign = next((part for part in shared if part in rule[0]), rule[0])
        groups.setdefault(sign, []).append(rule)
    return list(groups.items())
