"""The MCP resources, prompts and completions: memory as documents to attach, and ready-made ways to use it.

A resource or a prompt is one function below, declared by the line above it.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import mcp_types as types
from anyio import to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from pydantic import Field

from mcp_memory.errors import BadId, MemoryFault, NoProject, NotFound
from mcp_memory.surfaces.protocol import Declared, declared, harmless
from mcp_memory.surfaces.server import Memory

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.navigate.answers import Answers
    from mcp_memory.navigate.rendering import Page
    from mcp_memory.surfaces.doctor import Assessment

#: How long a document is at most.
TOKENS, SESSION_TOKENS = 2_000, 6_000
_AROUND = 5
#: How long the status document goes by one examination.
EXAMINED_SECONDS = 60.0
_MARKDOWN, _JSON = "text/markdown", "application/json"

#: Arguments whose values memory makes itself; others are stored names and words.
_OWN_VALUES = frozenset({"node_id", "grip_id", "when"})
#: Every resource and every prompt, by its name; its arguments, after the `Shelf`, are those in the address, or what the
#: user fills in.
RESOURCES: Declared = {}
PROMPTS: Declared = {}

RecallTopic = Annotated[str, Field(description="what to recall: a decision, a feature, an error, a name")]
CatchUpTime = Annotated[str, Field(description='the time to catch up on, such as "since Monday" or "last week"')]
SessionId = Annotated[str, Field(description="the session's id, as expand_grip and get_node show it")]


class Shelf:
    """What is behind resources and prompts. Each document is read afresh whenever it is asked for."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._health: Assessment | None = None
        self._examined = -math.inf

    async def text(self, ask: Callable[[Answers], Awaitable[Page]]) -> str:
        return (await ask((await self.memory.app()).answers)).text

    @declared(RESOURCES, uri="memory://toc", description="The table of contents of this project's memory")
    async def toc(self) -> str:
        return await self.text(lambda answers: answers.toc_root(None, None, TOKENS))

    @declared(RESOURCES, uri="memory://node/{node_id}", description="A year, month, week, day or segment")
    async def node(self, node_id: str) -> str:
        return await self.text(lambda answers: answers.get_node(node_id, None, None, TOKENS, None))

    @declared(RESOURCES, uri="memory://grip/{grip_id}", description="The exact words behind a bullet or hit")
    async def grip(self, grip_id: str) -> str:
        return await self.text(lambda answers: answers.expand_grip(grip_id, _AROUND, _AROUND, TOKENS))

    @declared(RESOURCES, uri="memory://session/{session_id}", description="A session's record and latest messages")
    async def session(self, session_id: str) -> str:
        app = await self.memory.app()
        from mcp_memory.navigate.sessions import session_text

        return (await session_text(app.answers, session_id, SESSION_TOKENS)).text

    @declared(RESOURCES, uri="memory://status", description="What is stored and what waits", mime_type=_JSON)
    async def status(self) -> str:
        app = await self.memory.app()
        from mcp_memory.domain.text import clean_json

        facts = await app.status()
        if not app.viewer:
            facts["health"] = (await self.health(app)).shape(private=app.settings.privacy.isolate)
        if app.settings.privacy.isolate and not app.viewer:
            # Sessions and transcripts of other projects have no names here.
            facts["set_aside"] = [{"reason": bad["reason"]} for bad in facts["set_aside"]]
            facts["failed"] = [{"stage": work["stage"], "reason": work["reason"]} for work in facts["failed"]]
            facts["compactions"] = {name: facts["compactions"][name] for name in ("records", "sessions", "waiting")}
        return json.dumps(clean_json(facts), indent=1)

    async def health(self, app: App) -> Assessment:
        """Assess the memory's health, at most once a minute: subscribed documents are read after every write."""
        from mcp_memory.surfaces.doctor import examine

        if self._health is None or time.monotonic() > self._examined + EXAMINED_SECONDS:
            self._health = await to_thread.run_sync(partial(examine, thorough=False), app.settings)
            self._examined = time.monotonic()
        return self._health

    @declared(PROMPTS, title="Recall a topic", description="What earlier sessions say about a topic, with proof")
    def recall(self, topic: RecallTopic) -> str:
        return _worded("recall", topic=topic)

    @declared(PROMPTS, title="Catch up", description="What was done, decided and left open in a time")
    def catch_up(self, when: CatchUpTime) -> str:
        return _worded("catch_up", when=when, quoted=json.dumps(when, ensure_ascii=False))

    @declared(PROMPTS, title="Condense a session", description="Makes a session's record now: decisions, to do, open")
    async def resummarize(self, session: SessionId) -> str:
        from mcp_memory.navigate.browse import session_name
        from mcp_memory.navigate.sessions import session_view

        # What the prompt asks for has happened when the model reads it.
        try:
            app = await self.memory.app()
            if app.viewer:
                app.viewer.must_write()
            await session_view(app.answers, session)  # raises if it may not be read
            made = await app.pipeline.compactor.compact(await session_name(app.store, session), force=True)
            condensed = "Nothing was said since its last record."
            if made.record is not None:
                condensed = f"Its record {made.record.id} was made just now."
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except MemoryFault as error:
            condensed = f"No record was made: {error}"
        return _worded("resummarize", session=session, condensed=condensed, address=quote(session, safe=":@"))


def _worded(prompt: str, **parts: str) -> str:
    from mcp_memory import lexicon

    return str(lexicon.table("prompts")[prompt]).format(**parts)


def _told(read: Callable[..., Awaitable[str]]) -> Callable[..., Awaitable[str]]:
    """Turn our errors into those that clients understand."""

    @wraps(read)
    async def reading(*args: Any, **kwargs: Any) -> str:
        try:
            return await read(*args, **kwargs)
        except NoProject as nowhere:
            return harmless(str(nowhere))
        except (NotFound, BadId) as error:
            raise ResourceNotFoundError(harmless(str(error))) from error
        except MemoryFault as error:
            raise ResourceError(harmless(str(error))) from error

    return reading


def publish(server: MCPServer[Any], memory: Memory) -> None:
    """Add all of it to a server."""
    shelf = Shelf(memory)
    for name, (told, function) in RESOURCES.items():
        server.resource(**{"mime_type": _MARKDOWN, **told}, name=name)(_told(function.__get__(shelf)))
    for name, (told, function) in PROMPTS.items():
        server.prompt(name, **told)(function.__get__(shelf))

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        ref: types.PromptReference | types.ResourceTemplateReference,
        argument: types.CompletionArgument,
        _: types.CompletionContext | None,
    ) -> types.Completion:
        if isinstance(ref, types.PromptReference):
            prompts = {prompt.name: prompt.arguments or () for prompt in await server.list_prompts()}
            known = [each.name for each in prompts.get(ref.name, ())]
        else:
            templates = {template.uri_template for template in await server.list_resource_templates()}
            known = re.findall(r"\{(\w+)\}", ref.uri) if ref.uri in templates else []
        if argument.name not in known:
            wrong = f"There is no argument {argument.name[:40]!r} here. Known: {known or 'none'}."
            raise MCPError(types.INVALID_PARAMS, wrong)
        from mcp_memory.domain.quoting import quoted
        from mcp_memory.domain.text import safe
        from mcp_memory.navigate.completions import MOST
        from mcp_memory.navigate.completions import complete as completed

        try:
            found = await completed((await memory.app()).answers, argument.name, argument.value.strip())
        except MemoryFault as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        # What holds characters that answers leave out could not be passed on as it is shown.
        values = [value for value in found if safe(value) == value]
        if argument.name not in _OWN_VALUES:
            values = [value for value in values if quoted(value) == value]
        more = len(values) > MOST
        return types.Completion(values=values[:MOST], total=None if more else len(values), has_more=more)
