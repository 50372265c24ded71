"""Ranking what the index offers: by what each message says, what stands beside it, its session, and how it answers.

A message often answers in words that the question does not use; the words are then in the message before. So a
message also counts what its neighbours say, as far as it does not say it itself, and a little of its whole session.
What was said before it counts more than what came after, and most if that was a question. The best are then read once
more and compared with each other: what looks like an answer comes first, and nothing over and over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from mcp_memory.domain.terms import Message, Pool
from mcp_memory.lexicon import sections
from mcp_memory.search.question import Question, folded
from mcp_memory.search.scoring import (
    LINES,
    PASSAGE,
    WEIGHTS,
    Match,
    Telling,
    answers,
    closing,
    is_later,
    match_of,
    role_weights,
    strengths,
)
from mcp_memory.times.resolve import TimeRange

#: In so many sessions the same may be said.
_REPEATS = 2
#: Characters of a passage that are compared to see whether the same was said before; how long one must be to count as
#: the same within another message or with other figures, how much is then compared, and how much is looked at first.
_COMPARED, _FEW_WORDS, _ALIKE, _BEGIN = 160, 80, 144, 12
_NO_FIGURES = str.maketrans("", "", "0123456789")
#: How many are read for what an answer looks like, and among how many what is repeated is looked for.
_READ, _SIFTED = 30, 60
#: So much of a message counts towards the length of its turn.
_COUNTED = 3_000
_TOOL = re.compile(r"\w*")
_SPOKE = frozenset(" ".join(sections("tools")["spoke"]).split())


def rank(telling: Telling, pool: Pool, favoured: TimeRange | None, *, diverse: bool) -> list[Match]:
    """All messages, best first; those said within the favoured time before their equals.

    With `diverse`, the best of each session come before more of the same.
    """
    question = telling.question
    ranked = sorted(_weighed(telling, pool, favoured), key=_best_first)
    # What lies far behind does not come first by looking like an answer, and need not be read for it.
    best = sorted([_answering(question, match) for match in ranked[:_READ]], key=_best_first)
    if question.newest:
        best = _newest_first(best, telling.rare)
    if diverse or question.gathers:
        best = _spread(best, telling.rare, WEIGHTS.same_session if diverse else WEIGHTS.again)
    ranked[:_READ] = best
    return _by_turn([*_originals_first(ranked[:_SIFTED]), *ranked[_SIFTED:]])


def _best_first(match: Match) -> tuple[float, int]:
    return -match.value, -match.message.timestamp_ms


def _weighed(telling: Telling, pool: Pool, favoured: TimeRange | None) -> list[Match]:
    """What each message is worth with all that stands around it."""
    places = telling.question.places_by_form([message.text for message in pool.messages])
    matches = {
        message.number: match_of(telling, message, *each) for message, each in zip(pool.messages, places, strict=True)
    }
    heard, sessions = _heard(telling, pool, matches), _sessions(telling, pool, matches)
    turns = _turns(telling, pool, matches)
    replies = answers(pool, matches)
    last = closing(pool, {number: match.message for number, match in matches.items()})
    question, roles, weighed = telling.question, role_weights(telling.question), list[Match]()
    for number, match in matches.items():
        message = match.message
        role = WEIGHTS.spoke if message.role == "tool" and _speaks(message.text) else roles.get(message.role, 1.0)
        value = role * (match.value + WEIGHTS.session * sessions.get(message.session, 0.0))
        value += WEIGHTS.turn * turns.get(_turn_of(message), 0.0)
        if number in heard:
            # What its neighbours say and it does not.
            near, rare = match.near, telling.rare
            value += sum([rare[unit] * much for unit, much in heard[number].items() if unit not in near])
        if number in replies and question.speaker in ("", message.role):
            value *= WEIGHTS.answers
        if number in last:
            value *= WEIGHTS.closes
        if favoured and favoured.start_ms <= message.timestamp_ms < favoured.end_ms:
            value *= WEIGHTS.favour
        weighed.append(match.worth(value))
    return weighed


def _heard(telling: Telling, pool: Pool, matches: Mapping[int, Match]) -> dict[int, dict[int, float]]:
    """What stands beside each message, as much as it counts there."""
    heard: dict[int, dict[int, float]] = {}
    for number, neighbours in pool.beside.items():
        match = matches[number]
        strong = strengths(match.places, len(match.message.text)) if neighbours else {}
        for unit in match.alike if strong else ():
            strong[unit] *= telling.alike[unit]
        for neighbour in neighbours:
            if neighbour not in matches:
                continue
            here = heard.setdefault(neighbour, {})
            counts = WEIGHTS.before if is_later(matches[neighbour].message, match.message) else WEIGHTS.after
            for unit, much in strong.items():
                here[unit] = here[unit] + counts * much if unit in here else counts * much
    return heard


def _sessions(telling: Telling, pool: Pool, matches: Mapping[int, Match]) -> dict[int, float]:
    """How much of the question each session speaks of at all."""
    counts: dict[int, dict[int, float]] = {}
    for message in pool.messages[: pool.matched]:
        said, match = counts.setdefault(message.session, {}), matches[message.number]
        for unit, places in match.places.items():
            much = (2 if len(places) > 1 else 1) * (telling.alike[unit] if unit in match.alike else 1.0)
            said[unit] = said.get(unit, 0.0) + much
    return {
        session: sum(telling.rare[unit] * count / (count + 1) for unit, count in said.items())
        for session, said in counts.items()
    }


def _turns(telling: Telling, pool: Pool, matches: Mapping[int, Match]) -> dict[int, float]:
    """How much of the question each turn speaks of."""
    roles = {"user": WEIGHTS.turn_user, "assistant": 1.0}
    said: dict[int, dict[int, float]] = {}
    lengths: dict[int, int] = {}
    for message in pool.messages:
        turn, match = _turn_of(message), matches[message.number]
        here = said.setdefault(turn, {})
        lengths[turn] = lengths.get(turn, 0) + min(len(message.text), _COUNTED)
        much = roles.get(message.role, WEIGHTS.turn_tool)
        for unit in match.places:
            here[unit] = here.get(unit, 0.0) + much * (telling.alike[unit] if unit in match.alike else 1.0)
    full, worth = WEIGHTS.k1 + 1, dict[int, float]()
    for turn, units in said.items():
        flat = WEIGHTS.k1 * (1 - WEIGHTS.turn_b + WEIGHTS.turn_b * lengths[turn] / WEIGHTS.turn_usual)
        worth[turn] = sum([telling.rare[unit] * much * full / (much + flat) for unit, much in units.items()])
    return worth


def _turn_of(message: Message) -> int:
    return message.turn or -message.session


def _speaks(text: str) -> bool:
    """Whether a tool's output is what someone said, such as a subagent's report."""
    return (_TOOL.match(text) or _TOOL.match("-"))[0].lower() in _SPOKE  # type: ignore[index]


def _answering(question: Question, match: Match) -> Match:
    """Worth more if it looks like an answer: it writes and names what is asked for."""
    text, focus, value = match.message.text, match.focus, match.value
    if match.near and question.exact:
        low = folded(text)
        written = sum([each.search(low) is not None for each in question.exact])
        value *= 1 + WEIGHTS.written * written / len(question.exact)
    if match.near and question.cues:
        passage = text[max(0, focus - PASSAGE // 3) : focus + PASSAGE * 2 // 3].lower()
        value *= math.prod([WEIGHTS.cue if cue.search(passage) else 1.0 for cue in question.cues])
    return match.worth(value)


def _newest_first(ranked: Sequence[Match], rare: Sequence[float]) -> list[Match]:
    """Of what speaks of the matter as much as the best does, or nearly so, the newer is worth more."""
    told = [sum([rare[unit] for unit in match.near]) for match in ranked]
    least = WEIGHTS.as_good * ranked[0].value if ranked else 0.0
    enough = WEIGHTS.as_good * max(told, default=0.0)
    fitting = [match for match, much in zip(ranked, told, strict=True) if match.value >= least and much >= enough]
    times = sorted({match.message.timestamp_ms for match in fitting})
    step = WEIGHTS.newer / max(len(times) - 1, 1)
    worth = {match.message.number: 1 + step * times.index(match.message.timestamp_ms) for match in fitting}
    newer = [match.worth(match.value * worth.get(match.message.number, 1.0)) for match in ranked]
    return sorted(newer, key=_best_first)


def _spread(ranked: Sequence[Match], rare: Sequence[float], same_session: float) -> list[Match]:
    """Take the best one at a time; what comes from the same session, or tells the same, is worth less from then on."""
    left = [(match, tuple(match.near), sum([rare[unit] for unit in match.near])) for match in ranked]
    chosen: list[Match] = []
    sessions = {match.message.session: 1.0 for match in ranked}
    units = list(rare)
    while left:
        # What is left of a match's worth, by how much of the full weight of what it tells is not told yet.
        worth = [
            match.value
            * (sum([units[unit] for unit in near]) / full if full else 1.0)
            * sessions[match.message.session]
            for match, near, full in left
        ]
        value = max(worth)
        match, near, _ = left.pop(worth.index(value))
        chosen.append(match.worth(value))
        sessions[match.message.session] *= same_session
        for unit in near:
            units[unit] *= WEIGHTS.again
    return chosen


def _originals_first(ranked: Sequence[Match]) -> list[Match]:
    """What is said over and over is boilerplate, and does not crowd out what was said once.

    Passages are compared, not whole messages: a report may be repeated within another one. Once in a session is
    enough, and in two of them.
    """
    begun: dict[str, list[Match]] = {}
    originals, repeated = list[Match](), list[Match]()
    for match in ranked:
        # Few passages begin alike, and only those need a closer look.
        others = begun.setdefault(match.message.text[match.focus : match.focus + _BEGIN], [])
        same = [other for other in others if _gist(other) == _gist(match)] if others else []
        if len(same) >= _REPEATS or any(other.message.session == match.message.session for other in same):
            repeated.append(match)
        else:
            originals.append(match)
            others.append(match)
    return originals + repeated


def _by_turn(ranked: Sequence[Match]) -> list[Match]:
    """One match for each turn, at the place of its best message; the next best stand with it as its lines.

    Several messages of one exchange tell one thing, and would take the places of others.
    """
    turns: dict[int, list[Match]] = {}
    for match in ranked:
        turns.setdefault(match.message.turn or -match.message.number, []).append(match)
    return [best._replace(lines=tuple(rest[:LINES])) for best, *rest in turns.values()]


def _gist(match: Match) -> tuple[str, frozenset[int]]:
    """The passage, or the whole message where little of it follows.

    A longer passage that comes with other figures is the same, unless a figure is what was asked for.
    """
    text, focus = match.message.text, match.focus
    enough = min(_COMPARED, max(_FEW_WORDS, len(text) // 2))
    said = text[focus : focus + _COMPARED] if len(text) - focus >= enough else text
    return said.translate(_NO_FIGURES)[:_ALIKE] if len(said) >= _FEW_WORDS else said, match.near
