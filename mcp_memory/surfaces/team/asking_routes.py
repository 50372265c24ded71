"""What a laptop asks of the team's memory for its agent: the same answers as the tools', and hits that it can merge.

Whose view answers is told by the token. Each question gets a row in the audit, with how many ids came of it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from mcp_memory.capture.inbox import named_ids
from mcp_memory.domain.nodes import Bullet, Kind, Node, NodeQuery
from mcp_memory.domain.people import AuditRow
from mcp_memory.domain.toc import TEAM, Level, parse_node_id
from mcp_memory.errors import BadId, NotFound, UsageError
from mcp_memory.navigate.answers import Answers
from mcp_memory.navigate.browse import ALL, grip_key
from mcp_memory.navigate.colleagues import MOST_HITS
from mcp_memory.navigate.context import ContextRequest, levels_of
from mcp_memory.navigate.sessions import session_page
from mcp_memory.navigate.shapes import iso, told_hit
from mcp_memory.surfaces.team.identity import current

if TYPE_CHECKING:
    from mcp_memory.app import App
    from mcp_memory.navigate.rendering import Page
    from mcp_memory.surfaces.team.serving import TeamMemory

#: A question is no longer; no argument of one is.
_MOST_BYTES, _MOST_CHARS = 65_536, 8_000
_DAY_MS = 86_400_000
#: How far back news reach, how many segments are looked at, how many lines are told, and how long each is.
_NEWS_DAYS, _NEWS_SEGMENTS, _NEWS, _LINE = 30, 120, 2, 200
#: What is news: a kind of bullet, the most useful first. What is none of them is told only where nothing else is.
_USEFUL = (Kind.DECISION, Kind.CORRECTION, Kind.RULE, Kind.OUTCOME, Kind.FIXED, Kind.COMMIT, Kind.CAUSE)


@dataclass(frozen=True, slots=True)
class TeamQuestion:
    """The arguments of a question, each checked where it is taken; and the project it is about, if it is about one."""

    arguments: Mapping[str, Any]
    project: str | None

    def text(self, name: str) -> str | None:
        value = self.arguments.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > _MOST_CHARS):
            raise UsageError(f"{name} must be a text of at most {_MOST_CHARS} characters.")
        return value

    def words(self, name: str) -> str:
        return self.text(name) or ""

    def number(self, name: str, default: int) -> int:
        value = self.arguments.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} must be a whole number.")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return bool(self.arguments.get(name, default))

    def names(self, name: str) -> list[str] | None:
        value = self.arguments.get(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            raise UsageError(f"{name} must be a list of names.")
        return value

    @property
    def budget(self) -> int:
        return self.number("budget_tokens", 500)


async def ask(memory: TeamMemory, request: Request) -> Mapping[str, Any]:
    """The answer to one question, as the member who asks may see the memory."""
    tool, project, many, outcome = "?", None, 0, "failed"
    try:
        told = await _document(request)
        asked, arguments = str(told.get("tool", ""))[:40], told.get("arguments") or {}
        if asked not in TOOLS or not isinstance(arguments, dict):
            raise UsageError(f"{asked!r} is not something to ask; known are {', '.join(TOOLS)}.")
        tool = asked
        app = await memory.app()
        try:
            project = await _project(app, told.get("project"))
            answer = await TOOLS[tool](app, TeamQuestion(arguments, project))
        except (NotFound, BadId) as error:
            answer = {"text": "", "missing": str(error)}
        many, outcome = _counted(answer), "refused" if "missing" in answer else "ok"
        return answer
    except UsageError:
        outcome = "refused"
        raise
    finally:
        memory.audit.note(AuditRow(memory.now_ms(), current().name, f"ask {tool}", project or "", many, outcome))


async def _document(request: Request) -> dict[str, Any]:
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _MOST_BYTES:
            raise UsageError(f"A question has at most {_MOST_BYTES:,} bytes.")
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise UsageError('A question is a JSON object: {"tool": …, "arguments": {…}, "project": …}.')
    return told


async def _project(app: App, named: object) -> str | None:
    """Which project of those that the member may read is meant: by its remote, else by its name. `*`: all."""
    if named is None or named == ALL:
        return str(named) if named else None
    if not isinstance(named, dict):
        raise UsageError('project is {"remote": …, "name": …}, "*" or null.')
    remote, name = str(named.get("remote") or ""), str(named.get("name") or "").removeprefix(TEAM)
    remotes, slugs = await app.answers.at_once(_known)
    by_remote = next((slug for slug, known in remotes.items() if remote and known == remote and slug in slugs), None)
    if by_remote:
        return by_remote
    # Two repositories may be called the same: a name counts where one of the two has no remote.
    if name in slugs and not (remote and remotes.get(name)):
        return name
    raise NotFound(f"The team's memory knows no project {remote or name!r}.")


async def _known(here: Answers) -> tuple[dict[str, str], list[str]]:
    return await here.reader.remotes(), await here.reader.slugs()


def _counted(answer: Mapping[str, Any]) -> int:
    """Of how many things it tells: how many ids it names."""
    hits = answer.get("hits") or answer.get("lines") or ()
    return len(hits) or len(set(named_ids(str(answer.get("text", "")))))


def _told(page: Page, start: int = 0) -> dict[str, Any]:
    onward = {"next": start + page.shown} if page.left and page.shown else {}
    return {"text": page.text, **onward}


async def _teleport(app: App, asked: TeamQuestion) -> dict[str, Any]:
    many = min(max(asked.number("limit", 5), 1), MOST_HITS)
    found, note = await app.answers.first_hits(
        asked.words("query"),
        asked.project,
        asked.text("when"),
        many,
        kind=asked.text("kind"),
        diverse=asked.flag("diverse", False),
    )
    return {
        "text": "",
        "hits": [told_hit(hit) for hit in found.hits],
        "more": found.more is not None,
        "order": found.order,
        "note": note,
    }


async def _toc_root(app: App, asked: TeamQuestion) -> dict[str, Any]:
    page = await app.answers.toc_root(asked.project, asked.text("topic"), asked.budget)
    return _told(page) if page.shown else {"text": ""}


async def _browse_time(app: App, asked: TeamQuestion) -> dict[str, Any]:
    arguments = asked.words("when"), asked.project, asked.text("topic"), asked.budget, asked.text("cursor")
    page = await app.answers.browse_time(*arguments)
    return _told(page) if page.shown else {"text": ""}


async def _build_context(app: App, asked: TeamQuestion) -> dict[str, Any]:
    focus = asked.text("focus")
    request = ContextRequest(
        focus=focus,
        query=asked.text("query"),
        budget_tokens=asked.budget,
        order="u-curve" if asked.text("order") == "u-curve" else "top-down",
        include_memo=asked.flag("include_memo", True),
        levels=levels_of(asked.names("levels")),
        top_k=asked.number("top_k", 5),
        project=None if focus else asked.project,
    )
    return _told(await app.contexts.page(request))


async def _get_node(app: App, asked: TeamQuestion) -> dict[str, Any]:
    from mcp_memory.domain.budget import offset_of

    name, cursor = asked.words("node_id"), asked.text("cursor")
    named = (parse_node_id(name)[1] or "").removeprefix(TEAM)
    if named and asked.project and named != asked.project:
        raise NotFound(f"{name[:80]} is of another project.")
    project = None if named else asked.project
    page = await app.answers.get_node(name, project, asked.text("topic"), asked.budget, cursor)
    return _told(page, offset_of(cursor))


async def _expand_grip(app: App, asked: TeamQuestion) -> dict[str, Any]:
    name = asked.words("grip_id")
    if asked.project:
        await app.answers.at_once(lambda here: _must_be_of(here, name, str(asked.project)))
    around = asked.number("before", 1), asked.number("after", 3)
    return _told(await app.answers.expand_grip(name, *around, asked.budget))


async def _must_be_of(here: Answers, grip_id: str, project: str) -> None:
    """Of a laptop whose agents may read one project alone no other is told."""
    found = await here.reader.words(await grip_key(here.reader, grip_id), None)
    if found is None or found.event.project != project:
        raise NotFound(f"There is no grip {grip_id[:80]} in {project}.")


async def _session_context(app: App, asked: TeamQuestion) -> dict[str, Any]:
    name = asked.words("session_id" if "session_id" in asked.arguments else "session")
    view, page = await session_page(app.answers, name, asked.budget)
    if asked.project and view.project != asked.project:
        raise NotFound(f"There is no such session in {asked.project}.")
    return _told(page)


async def _news(app: App, asked: TeamQuestion) -> dict[str, Any]:
    """The two most useful lines of what others did in a project since a time."""
    if asked.project in (None, ALL):
        raise UsageError("News are of one project: name it.")
    now = app.answers.clock.now_ms()
    since = max(asked.number("since_ms", 0), now - _NEWS_DAYS * _DAY_MS)
    query = NodeQuery(
        asked.project, level=Level.SEGMENT, between=(since, now + _DAY_MS), newest_first=True, limit=_NEWS_SEGMENTS
    )
    segments = [node for node in await app.store.nodes(query) if node.author not in ("", current().name)]
    told = [
        (_usefulness(bullet), -node.end_ms, node, bullet)
        for node in segments
        if node.end_ms > since
        for bullet in node.bullets
        if bullet.grip_ids
    ]
    lines = [
        {
            "author": node.author,
            "time": iso(node.end_ms),
            "text": bullet.quoted(_LINE),
            "grip_id": bullet.grip_ids[0],
        }
        for _, _, node, bullet in _spread(sorted(told, key=lambda each: each[:2]))
    ]
    return {"text": "\n".join(f"{one['author']}: {one['text']} {one['grip_id']}" for one in lines), "lines": lines}


Ranked = tuple[int, int, Node, Bullet]


def _usefulness(bullet: Bullet) -> int:
    return _USEFUL.index(bullet.kind) if bullet.kind in _USEFUL else len(_USEFUL)


def _spread(told: list[Ranked]) -> list[Ranked]:
    """The best, and the best of another segment before a second of the same."""
    first = told[:1]
    others = [each for each in told[1:] if each[2].ref != first[0][2].ref] + told[1:]
    return [*first, *others[: _NEWS - 1]]


TOOLS: dict[str, Callable[[App, TeamQuestion], Awaitable[dict[str, Any]]]] = {
    "teleport": _teleport,
    "toc_root": _toc_root,
    "browse_time": _browse_time,
    "build_context": _build_context,
    "get_node": _get_node,
    "expand_grip": _expand_grip,
    "session_context": _session_context,
    "news": _news,
}
