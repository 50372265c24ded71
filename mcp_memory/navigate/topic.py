"""Going down by a topic: which branches speak of it, which most, and the passages that do.

A branch is worth what was said in it, not only what its summary says, in which the words of a question seldom stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_memory.domain.matches import Within
from mcp_memory.domain.nodes import Bullet, Node
from mcp_memory.domain.terms import terms_of
from mcp_memory.domain.toc import Level, NodeRef, ancestors, parse_node_id
from mcp_memory.errors import UsageError
from mcp_memory.search.asked import LEVELS, Wanted
from mcp_memory.search.beside import with_replies
from mcp_memory.search.found import Found, Hit
from mcp_memory.search.passage import passage_of
from mcp_memory.search.question import Question, question_of
from mcp_memory.search.recall import teleport
from mcp_memory.search.scope import Scope
from mcp_memory.store.port import Library
from mcp_memory.times.resolve import TimeRange

_HITS, _NODES, _ENOUGH = 16, 40, 12
#: What a place in the ranking is worth beside the score, and what it is worth to be spoken of in a summary.
_PLACE, _SUMMARY = 0.15, 0.05
_SPEAKS = 0.02
#: A time filter reads all that lies in the time; in a longer one, everything is searched and what is outside left out.
_NARROW_MS = 40 * 24 * 3_600_000

Branch = tuple[str, NodeRef]


@dataclass(frozen=True, slots=True)
class Topic:
    """`worth` says how much each branch speaks of it; `hits` are the passages that do, best first."""

    text: str
    question: Question
    weights: tuple[float, ...]
    worth: Mapping[Branch, float]
    hits: tuple[Hit, ...]

    def keeps(self, node: Node) -> bool:
        return (node.project, node.ref) in self.worth or self._named_by(node)

    def _named_by(self, node: Node) -> bool:
        """Whether keywords and bullets hold all of it: of a common word only the best passages are in `worth`."""
        told = "\n".join([*node.keywords, *(bullet.text for bullet in node.bullets)])
        return len(self.question.places([told])[0]) == len(self.question.units) > 0

    def ordered(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that speak of it, those that do most first."""
        kept = [node for node in nodes if self.keeps(node)]
        return sorted(kept, key=lambda node: -self.worth.get((node.project, node.ref), 0.0))

    def best(self, level: Level, many: int) -> list[Branch]:
        """The branches of a level that speak of it most."""
        found = [branch for branch in self.worth if branch[1].level is level]
        return sorted(found, key=lambda branch: (-self.worth[branch], branch))[:many]

    def bullets(self, bullets: Sequence[Bullet], beside: Sequence[Hit] = ()) -> list[Bullet]:
        """The bullets that name it, those that say most of it first; all if none does, since the branch was kept.

        Beside a passage only those that say more than it.
        """
        told = [(passage_of(self.question, bullet.text, self.weights).worth, bullet) for bullet in bullets]
        least = max((hit.passage.worth for hit in beside), default=0.0)
        named = sorted((pair for pair in told if pair[0] > least), key=lambda pair: -pair[0])
        return [bullet for _, bullet in named] or ([] if beside else list(bullets))

    def said_in(self, node: Node, many: int) -> list[Hit]:
        """The best passages that were said within a node, without those that only stand beside one."""
        inside = [hit for hit in self.hits if (node.project, node.ref) in _branches(hit)]
        return [hit for at, hit in enumerate(inside) if at == 0 or hit.score >= _SPEAKS][:many]


async def topic_of(
    library: Library, text: str | None, scope: Scope, within: tuple[int, int] | None = None
) -> Topic | None:
    """The topic as it is spoken of, in a time if one is given; None if there is none."""
    if text is None or not text.strip():
        return None
    if not terms_of(text):
        raise UsageError(f"The topic {text[:60]!r} holds no word to look for; leave it out or name one.")
    narrow = within is not None and within[1] - within[0] <= _NARROW_MS
    when = TimeRange("", *within) if within and narrow else None
    question = question_of(text)
    found = await teleport(library, Wanted(scope, text, when, kind="event", limit=_HITS))
    found = await with_replies(library, found, question)
    spoken = await _spoken_of(library, question, scope) if len(found.hits) < _ENOUGH else set()
    return Topic(text, question, found.weights, _worth(found, spoken), tuple(found.hits))


async def _spoken_of(library: Library, question: Question, scope: Scope) -> set[Branch]:
    """The branches whose summaries speak of it; where many events do, these tell enough."""
    nodes = await library.search(question.sought, Within(scope.project), kinds=frozenset(LEVELS), limit=_NODES)
    return {(node.project, ref) for node in (each.node for each in nodes) if node for ref in _up(node.ref)}


def _worth(found: Found, spoken: set[Branch]) -> dict[Branch, float]:
    worth = dict.fromkeys(spoken, _SUMMARY)
    for place, hit in enumerate(found.hits):
        for branch in _branches(hit):
            worth[branch] = worth.get(branch, 0.0) + hit.score + _PLACE / (1 + place)
    return worth


def _branches(hit: Hit) -> list[Branch]:
    """The segment that a hit lies in, and all above it."""
    return [(hit.project, ref) for ref in _up(parse_node_id(hit.node_id)[0])] if hit.node_id else []


def _up(ref: NodeRef) -> list[NodeRef]:
    return [ref, *ancestors(ref)]
