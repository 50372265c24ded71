"""What a message is within its conversation: whose words it holds, whether it only asks, answers, or sums up.

Where people talk with each other, messages often begin with the name of who speaks ("Ann: see you then"). A question
that names Ann means what she said rather than what was said to her.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mcp_memory.domain.matches import Pool, Spot
from mcp_memory.domain.stems import root

SPOKEN = ("user", "assistant")
_NAME_WORDS, _NAME_LONGEST = 3, 40
_ASKS = ("?", "？", "؟")
#: A longer message says more than it asks; how near its end the question may stand.
_SHORT, _END = 300, 100
#: By these words people speak of themselves. Where they do, a question tells something as well.
_OF_ONESELF = re.compile(
    r"\b(?:i|me|my|mine|myself|we|us|our|ours|ich|mir|mich|mein\w*|wir|uns\w*|je|j|moi|mon|ma|mes|nous|notre|nos|yo|mi|mis"
    r"|nosotros|nuestr\w+|io|mio|mia|noi|eu|meu|minha|ik|mij|mijn|wij|jag|mig|min|vi|я|мне|меня|мой|моя|мы|нас)\b|[我私僕俺나저]",
    re.I,
)


def name_end(text: str) -> int:
    """Where the words begin that follow the speaker's name; 0 if the text does not begin with one."""
    colon = text.find(": ", 1, _NAME_LONGEST)
    if colon < 0:
        return 0
    words = text[:colon].split()
    if len(words) > _NAME_WORDS:
        return 0
    for word in words:
        if not word[0].isalpha() or word[0].islower():
            return 0
    return colon + 2


def speakers(pool: Pool) -> frozenset[str]:
    """The names of those who speak, by root, word by word; none unless most messages begin with one."""
    spoken = [spot for spot in pool.spots if spot.role in SPOKEN]
    ends = [(spot, end) for spot in spoken if (end := name_end(spot.text))]
    if len(ends) * 2 <= len(spoken):
        return frozenset()
    return frozenset(root(word) for spot, end in ends for word in spot.text[: end - 2].lower().split())


def only_asks(spot: Spot) -> bool:
    """Whether a message asks and tells nothing: it ends with a question, and nobody speaks of themselves.

    What a user asks an agent does not count as such: it is shown with the reply, and so leads to the answer.
    """
    text = spot.text
    if spot.role not in SPOKEN or len(text) > _SHORT or not text.rstrip().endswith(_ASKS):
        return False
    begin = name_end(text)
    return (begin > 0 or spot.role == "assistant") and not _OF_ONESELF.search(text, begin)


def answers(pool: Pool, spots: Mapping[int, Spot], asking: Mapping[int, bool]) -> set[int]:
    """The messages that come right after one that ends with a question, if `asking` says that it is to the point."""
    found = set()
    for number, beside in pool.beside.items():
        spot = spots[number]
        if asking[number] and any(mark in spot.text.rstrip()[-_END:] for mark in _ASKS):
            after = (spots[each] for each in beside if each in spots and is_later(spots[each], spot))
            following = min(after, key=lambda each: (each.timestamp_ms, each.number), default=None)
            if following:
                found.add(following.number)
    return found


def closing(pool: Pool, spots: Mapping[int, Spot]) -> set[int]:
    """The messages with which an agent ends, after others of its own: they sum up what was done."""
    found = set()
    for number, beside in pool.beside.items():
        spot = spots[number]
        if spot.role != "assistant" or not all(each in spots for each in beside):
            continue
        near = [spots[each] for each in beside]
        if any(is_later(each, spot) for each in near):
            continue
        before = max(near, key=lambda each: (each.timestamp_ms, each.number), default=None)
        if before and before.role == "assistant":
            found.add(number)
    return found


def is_later(spot: Spot, other: Spot) -> bool:
    return (spot.timestamp_ms, spot.number) > (other.timestamp_ms, other.number)
