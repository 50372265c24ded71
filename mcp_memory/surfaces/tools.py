"""The MCP tools. A tool is its docstring, its arguments and one call; the answer is text within a token budget.

Whatever costs time to import is imported when a tool is called: the server answers the handshake before that.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, ToolAnnotations
from mcp_types.version import is_version_at_least
from pydantic import Field

from mcp_memory.errors import NoProject
from mcp_memory.surfaces.protocol import Declared, Function, declared, harmless
from mcp_memory.surfaces.server import Memory

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.navigate.rendering import Page

#: Tokens kept free for the cursor in an answer's last line.
_CURSOR_TOKENS = 11
_FOOT = re.compile(r"\[\d+ tokens · next: (.*)\]")
#: From this version on a question to the user is the result of a call, before it a request of the server's own.
_ASKS_BY_RESULT = "2026-07-28"
_ERASE, _PIN = "erase", "pin"
#: Characters of a note in the question whether to pin it, and of the name of a client.
_NOTE_CHARS, _CLIENT_CHARS = 1_000, 40
#: Nothing to fill in: to accept is to agree.
_YES_OR_NO: dict[str, Any] = {"type": "object", "properties": {}}

#: Published as the values of an argument. The functions behind take any text, and say of an unknown one what is known.
KINDS = ("event", "grip", "segment", "day", "week", "month", "year")
NOTE_KINDS = ("note", "decision", "outcome", "rule", "open")
LAYOUTS = ("top-down", "u-curve")
LEVELS = ("year", "month", "week", "day", "segment")


def one_of(values: Sequence[str], description: str | None = None) -> Any:
    """Describe an argument that takes only these values."""
    return Field(description=description, json_schema_extra={"enum": [*values]})


NodeId = Annotated[str, Field(description="such as toc:month:2024-01, from another answer; or a date: 2024-01-15")]
GripId = Annotated[str, Field(description="such as grip:1705330800000:01HN… or grip:F189AA81, from a bullet or hit")]
Query = Annotated[str, Field(description="names, errors, files, identifiers; a time in it is understood")]
When = Annotated[str, Field(description='a time: "yesterday", "last week", "Jan 15-18", 2024-01-15, 2024-W03')]
MaybeWhen = Annotated[str | None, Field(description="only within this time, such as last week or 2024-01")]
Topic = Annotated[str | None, Field(description="only branches that speak of it")]
Project = Annotated[str | None, Field(description="a project's slug; * for all; default: the current one")]
Kind = Annotated[str | None, one_of(KINDS, "only hits of this kind")]
Diverse = Annotated[bool, Field(description="spreads the hits over sessions")]
Limit = Annotated[int, Field(description="how many hits, 1 to 50")]
Around = Annotated[int, Field(description="how many events of the session, 0 to 20")]
Budget = Annotated[int, Field(description="the answer is at most so long")]
Cursor = Annotated[str | None, Field(description="goes on where an earlier answer ended")]
Text = Annotated[str, Field(description="one self-contained fact, decision or preference")]
NoteKind = Annotated[str, one_of(NOTE_KINDS, "what it is; open: still to do")]
Pin = Annotated[bool, Field(description="show it at the start of every session")]
Focus = Annotated[str | None, Field(description="a node, grip, event or session id; default: the latest day")]
Ask = Annotated[str | None, Field(description="words that choose the focus, instead of an id")]
Layout = Annotated[str, one_of(LAYOUTS, "u-curve: the most important first and last")]
Memo = Annotated[bool, Field(description="with the pinned notes")]
Levels = Annotated[list[Annotated[str, one_of(LEVELS)]] | None, Field(description="summaries of these levels")]
Items = Annotated[int, Field(description="how many linked items or children, 0 to 20")]
Since = Annotated[str | None, Field(description="a snapshot from an earlier answer: only what has changed")]
Session = Annotated[str, Field(description="a session's id, as expand_grip and get_node show it")]
MaybeGrip = Annotated[str | None, Field(description="the grip of a hit: its whole event is erased")]
MaybeSession = Annotated[str | None, Field(description="a whole session is erased")]
Match = Annotated[str | None, Field(description="every event that holds this text as whole words is erased")]
Part = Annotated[bool, Field(description="match also inside of longer words")]
Confirm = Annotated[bool, Field(description="true only after the user has agreed")]

#: Every tool by its name, in the order in which clients list them; its arguments, after the `Tools`, are the agent's.
TOOLS: Declared = {}


def tool(
    title: str, hint: str, *, always: bool = False, writes: bool = False, destroys: bool = False
) -> Callable[[Function], Function]:
    """Publish the function below. Clients defer tools that are not `always` loaded, and find them by the `hint`."""
    annotations = ToolAnnotations(
        read_only_hint=not writes,
        destructive_hint=destroys,
        idempotent_hint=destroys or not writes,
        open_world_hint=False,
    )
    meta = {"anthropic/searchHint": hint} | ({"anthropic/alwaysLoad": True} if always else {})
    return declared(TOOLS, title=title, annotations=annotations, meta=meta)


class Tools:
    """What an agent can ask of its memory, or tell it. Docstrings are what the agent reads."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    async def answer(self, budget: int, ask: Callable[[App], Awaitable[Page]]) -> str:
        """The answer to one question, which never exceeds its budget, not even one too small for a useful answer."""
        page = await self._page(budget, ask)
        return (await self.memory.app()).answers.renderer.fit(page.text, budget)

    async def listed(self, budget: int, cursor: str | None, ask: Callable[[App, int], Awaitable[Page]]) -> str:
        """The same of a list, with the cursor of what follows in its last line, if something does and there is room.

        `ask` is told how many tokens are left beside that.
        """
        renderer = (await self.memory.app()).answers.renderer
        from mcp_memory.domain.budget import cursor_of, offset_of, with_count
        from mcp_memory.navigate.answers import valid_budget

        room, start = max(valid_budget(budget) - _CURSOR_TOKENS, 1), offset_of(cursor)
        page = await self._page(budget, lambda app: ask(app, room))
        body, _, foot = page.text.rpartition("\n")
        match = _FOOT.fullmatch(foot)
        if page.shown and page.left and match:
            onward = f'next: {match[1]}, cursor="{cursor_of(start + page.shown)}" for more'
            text = with_count(renderer.count, lambda tokens: f"{body}\n[{tokens} tokens · {onward}]")
            if renderer.count(text) <= budget:
                return text
        return renderer.fit(page.text, budget)

    async def _page(self, budget: int, ask: Callable[[App], Awaitable[Page]]) -> Page:
        """What is asked for. Where memory knows no project the answer says so: that is not an error of the call."""
        app = await self.memory.app()
        try:
            return await ask(app)
        except NoProject as nowhere:
            from mcp_memory.errors import ALL_PROJECTS, NOTES
            from mcp_memory.navigate.browse import Reach

            step = ALL_PROJECTS if app.answers.reach is Reach.NAMED else NOTES
            return app.answers.renderer.page(harmless(str(nowhere)), [], step, budget)

    @tool("Table of contents", "recall past sessions, history, what was done before", always=True)
    async def toc_root(self, project: Project = None, topic: Topic = None, budget_tokens: Budget = 300) -> str:
        """The top of the memory's table of contents: years, months and the latest days, with ids to go down.

        Start here when the question names neither a time nor a term."""
        app = await self.memory.app()
        from mcp_memory.surfaces.doctor import capture_gap

        # What is captured on the machine of a team's server is no matter of its members.
        notice = "" if app.viewer else await to_thread.run_sync(capture_gap, app.settings)
        return await self.answer(budget_tokens, lambda app: app.answers.toc_root(project, topic, budget_tokens, notice))

    @tool("Go down", "open a day, week, month or segment of past work")
    async def get_node(
        self,
        node_id: NodeId,
        project: Project = None,
        topic: Topic = None,
        budget_tokens: Budget = 300,
        cursor: Cursor = None,
    ) -> str:
        """One year, month, week, day or segment: its summary with grips, its children, parent and neighbours."""
        return await self.listed(
            budget_tokens, cursor, lambda app, room: app.answers.get_node(node_id, project, topic, room, cursor)
        )

    @tool("Exact words", "verify and quote what was said in a past session")
    async def expand_grip(
        self, grip_id: GripId, before: Around = 1, after: Around = 3, budget_tokens: Budget = 300
    ) -> str:
        """The exact words behind a bullet or hit, who said them when, and what was said around them.

        Call it before you state something recalled as a fact."""
        return await self.answer(
            budget_tokens, lambda app: app.answers.expand_grip(grip_id, before, after, budget_tokens)
        )

    @tool("Search memory", "find past decisions, errors, fixes, files, names by words", always=True)
    async def teleport(
        self,
        query: Query,
        when: MaybeWhen = None,
        project: Project = None,
        kind: Kind = None,
        limit: Limit = 5,
        budget_tokens: Budget = 500,
        cursor: Cursor = None,
        diverse: Diverse = False,
    ) -> str:
        """Search all remembered sessions for terms: the passages that hold them, best first, with grips.

        A hit is one exchange. Its score is how often such hits are right: from 0.8 on jump there, from 0.5 on verify,
        from 0.3 on compare; below that browse."""

        async def found(app: App, room: int) -> Page:
            hits, page = await app.answers.teleport(
                query, project, when, budget=room, kind=kind, limit=limit, cursor=cursor, diverse=diverse
            )
            return replace(page, left=page.left or int(hits.more is not None))

        return await self.listed(budget_tokens, cursor, found)

    @tool("Browse a time", "what was done yesterday, last week, on a date")
    async def browse_time(
        self,
        when: When,
        topic: Topic = None,
        project: Project = None,
        budget_tokens: Budget = 500,
        cursor: Cursor = None,
    ) -> str:
        """What happened in a time: the days, weeks or months that it covers, with their main points and grips."""
        return await self.listed(
            budget_tokens, cursor, lambda app, room: app.answers.browse_time(when, project, topic, room, cursor)
        )

    @tool("Build context", "get into a topic: summaries, details and links in a token budget")
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
        """Everything around one place, packed into the budget: pinned notes, what the summaries from the year down say
        of it, the place itself, and what is linked to it.

        Call it once to get into a matter; later with `since` and the snapshot of the last answer."""
        await self.memory.app()
        from mcp_memory.navigate.context import ContextRequest, levels_of

        request = ContextRequest(
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
        return await self.answer(budget_tokens, lambda app: app.contexts.page(request))

    @tool("Session record", "continue a session after compaction or resume")
    async def session_context(self, session_id: Session, budget_tokens: Budget = 1_500) -> str:
        """A session's record (decisions, action items, open questions, names) and its latest messages.

        Call it after a compaction or when a session is resumed."""

        async def page(app: App) -> Page:
            from mcp_memory.navigate.sessions import session_text

            return await session_text(app.answers, session_id, budget_tokens)

        return await self.answer(budget_tokens, page)

    @tool("Keep a note", "save a decision, preference or fact for later sessions", writes=True)
    async def remember(
        self, ctx: Context[None, Any], text: Text, kind: NoteKind = "note", pin: Pin = False, project: Project = None
    ) -> str | InputRequiredResult:
        """Keep a note for later sessions: a decision, a preference, a fact the user wants remembered.

        It is shown as yours. With pin the user is asked through the client; where that cannot be, the user pins it."""
        app = await self.memory.app()
        if project:
            await app.answers.scope(project)
        from mcp_memory.domain.text import one_line, safe

        consent = None
        if pin and text.strip():
            question = f"Show this agent's note at the start of every session: “{one_line(safe(text), _NOTE_CHARS)}”?"
            consent = await _agreement(ctx, question, _PIN)
            if isinstance(consent, InputRequiredResult):
                return consent
        told = ctx.session.client_params
        agent = safe(told.client_info.name, _CLIENT_CHARS) if told else ""
        is_pinned, asked = consent == "accept", consent == "unasked"
        event = await app.remember(text, is_pinned, project, kind, agent=agent, pin_asked=asked)
        app.pipeline.wake.set()
        grip_id = f"grip:{event.timestamp_ms}:{event.event_id}"
        shown = ""
        if is_pinned:
            shown = " It is shown at the start of every session."
        elif asked:
            shown = (
                " It is not pinned, since this client cannot ask the user; the user can do it in the viewer or with "
                f"`mcp-memory remember --pin {grip_id}`."
            )
        elif consent is not None:
            shown = " The user did not agree to pin it. Do not ask again unless the user does."
        return f"Remembered in project {event.project} as {grip_id}; teleport finds it from now on.{shown}"

    @tool("Erase", "delete something from memory for good", writes=True, destroys=True)
    async def forget(
        self,
        ctx: Context[None, Any],
        grip_id: MaybeGrip = None,
        session_id: MaybeSession = None,
        match: Match = None,
        part: Part = False,
        confirm: Confirm = False,
    ) -> str | InputRequiredResult:
        """Erase something for good, when the user asks for it: one event, a session, or all that holds a text.

        Without confirm it only says how much would go. With confirm=true the user is asked through the client before
        anything goes; where the client cannot ask, only grip_id is taken: ask the user yourself before you call it."""
        app = await self.memory.app()
        from mcp_memory.surfaces.forget_command import carry_out, preview_of, request_of_agent

        request, what = await request_of_agent(app, grip_id, session_id, match, part)
        found = await carry_out(app, request, dry_run=True)
        size = str(found)
        if not confirm or not found.anything:
            shown = (await preview_of(app, request, found, "part=true")).rendered()
            if not found.anything:
                return "\n".join(["Nothing was erased.", *shown])
            would = f"Would forget {size}. Nothing was erased: call it again with confirm=true if the user agrees."
            return "\n".join([would, *shown])
        answer = await _agreement(ctx, f"Erase {size} from memory for good: {what}?", _ERASE)
        if isinstance(answer, InputRequiredResult):
            return answer
        if answer == "unasked" and not grip_id:
            raise ToolError(
                f"This client cannot ask the user, so that only one event at a time is erased: give its grip_id. The "
                f"user can erase these {size} with `mcp-memory forget` on the command line."
            )
        if answer in ("decline", "cancel"):
            return "The user did not agree, so nothing was erased. Do not ask again unless the user does."
        grown = await carry_out(app, request, dry_run=True)
        if grown != found:
            return f"It would be {grown} by now, so nothing was erased: call it again."
        found = await carry_out(app, request, dry_run=False)
        return "\n".join([f"Forgot {found}.", *found.remarks(done=True)])


async def _agreement(
    ctx: Context[None, Any], question: str, name: str
) -> Literal["accept", "decline", "cancel", "unasked"] | InputRequiredResult:
    """What the user says to a question, in the way of the client's protocol; "unasked" if the client cannot ask.

    From 2026-07-28 on the question is the answer to the call, which the client repeats with what the user said. It
    counts only for the very question that was shown: what would be erased may have grown meanwhile. `name` is what the
    answer is known by.
    """
    able = ctx.client_capabilities.elicitation if ctx.client_capabilities else None
    if able is None or (able.form is None and able.url is not None):
        return "unasked"
    if is_version_at_least(ctx.protocol_version or "", _ASKS_BY_RESULT):
        state = hashlib.sha256(question.encode()).hexdigest()
        answer = (ctx.input_responses or {}).get(name)
        if isinstance(answer, ElicitResult) and ctx.request_state == state:
            return answer.action
        params = ElicitRequestFormParams(message=question, requested_schema=_YES_OR_NO)
        return InputRequiredResult(input_requests={name: ElicitRequest(params=params)}, request_state=state)
    if not ctx.session.can_send_request:
        return "unasked"
    answered: ElicitResult = await ctx.session.elicit_form(question, _YES_OR_NO, ctx.request_id)
    return answered.action


def tools_of(memory: Memory) -> list[Tool]:
    """All tools, as the server publishes them."""
    asked, published = Tools(memory), []
    for told, function in TOOLS.values():
        bound = function.__get__(asked)
        tool = Tool.from_function(bound, **told, description=inspect.getdoc(bound), structured_output=False)
        # What only costs the model tokens is left out: titles, and null where an argument may be left out.
        tool.parameters.pop("title", None)
        tool.parameters["additionalProperties"] = False
        for field in tool.parameters["properties"].values():
            field.pop("title", None)
            if "anyOf" in field:
                field.update(next(choice for choice in field.pop("anyOf") if choice.get("type") != "null"))
            if field.get("default", 0) is None:
                del field["default"]
        published.append(tool)
    return published
