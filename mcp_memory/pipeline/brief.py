"""Last stage: keep ready what the hook prints: a project's brief, and that of a session which goes on.

A session goes on after a compaction or a resume; its agent is given the record, and how the session ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcp_memory import lexicon
from mcp_memory.domain.budget import first_lines
from mcp_memory.domain.events import Event
from mcp_memory.domain.nodes import BriefSource
from mcp_memory.domain.records import Account, Record, body_lines
from mcp_memory.domain.text import safe
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.store.port import Store

MAX_CHARS = 8_900
_FOOT = "</memory>"
_GIST = 220
#: Of the room, what the end of the conversation may take; the record has the rest.
_TAIL_SHARE = 4


async def refresh_briefs(
    store: Store, inbox: Inbox, budget: int, count: Callable[[str], int], now_ms: int, lease_token: int
) -> None:
    """Write the briefs of the projects whose days have changed; a budget of 0: none is wanted."""
    for source in await store.outdated_briefs(50):
        text = compose(source, budget, count) if budget else ""
        await inbox.keep(dict.fromkeys(source.roots, text), now_ms)
        await store.settle_brief(source, lease_token)


def compose(source: BriefSource, budget: int, count: Callable[[str], int]) -> str:
    """The newest days first, and pinned notes before them, as much as fits."""
    if not source.days and not source.notes:
        return ""
    introduction = "\n".join(lexicon.sections("briefs")["project"])
    head = f'<memory project="{source.slug}">\n{introduction}\n'
    lines = [f"Pinned: {safe(event.text, 300)}" for event in source.notes]
    for day in source.days:
        lines.append(f"{day.node_id} {safe(day.title, 160)}")
        lines += [f"- {safe(bullet.shown, 240)}" for bullet in day.bullets]
    return head + "".join(first_lines(lines, head + _FOOT, budget, MAX_CHARS, count)) + _FOOT


def session_brief(
    account: Account, record: Record, tail: Sequence[Event], budget: int, count: Callable[[str], int]
) -> str:
    """The latest record line by line as far as it fits, then the gist of the last messages, within the budget."""
    name = safe(account.session_id, 80)
    introduction = "\n".join(lexicon.sections("briefs")["session"]).format(session=name)
    head = f'<memory project="{account.project}" session="{name}">\n{introduction}\n'
    ending = [f"{event.role}: {safe(event.text, _GIST)}" for event in reversed(tail) if event.text.strip()]
    title, share = "Last messages:\n", _TAIL_SHARE
    shown = first_lines(ending, title + _FOOT, budget // share, MAX_CHARS // share, count)
    last = title + "".join(reversed(shown)) if shown else ""
    lines = [safe(line, 400) for line in body_lines(record.body)]
    return head + "".join(first_lines(lines, head + last + _FOOT, budget, MAX_CHARS, count)) + last + _FOOT
