"""The point of a sentence, as a statement that names a matter: what a question wonders about, what a `but` leads to."""

from __future__ import annotations

from mcp_memory.domain.text import folded
from mcp_memory.lexicon import Expression
from mcp_memory.summaries import cues

#: What things do, beside what one asks for.
_DOES = frozenset(
    """
    accept act affect appear behave block break cause complain contain cover crash decide depend die differ disappear
    emit end exceed exist expect expire fail fall finish fire flicker freeze happen hang have hit hold jump know lag
    lack last leak lose match mean miss need occur overlap override pile point produce provide raise reach refer
    refuse reject rely render require respond say see seem shift show sit stay stick swallow terminate throw time turn
    vanish wait want work wrap
    """.split()
)
_VERBS = _DOES | cues.IMPERATIVES
_NO_VERB = frozenset("the a an my our your their this that these those its his her".split())
_AUXILIARY = frozenset("is are was were has have had does do did can could will would should must may only now".split())
_WHY = Expression(
    r"(?:(?:any idea|do you know|can you (?:tell|explain)(?: me)?|(?:please )?(?:explain|tell me)|i wonder|"
    r"(?:i'm )?wondering) )?(?:and |so |but )?why (does|do|is|are|was|were|doesn't|don't|didn't)\s+"
    r"(?!(?:we|you|i|not)\b)"
)
_MEANING = Expression(
    r"(?:so |and |but )?(what do(?:es)?|how do(?:es)?) (?!(?:we|you|i)\b)([^?.!]{3,80}?) "
    r"(do|mean|work)(?: exactly| here| then)?(?:\W*$|[?.!]+ )"
)
_HOW = Expression(
    r"(?:so |and |but )?(how|where|when) (do(?:es)?) (?!(?:we|you|i|one|people)\b)([^?.!]{8,90})(?=[?.!]|$)"
)
_BUT = Expression(
    r",?;?\s(?:but|yet|however,?)\s+(?:(it|they|that|this)\s+)?(?:(?:still|also|now|currently|just|really|actually)\s+)*"
)
_POINTED = Expression(
    r"(?:lacks?|miss(?:es)?|has no|have no|doesn't|does not|don't|do not|isn't|is not|aren't|are not|never|no longer|"
    r"fails?|cannot|can't|won't|needs?|ignores?|loses?|drops?|crashes|breaks|hangs|is missing|are missing)\b"
)
#: What follows is a wish or a limit rather than the point.
_ASIDE = Expression(
    r"(?:please|wondering|i|i'm|i'd|we|you|let|only|not|for|with|in|on|at|if|when|don't|do not|there should)\b"
)
_PLACED = Expression(
    r"((?:[^\s,.;:]+ ){1,6}?[^\s,.;:]+) (?:in|on|of|from|for|at|with|by|inside|within) (?:[^,.;:]|[.:](?=\w)){3,60}? "
    r"(?:is|are|was|were|has been|have been) ((?:not|never|no longer|still not|missing|broken|wrong|unused|duplicated|"
    r"outdated|lost|ignored|empty|stale|redundant)\b)"
)
_LONGEST_SUBJECT = 6
_SHORTEST_POINT = 3


def statement(text: str) -> str:
    """A question as what it wonders about: `Why does the page load twice?` as `the page loads twice`.

    `What does the flag do?` is `what the flag does`, `How does it end a line?` is `how it ends a line`.
    """
    low = folded(text)
    return _what_it_means(text, low) or _how_it_does(text, low) or _why_it_does(text, low) or text


def _what_it_means(text: str, low: str) -> str:
    meant = _MEANING.match(low) if "what do" in low or "how do" in low else None
    if not meant:
        return ""
    verb = meant[3] if meant[1].endswith("do") else _third(meant[3])
    return f"{text[: meant.start(1)]}{meant[1].partition(' ')[0]} {text[slice(*meant.span(2))]} {verb}"


def _how_it_does(text: str, low: str) -> str:
    how = _HOW.match(low) if low[:16].find(" do") > 0 else None
    if not how or (at := _verb(said := text[slice(*how.span(3))].split())) is None:
        return ""
    said[at] = _third(said[at]) if how[2] == "does" else said[at]
    return f"{how[1]} {' '.join(said)}{text[how.end() :]}"


def _why_it_does(text: str, low: str) -> str:
    asked = _WHY.match(low) if "why " in low else None
    if not asked:
        return ""
    words, stop, rest = text[asked.end() :].partition("?")
    said = words.split()
    if asked[1] in ("is", "are", "was", "were", "do"):
        said = said[1:] if said[:1] in (["there"], ["it"]) else said
    elif (at := _verb(said)) is not None:
        said[at] = _third(said[at]) if asked[1] == "does" else f"{asked[1]} {said[at]}"
    else:
        return "" if asked[1].endswith("n't") else words + stop + rest
    return " ".join(said) + stop + rest


def contrast(text: str) -> str:
    """What is wrong by a sentence that first says what is right, with its subject; empty if it says no such thing.

    `The export knows filters but lacks a limit` is about the export that lacks a limit.
    """
    low = folded(text)
    turns = " but " in low or " yet " in low or " however" in low
    turn = _BUT.search(low) if turns else None
    if not turn or cues.opens_with_task(low):
        return ""
    point = text[turn.end() :].partition(". ")[0]
    if len(point.split()) < _SHORTEST_POINT:
        return ""
    if _POINTED.match(low, turn.end()):
        before = text[: turn.start()]
        subject = _subject(before[before.rfind(". ") + 1 :].split())
        return f"{subject} {point}" if subject else ""
    apart = turn[1] or _ASIDE.match(low, turn.end()) or cues.opens_with_task(low, turn.end())
    return "" if apart else point


def contracted(text: str) -> tuple[str, str]:
    """A clause without what only places its subject, and the word with which it says what is wrong, if it does.

    `The rules for proxies in the config are never read at start` is `The rules never read at start`.
    """
    found = _PLACED.match(folded(text))
    return (f"{text[: found.end(1)]} {text[found.start(2) :]}", found[2]) if found else ("", "")


def _subject(words: list[str]) -> str:
    """The words before the first verb of a clause."""
    for at, word in enumerate(words[: _LONGEST_SUBJECT + 1]):
        if at and (word.lower() in _AUXILIARY or _is_third(word.lower())):
            return " ".join(words[:at])
    return ""


def _verb(words: list[str]) -> int | None:
    """Where the verb stands that `does` was taken from: behind the subject, not before another verb."""
    low = [word.lower().strip(".,;:!") for word in words]
    for at in range(1, len(low)):
        follows = low[at + 1] if at + 1 < len(low) else ""
        if low[at] in _VERBS and low[at - 1] not in _NO_VERB and follows not in _VERBS:
            return at
    return None


def _third(verb: str) -> str:
    """A verb in the third person: fail, fails."""
    if verb.lower() in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[verb.lower()]
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "x", "z", "ch", "sh")) else f"{verb}s"


def _is_third(word: str) -> bool:
    return word.endswith("s") and any(base in _VERBS for base in (word[:-1], word[:-2], f"{word[:-3]}y"))
