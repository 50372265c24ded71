"""The MCP tools: from an agent's question to an answer in text that keeps its token budget."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import (
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import Field

from mcp_memory.errors import (
    NoProject,
)
from mcp_memory.surfaces.protocol import harmless
from mcp_memory.surfaces.server import Memory

if TYPE_CHECKING:
    from mcp_memory.navigate.answers import Answers
    from mcp_memory.navigate.packing import Page

#: Tokens kept free for the cursor in an answer's last line.
_CURSOR_TOKENS = 11
_FOOT = re.compile(r"\[\d+ tokens · next: (.*)\]")

NodeId = Annotated[str, Field(description="such as toc:month:2024-01, from another answer")]
GripId = Annotated[str, Field(description="such as grip:1705330800000:01HN…, from a bullet or hit")]
Query = Annotated[str, Field(description="names, errors, files, identifiers; a time in it is understood")]
When = Annotated[str, Field(description='a time: "yesterday", "last week", "Jan 15-18", 2024-01-15, 2024-W03')]
MaybeWhen = Annotated[str | None, Field(description="only within this time, such as last week or 2024-01")]
Topic = Annotated[str | None, Field(description="only branches that speak of it")]
Project = Annotated[str | None, Field(description="a project's slug; * for all; default: the current one")]
Kind = Annotated[str | None, Field(description="only event, grip, segment, day, week, month or year")]
Diverse = Annotated[bool, Field(description="spreads the hits over sessions")]
Limit = Annotated[int, Field(description="how many hits, 1 to 50")]
Around = Annotated[int, Field(description="how many events of the session, 0 to 20")]
Budget = Annotated[int, Field(description="the answer is at most so long")]
Cursor = Annotated[str | None, Field(description="goes on where an earlier answer ended")]
Text = Annotated[str, Field(description="one self-contained fact, decision or preference")]
Pin = Annotated[bool, Field(description="show it at the start of every session")]


Focus = Annotated[str | None, Field(description="a node, grip, event or session id; default: the latest day")]
Ask = Annotated[str | None, Field(description="words that choose the focus, instead of an id")]
Layout = Annotated[str, Field(description="top-down, or u-curve: the most important first and last")]
Memo = Annotated[bool, Field(description="with the pinned notes")]
Levels = Annotated[list[str] | None, Field(description="summaries of these levels: year, month, week, day, segment")]
Items = Annotated[int, Field(description="how many linked items or children, 0 to 20")]
Since = Annotated[str | None, Field(description="a snapshot from an earlier answer: only what has changed")]
Session = Annotated[str, Field(description="a session's id, as expand_grip and get_node show it")]
MaybeGrip = Annotated[str | None, Field(description="the grip of a hit: its whole event is erased")]
MaybeSession = Annotated[str | None, Field(description="a whole session is erased")]
Match = Annotated[str | None, Field(description="every event that holds this text is erased")]
Confirm = Annotated[bool, Field(description="true only after the user has agreed")]


class Verbs:
    """What an agent can ask of its memory, or tell it. Docstrings are what the agent reads."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def toc_root(self, project: Project = None, topic: Topic = None, budget_tokens: Budget = 300) -> str:
        """The top of the memory's table of contents: years, months and the latest days, with ids to go down.

        Start here when the question names neither a time nor a term."""
        app = await self._memory.app()
        from anyio import to_thread

        from mcp_memory.surfaces.doctor import capture_gap

        notice = await to_thread.run_sync(capture_gap, app.settings)
        page = await app.answers.toc_root(project, topic, budget_tokens, notice)
        return _fit(app.answers, page.text, budget_tokens)

    async def get_node(
        self,
        node_id: NodeId,
        project: Project = None,
        topic: Topic = None,
        budget_tokens: Budget = 300,
        cursor: Cursor = None,
    ) -> str:
        """One year, month, week, day or segment: its summary with grips, its children, parent and neighbours."""
        answers = (await self._memory.app()).answers
        page = await answers.get_node(node_id, project, topic, _room(budget_tokens), cursor)
        return _paged(answers, page, _next_of_list(page, cursor), budget_tokens)

    async def expand_grip(
        self, grip_id: GripId, before: Around = 1, after: Around = 3, budget_tokens: Budget = 300
    ) -> str:
        """The exact words behind a bullet or hit, who said them when, and what was said around them.

        Call it before you state something recalled as a fact."""
        answers = (await self._memory.app()).answers
        return _fit(answers, (await answers.expand_grip(grip_id, before, after, budget_tokens)).text, budget_tokens)

    async def teleport(
        self,
        query: Query,
        when: MaybeWhen = None,
        project: Project = None,
        kind: Kind = None,
        limit: Limit = 5,
        budget_tokens: Budget = 400,
        cursor: Cursor = None,
        diverse: Diverse = False,
    ) -> str:
        """Search all remembered sessions for terms: the passages that hold them, best first, with grips.

        Each hit has a score: from 0.8 on jump there, from 0.5 on verify it, from 0.3 on compare; below that browse."""
        answers = (await self._memory.app()).answers
        from mcp_memory.search.hits import Search

        asked = Search(query, project, when, kind, limit, cursor, diverse)
        found, page = await answers.teleport(asked, _room(budget_tokens))
        following = found.more if page.shown == len(found.hits) else _position(cursor) + page.shown
        return _paged(answers, page, following if page.shown else None, budget_tokens)

    async def browse_time(
        self,
        when: When,
        topic: Topic = None,
        project: Project = None,
        budget_tokens: Budget = 600,
        cursor: Cursor = None,
    ) -> str:
        """What happened in a time: the days, weeks or months that it covers, with their main points and grips."""
        answers = (await self._memory.app()).answers
        page = await answers.browse_time(when, project, topic, _room(budget_tokens), cursor)
        return _paged(answers, page, _next_of_list(page, cursor), budget_tokens)

    async def build_context(
        self,
        focus: Focus = None,
        query: Ask = None,
        budget_tokens: Budget = 4_000,
        order: Layout = "top-down",
        include_memo: Memo = True,
        levels: Levels = None,
        top_k: Items = 5,
        since: Since = None,
        project: Project = None,
    ) -> str:
        """Everything around one place, packed into the budget: pinned notes, summaries from the year down, the place
        itself, and what is linked to it.

        Call it once to get into a matter; later with `since` and the snapshot of the last answer."""
        contexts = (await self._memory.app()).contexts
        from mcp_memory.navigate.context import Request, levels_of

        request = Request(
            focus=focus,
            query=query,
            budget_tokens=budget_tokens,
            order=order or "top-down",  # type: ignore[arg-type]  # checked where it is used
            include_memo=include_memo,
            levels=levels_of(levels),
            top_k=top_k,
            since=since,
            project=project,
        )
        return (await contexts.page(request)).text

    async def session_context(self, session: Session, budget_tokens: Budget = 1_500) -> str:
        """A session's record (decisions, action items, open questions, names) and its latest messages.

        Call it after a compaction or when a session is resumed."""
        app = await self._memory.app()
        _, page = await app.sessions.page(session, budget_tokens)
        return _fit(app.answers, page.text, budget_tokens)

    async def remember(self, text: Text, pin: Pin = False, project: Project = None) -> str:
        """Keep a note for later sessions: a decision, a preference, a fact the user wants remembered."""
        app = await self._memory.app()
        from mcp_memory.pipeline.ingest import remember

        if project:
            await app.answers.scope(project)
        event = await remember(app, text, pin, project)
        app.pipeline.wake.set()
        shown = " It is shown at the start of every session." if pin else ""
        return f"Remembered as grip:{event.timestamp_ms}:{event.event_id}; teleport finds it from now on.{shown}"

    async def forget(
        self,
        ctx: Context[None, Any],
        grip_id: MaybeGrip = None,
        session_id: MaybeSession = None,
        match: Match = None,
        confirm: Confirm = False,
    ) -> str | InputRequiredResult:
        """Erase something for good, when the user asks for it: one event, a session, or all that holds a text.

        Without confirm it only says how much would go. With confirm=true the user is asked through the client before
        anything goes; where the client cannot ask, only grip_id is taken: ask the user yourself before you call it."""
        app = await self._memory.app()
        from mcp_memory.surfaces.forget_command import agreement, carry_out, wish_of_agent

        wish, what = await wish_of_agent(app, grip_id, session_id, match)
        found = await carry_out(app, wish, dry_run=True)
        size = str(found)
        if not confirm:
            return f"Would forget {size}. Nothing was erased: call it again with confirm=true if the user agrees."
        answer = await agreement(ctx, f"Erase {size} from memory for good: {what}?")
        if isinstance(answer, InputRequiredResult):
            return answer
        if answer == "unasked" and not grip_id:
            raise ToolError(
                f"This client cannot ask the user, so that only one event at a time is erased: give its grip_id. The "
                f"user can erase these {size} with `mcp-memory forget` on the command line."
            )
        if answer in ("decline", "cancel"):
            return "The user did not agree, so nothing was erased. Do not ask again unless the user does."
        grown = await carry_out(app, wish, dry_run=True)
        if grown != found:
            return f"It would be {grown} by now, so nothing was erased: call it again."
        found = await carry_out(app, wish, dry_run=False)
        return "\n".join([f"Forgot {found}.", *found.remarks(done=True)])


def tools_of(memory: Memory) -> list[Tool]:
    """All tools, as the server publishes them."""
    verbs = Verbs(memory)

    def reading(verb: Callable[..., Awaitable[str]], title: str, hint: str, *, always: bool = False) -> Tool:
        return _tool(_somewhere(memory, verb), title, hint, always=always)

    return [
        reading(
            verbs.toc_root, "Table of contents", "recall past sessions, history, what was done before", always=True
        ),
        reading(verbs.get_node, "Go down", "open a day, week, month or segment of past work"),
        reading(verbs.expand_grip, "Exact words", "verify and quote what was said in a past session"),
        reading(
            verbs.teleport, "Search memory", "find past decisions, errors, fixes, files, names by words", always=True
        ),
        reading(verbs.browse_time, "Browse a time", "what was done yesterday, last week, on a date"),
        reading(
            verbs.build_context, "Build context", "get into a topic: summaries, details and links in a token budget"
        ),
        reading(verbs.session_context, "Session record", "continue a session after compaction or resume"),
        _tool(verbs.remember, "Keep a note", "save a decision, preference or fact for later sessions", writes=True),
        _tool(verbs.forget, "Erase", "delete something from memory for good", writes=True, destroys=True),
    ]


def _somewhere(memory: Memory, verb: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """The same, but that where memory knows no project the answer says so: that is no fault of the call."""
    usual = inspect.signature(verb).parameters["budget_tokens"].default

    @wraps(verb)
    async def asked(**arguments: Any) -> str:
        try:
            return await verb(**arguments)
        except NoProject as nowhere:
            answers = (await memory.app()).answers
            from mcp_memory.errors import ALL_PROJECTS, NOTES
            from mcp_memory.navigate.scope import Reach

            step = ALL_PROJECTS if answers.reach is Reach.NAMED else NOTES
            budget = arguments.get("budget_tokens", usual)
            return _fit(answers, answers.renderer.page(harmless(str(nowhere)), [], step, budget).text, budget)

    return asked


def _tool(
    verb: Callable[..., Any],
    title: str,
    hint: str,
    *,
    always: bool = False,
    writes: bool = False,
    destroys: bool = False,
) -> Tool:
    annotations = ToolAnnotations(
        read_only_hint=not writes,
        destructive_hint=destroys,
        idempotent_hint=destroys or not writes,
        open_world_hint=False,
    )
    # Clients defer tools that are not always loaded, and find them by the hint.
    meta = {"anthropic/searchHint": hint} | ({"anthropic/alwaysLoad": True} if always else {})
    tool = Tool.from_function(
        verb,
        title=title,
        description=inspect.getdoc(verb),
        annotations=annotations,
        meta=meta,
        structured_output=False,
    )
    _tidy(tool.parameters)
    return tool


def _tidy(schema: dict[str, Any]) -> None:
    """Leave out of a schema what only costs the model tokens: titles, and null where an argument may be left out."""
    schema.pop("title", None)
    schema["additionalProperties"] = False
    for field in schema["properties"].values():
        field.pop("title", None)
        if "anyOf" in field:
            field.update(next(choice for choice in field.pop("anyOf") if choice.get("type") != "null"))
        if field.get("default", 0) is None:
            del field["default"]


def _room(budget: int) -> int:
    from mcp_memory.navigate.answers import checked

    return max(checked(budget) - _CURSOR_TOKENS, 1)


def _position(cursor: str | None) -> int:
    from mcp_memory.search.hits import offset_of

    return offset_of(cursor)


def _next_of_list(page: Page, cursor: str | None) -> int | None:
    """Where a list goes on, if some of it was left out."""
    return _position(cursor) + page.shown if page.shown and page.left else None


def _paged(answers: Answers, page: Page, following: int | None, budget: int) -> str:
    """The answer, with the cursor of what follows in its last line if there is room for it."""
    from mcp_memory.navigate.packing import with_count
    from mcp_memory.search.hits import cursor_of

    body, _, foot = page.text.rpartition("\n")
    match = _FOOT.fullmatch(foot)
    if following is None or not match:
        return _fit(answers, page.text, budget)
    onward = f'next: {match[1]}, cursor="{cursor_of(following)}" for more'
    count = answers.renderer.count
    text = with_count(count, lambda tokens: f"{body}\n[{tokens} tokens · {onward}]")
    return text if count(text) <= budget else _fit(answers, page.text, budget)


def _fit(answers: Answers, text: str, budget: int) -> str:
    """An answer never exceeds its budget, not even one too small for a useful answer."""
    return answers.renderer.fit(text, budget)
