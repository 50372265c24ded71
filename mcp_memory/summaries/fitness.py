"""How fit the phrases of a sentence are as titles: what they tell, how long they are and how they read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from mcp_memory.domain.text import has_unspaced_script, terms
from mcp_memory.summaries.finishing import MAX_WORDS, word_count
from mcp_memory.summaries.keywords import stems_of
from mcp_memory.summaries.phrases import Phrase, phrases
from mcp_memory.summaries.readability import readability

#: What a phrase loses that only leads up to what is asked for.
_LED_UP = 0.5
#: What is asked for names the matter by itself if it is so fit beside what led up to it.
_NAMES_IT = 0.6
_LENGTH = (0.0, 0.3, 0.55, 0.8, 0.95, 1.0, 1.0, 1.0, 1.0, 0.95, 0.9)


def headline(sentence: str, weights: Mapping[str, float]) -> str:
    """The most telling five to ten words of a sentence, from whole clauses where possible."""
    found = [(rough * readability(text), text) for rough, text in rated(sentence, weights)]
    return max(found, key=lambda entry: entry[0], default=(0.0, ""))[1]


def worth(title: str, weights: Mapping[str, float]) -> float:
    """How much a title tells: the weight of what it names, each thing once however many words its name has."""
    if has_unspaced_script(title):
        return _unspaced_worth(title, weights)
    told: dict[tuple[str, ...], float] = {}
    for word in title.split():
        parts = _named_by(word)
        if len(parts) == 1:
            if not parts[0].isdigit():
                told[parts] = weights.get(parts[0], 0.0)
        elif parts and not all(map(str.isdigit, parts)):
            ranked = sorted((weights.get(part, 0.0) for part in parts), reverse=True)
            told[parts] = ranked[0] + math.fsum(ranked[1:3]) * 0.3
    return math.fsum(told.values())


@lru_cache(maxsize=1 << 13)
def _named_by(word: str) -> tuple[str, ...]:
    return stems_of(word.strip("`'\".,;:()"))


def _unspaced_worth(title: str, weights: Mapping[str, float]) -> float:
    return math.fsum(weights.get(part, 0.0) for part in sorted(terms(title)))


def rated(sentence: str, weights: Mapping[str, float], *, asked: bool = False) -> list[tuple[float, str]]:
    """The phrases of a sentence, each once, with how fit they are but for how they read.

    Where something is `asked`, what the user did before only leads up to it, unless what is asked for names nothing.
    """
    best: dict[str, Phrase] = {}
    for phrase in phrases(sentence):
        known = best.get(phrase.text)
        if known is None or (phrase.opens, phrase.stops) > (known.opens, known.stops):
            best[phrase.text] = phrase
    found = [(_rough(phrase, weights), phrase) for phrase in best.values()]
    if asked:
        most = max((rough for rough, phrase in found if not phrase.told), default=0.0)
        found = [
            (rough * (_LED_UP if phrase.told and most >= _NAMES_IT * rough else 1.0), phrase) for rough, phrase in found
        ]
    return [(rough, phrase.text) for rough, phrase in found]


def _rough(phrase: Phrase, weights: Mapping[str, float]) -> float:
    length = _LENGTH[min(word_count(phrase.text), MAX_WORDS)]
    told = math.pow(worth(phrase.text, weights) + 0.2, 1.25)
    return told * length * phrase.opens * (1.2 if phrase.stops else 1.0)


def scored(phrase: Phrase, weights: Mapping[str, float]) -> float:
    """How fit a phrase is as a title."""
    return _rough(phrase, weights) * readability(phrase.text)
