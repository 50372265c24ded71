"""The task that a summary hands over: where a conversation was compacted, it tells what was asked for before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mcp_memory.domain.text import folded
from mcp_memory.summaries.candidate import Said, said, user_text
from mcp_memory.summaries.cues import Kind
from mcp_memory.summaries.expressions import Expression
from mcp_memory.summaries.messages import plain, readable
from mcp_memory.summaries.sentences import sentences

_LONGEST_HEAD = 60
_HEAD = Expression(
    r"\W*(?:(?:primary|original|overall|main|current|user|user's|the)[ _])*(?:requests?|task|goals?|objectives?|intent)"
    r"(?: and \w+)?\W*"
)
#: What a summary puts before a request; the rest of the sentence is the request.
_SAYS_WHO = Expression(
    r"(?:the )?user(?: (?:initially|originally|first|then|also))?"
    r"(?: (?:asked|requested|wants|wanted|needs|needed)(?: (?:me|us|for|the assistant))?(?: to| that)?|"
    r" (?:invoked|ran) \S+ to|'s (?:\w+ )?(?:request|task|goal) (?:is|was)(?: for| to)*):?\s+"
)


def said_by_summary(text: str) -> Iterator[Said]:
    """The first request that stands below a heading for requests."""
    for head, task in pairwise(sentences(text)):
        low = folded(text[head.start : head.end])
        if len(low) > _LONGEST_HEAD or not _HEAD.fullmatch(low):
            continue
        body = plain(text[task.start : task.end])
        told = _SAYS_WHO.match(folded(body))
        body = body[told.end() :] if told else body
        if readable(body):
            yield said(text, task.start, task.end, user_text(body, Kind.REQUEST, ""), Kind.REQUEST)
        return
