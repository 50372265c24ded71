"""One memory to the agent: what a team's memory says, asked while one's own answers, and told as one answer.

What comes from there was written by others. It is taken for data: each field is checked, hidden characters and tags go,
every text is cut, and the last line, which says what to call next, is always our own.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from mcp_memory.domain.budget import offset_of, with_count
from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.people import ProjectName, TeamReply
from mcp_memory.domain.text import clean, safe
from mcp_memory.domain.toc import TEAM, is_of_team
from mcp_memory.errors import (
    DOWN,
    TO_WORDS,
    MemoryFault,
    NoProject,
    NotFound,
    OutOfReach,
    Step,
    UsageError,
    alone,
    listed,
)
from mcp_memory.navigate.browse import ALL, Reach
from mcp_memory.navigate.rendering import Page, Renderer
from mcp_memory.navigate.shapes import hit_of, listed_in
from mcp_memory.search.hits import Hit, Results
from mcp_memory.search.question import question_of

if TYPE_CHECKING:
    from mcp_memory.navigate.answers import Answers, SearchOptions
    from mcp_memory.store.port import ReadStore

#: No list is merged further than this.
MOST_HITS = 200
_BY_TIME = {"in order of time": 1, "latest first": -1}
#: By so many of the events that a hit names it is told whether they are here, too.
_BESIDE = 4
#: Characters of a line.
_LINE = 700
#: Characters that a token has at most, about; what is longer cannot fit into a budget and is not looked at.
_PER_TOKEN = 16
#: The part of a budget that the team's memory gets beside one's own, what its own last line takes, which is not shown,
#: and the share below which it is not asked.
_SHARE, _LAST, _LEAST = 0.5, 40, 60
#: What stands around an answer that is the team's alone takes so much more than what stood around it there.
_AROUND = 24
_FOOT = re.compile(r"\[\d[\d,]* tokens\b.*\]\s*")
_COUNT = re.compile(r"^\[\d+ tokens")
#: Answers whose first line only says what was asked.
_HEADED = ("toc_root", "browse_time")


class Colleagues(Protocol):
    """A team's memory as a laptop may ask it."""

    @property
    def name(self) -> str:
        """How one is called there oneself."""

    async def ask(self, tool: str, arguments: Mapping[str, Any], project: ProjectName | str | None) -> TeamReply | None:
        """What it answers about a project, about all (`*`), or about something that is named by its id alone.

        None: the project is not the team's, so that nothing was asked, and the question stays here. It never raises,
        and never takes much longer than the user wants to wait.
        """


async def _place(answers: Answers, project: str | None) -> ProjectName | str | None:
    """Which project a question is about, as other machines know it; None if that cannot be told."""
    if project == ALL:
        return ALL
    if project and project.startswith(TEAM):
        return ProjectName("", project)
    slug = project or (await answers.view()).home
    if slug is None:
        return ProjectName(answers.remote) if answers.remote else None
    return ProjectName((await answers.reader.remotes()).get(slug, ""), slug)


async def _own(answers: Answers) -> ProjectName | str | None:
    """Of which project an id must be: of the one here, where agents may reach no other."""
    if answers.reach is not Reach.HOME:
        return None
    return await _place(answers, None) or ProjectName()


@dataclass
class _Both:
    """What came of asking both memories at once."""

    #: A page, or hits with a note.
    page: Any = None
    fault: MemoryFault | None = None
    reply: TeamReply | None = None

    @property
    def trouble(self) -> str:
        return self.reply.trouble if self.reply else ""

    @property
    def told(self) -> Mapping[str, Any]:
        return self.reply.told if self.reply else {}


async def _ask_both(ask: Awaitable[TeamReply | None], local: Awaitable[Any]) -> _Both:
    """Neither waits for the other. Where one's own has nothing, the team may; any other fault of it is raised."""
    both = _Both()

    async def look() -> None:
        try:
            both.page = await local
        except (NoProject, NotFound) as nothing:
            if isinstance(nothing, OutOfReach):
                raise
            both.fault = nothing

    with alone():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look, name="own memory")
            both.reply = await ask
    return both


def _theirs_alone(answers: Answers, project: str | None) -> bool:
    """Whether a project is named as the team's ids name it."""
    if not (project and project.startswith(TEAM)):
        return False
    if answers.reach is Reach.HOME:
        raise UsageError("Only the project here can be reached: leave project out.")
    return True


def _unknown(project: str | None) -> MemoryFault:
    return NotFound(f"The team's memory knows no project {safe(project or '', 120)!r} that you may read.")


def _with_cause(fault: MemoryFault, trouble: str) -> MemoryFault:
    """What one's own memory says, and that the team's could not be asked."""
    return type(fault)(f"{fault} {trouble}") if trouble else fault


# Answers as text


async def beside(
    answers: Answers,
    tool: str,
    arguments: Mapping[str, Any],
    project: str | None,
    budget: int,
    local: Callable[[Answers, int], Coroutine[Any, Any, Page]],
) -> Page:
    """One's own answer with the team's part under a heading of its own, both within the one budget.

    Where the team has nothing to say, one's own takes all of it; where it did not answer, a clause says so.
    """
    team, renderer = answers.team, answers.renderer
    assert team
    place = await _place(answers, project)
    # Of a project that is not known here all there is is the team's.
    is_new = isinstance(place, ProjectName) and not place.name
    share = budget - _LAST if is_new else int(budget * _SHARE)
    if place is None or share < _LEAST:
        return await answers.at_once(lambda here: local(here, budget))
    wanted = {**arguments, "budget_tokens": share + _LAST}
    if _theirs_alone(answers, project):
        reply = await team.ask(tool, {**arguments, "budget_tokens": budget}, place)
        return _relayed(renderer, reply, budget, _unknown(project))
    both = await _ask_both(team.ask(tool, wanted, place), answers.at_once(lambda here: local(here, budget)))
    of = "" if isinstance(place, str) else f" of {place.name}" if project else " of this project"
    heading, page = f"The team's memory{of}:", both.page
    left = budget - (page.tokens if page else _LAST) - renderer.count(heading) - 2
    lines = _lines(renderer, both.told.get("text"), max(share, left), headed=tool in _HEADED)
    if not lines:
        if both.fault:
            raise _with_cause(both.fault, both.trouble)
        return await _joined(answers, page, [both.trouble], budget, local) if both.trouble else page
    if both.fault:
        return _alone(renderer, [heading, *lines], budget, listed(DOWN, TO_WORDS))
    return await _joined(answers, page, [heading, *lines], budget, local)


async def _joined(
    answers: Answers,
    page: Page,
    lines: Sequence[str],
    budget: int,
    local: Callable[[Answers, int], Coroutine[Any, Any, Page]],
) -> Page:
    """One's own page with more lines before its last one; the page is made anew if there is no room for both."""
    count = answers.renderer.count
    if page.tokens + count("\n".join(lines)) + 2 > budget:
        room = budget - count("\n".join(lines)) - 2
        if room < _LEAST:
            return page
        page = await answers.at_once(lambda here: local(here, room))
    body, _, foot = page.text.rpartition("\n")
    if not _COUNT.match(foot):
        body, foot = page.text, ""
    more = "\n".join([body, *lines])
    text = with_count(count, lambda tokens: f"{more}\n{_COUNT.sub(f'[{tokens} tokens', foot)}") if foot else more
    return replace(page, text=text, tokens=count(text))


def _alone(renderer: Renderer, lines: Sequence[str], budget: int, step: Step) -> Page:
    """A page of the team's memory alone."""
    onward = renderer.say(step)
    body = renderer.cut_to("\n".join(lines), budget - renderer.count(f"[9999 tokens · next: {onward}]") - 2)
    text = with_count(renderer.count, lambda tokens: f"{body}\n[{tokens} tokens · next: {onward}]")
    return Page(text, renderer.count(text), len(lines))


def _lines(renderer: Renderer, text: object, budget: int, *, headed: bool = False) -> list[str]:
    """What was told, as lines that can be shown: cleaned, each on its own, without the last one, within the budget."""
    if not isinstance(text, str) or budget <= 0:
        return []
    raw = [line for line in clean(text[: budget * _PER_TOKEN]).splitlines() if line.strip()]
    told = [("  " if line.startswith("  ") else "") + safe(line, _LINE) for line in raw if not _FOOT.fullmatch(line)]
    told = told[headed:]
    while told and renderer.count("\n".join(told)) > budget:
        told = told[: max(len(told) * 3 // 4, 1)] if len(told) > 4 else told[:-1]
    return told


async def relayed(
    answers: Answers,
    tool: str,
    arguments: Mapping[str, Any],
    name: str,
    budget: int,
    local: Callable[[Answers], Coroutine[Any, Any, Page]],
    project: str | None = None,
) -> Page:
    """What an id names: in one's own memory or, if it is the team's or not found here, in the team's."""
    team, missing = answers.team, None
    assert team
    if not is_of_team(name) and not _theirs_alone(answers, project):
        try:
            return await answers.at_once(local)
        except NotFound as error:
            if isinstance(error, OutOfReach | NoProject):
                raise
            missing = error
    place = await _own(answers)
    if place is None and name.strip().lower().startswith("toc:") and not is_of_team(name):
        place = await _place(answers, project)
    reply = await team.ask(tool, {**arguments, "budget_tokens": max(budget - _AROUND, _LEAST)}, place)
    fault = missing or NotFound(f"There is no {safe(name, 120)} in the team's memory that you may read.")
    return _relayed(answers.renderer, reply, budget, fault, offset_of(arguments.get("cursor")))


def _relayed(renderer: Renderer, reply: TeamReply | None, budget: int, fault: MemoryFault, start: int = 0) -> Page:
    if reply is None:
        raise fault
    head = "From the team's memory:"
    lines = _lines(renderer, reply.told.get("text"), budget - renderer.count(head) - 1)
    if not lines:
        raise _with_cause(fault, reply.trouble)
    page, onward = _alone(renderer, [head, *lines], budget, listed(DOWN, TO_WORDS)), reply.told.get("next")
    if isinstance(onward, int) and start < onward < 1_000_000:
        return replace(page, shown=onward - start, left=1)
    return page


# Hits, which are merged with one's own


async def found_in_both(
    answers: Answers, text: str, project: str | None, when: str | None, options: SearchOptions
) -> tuple[Results, str]:
    """The hits of both memories in one list, best first; of equals one's own come first.

    Both are asked for the beginning of their lists, so that pages stay cuts of one.
    """
    from mcp_memory.navigate.answers import of_ourselves

    team = answers.team
    assert team
    start, limit = offset_of(options.get("cursor")), max(options.get("limit", 10), 1)
    many, place = min(start + limit, MOST_HITS), await _place(answers, project)
    asked, text = text, of_ourselves(text)
    kind, diverse = options.get("kind"), options.get("diverse", False)
    mine = answers.first_hits(text, None if _theirs_alone(answers, project) else project, when, many, **options)
    if place is None or not text.strip():
        found, note = await mine
        return _part(replace(found, query=asked), found.hits, start, limit), note
    arguments = {"query": text, "when": when, "kind": kind, "diverse": diverse, "limit": many}
    both = await _ask_both(team.ask("teleport", arguments, place), mine)
    if both.reply is None and _theirs_alone(answers, project):
        raise _unknown(project)
    question = question_of(text)
    told = listed_in(both.told, "hits")[:MOST_HITS]
    theirs = [hit for each in told if (hit := hit_of(each, question, team.name))][:many]
    if both.fault and not theirs:
        raise _with_cause(both.fault, both.trouble)
    found, note = both.page if both.page else (Results(text, answers.when(when), []), "")
    if project and _theirs_alone(answers, project):
        found = replace(found, hits=[], more=None)
    theirs = await answers.at_once(lambda here: _new_to(here.reader, theirs))
    theirs = [replace(hit, project=_name_here(hit, place)) for hit in theirs]
    # Where only one of the two found something in the time that is asked about, what the other has of other times is
    # no answer.
    beyond = isinstance(both.told.get("note"), str) and bool(both.told["note"])
    if theirs and note and not beyond:
        found, note = replace(found, hits=[], more=None), ""
    elif found.hits and beyond and not note:
        theirs = []
    trouble = f" {both.trouble}" if both.trouble else ""
    found = replace(found, query=asked)
    hits = _merged(found, theirs, str(both.told.get("order", "")))
    longer = found.more is not None or both.told.get("more") is True
    return _part(found, hits, start, limit, longer=longer), note + trouble


def _part(found: Results, hits: Sequence[Hit], start: int, limit: int, *, longer: bool = False) -> Results:
    end = start + limit
    more = end if len(hits) > end or longer or (found.more is not None and len(hits) >= end) else None
    return replace(found, hits=list(hits[start:end]), more=more if end < MOST_HITS else None)


def _name_here(hit: Hit, place: ProjectName | str) -> str:
    """Of one project that is asked about the name here; of several that of the team's."""
    return place.name if isinstance(place, ProjectName) and place.name else f"{TEAM}{hit.project}"


def _merged(found: Results, theirs: Sequence[Hit], order: str) -> list[Hit]:
    """Two lists as one: each keeps its own order, and the better of the two next ones comes first.

    Of equals the one that holds more of what was asked, else one's own.
    """
    sign = _BY_TIME.get(found.order) if found.order == order or not (theirs and found.hits) else None

    def worth(hit: Hit) -> tuple[float, int]:
        return (-sign * hit.start_ms, 0) if sign else (hit.score, len(hit.matched))

    mine, others, both = list(found.hits), list(theirs), list[Hit]()
    while mine and others:
        both.append((mine if worth(mine[0]) >= worth(others[0]) else others).pop(0))
    return [*both, *mine, *others]


async def _new_to(reader: ReadStore, hits: Sequence[Hit]) -> list[Hit]:
    """The hits that one's own memory does not have: what one shared oneself is there as well."""
    sessions = {hit.session_id for hit in hits if hit.session_id}
    known = {name for name in sessions if name in await reader.sessions(name, 2)}
    kept = []
    for hit in hits:
        if hit.session_id in known:
            continue
        keys = [parse_ulid(name)[1] for name in hit.event_ids[:_BESIDE]]
        if not (keys and all([await reader.words(key, None) for key in keys])):
            kept.append(hit)
    return kept
