"""What a member of a team is told of what another keeps to herself: nothing, whatever is asked, with whatever ids.

A member asks for all that the server lists, once where ada has secrets and once where she has none of them: the answers
are the same to the letter, errors, counts and completions included. What the server comes to offer later is asked, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import anyio
import pytest

from mcp_memory.domain.people import AuditRow
from mcp_memory.surfaces.resources import PROMPTS
from mcp_memory.surfaces.team.asking_routes import TOOLS
from mcp_memory.surfaces.team.laptop_routes import HANDLERS
from tests.surfaces.team_server import TeamDesk
from tests.surfaces.team_talk import REMOTE
from tests.surfaces.team_world import CLOSED, OWN, PROJECT, team, values_of, without_secrets
from tests.surfaces.walk import Values, Walk, calls

pytestmark = pytest.mark.slow

Answers = dict[str, list[str]]
#: What changes the memory that others are asked about; bob, who comes last, calls it, too.
WRITERS = ("remember", "forget", "resummarize")
#: How a laptop asks what is no tool over MCP.
_ONLY_ASKED = {"news": {"properties": {"since_ms": {}}, "required": ["since_ms"]}}
#: What laptops send; test_team_writes tries it.
_SENT = {("POST", "/team/push"), ("POST", "/team/withdraw"), ("POST", "/team/ask")}
#: A place in the log, by which one can tell how much was written in all; and the name of the server itself.
_PLACE = re.compile(r"\d+ tokens · [^\]]*since='snap:[\w.]+'|\"server\":\"\w+\"")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Answers], list[AuditRow]]:
    return anyio.run(ask_everyone, tmp_path_factory.mktemp("team"))


@pytest.fixture(scope="module")
def answers(asked: tuple[dict[str, Answers], list[AuditRow]]) -> dict[str, Answers]:
    """By who asked, all that was answered."""
    return asked[0]


async def ask_everyone(place: Path) -> tuple[dict[str, Answers], list[AuditRow]]:
    """Ada comes first, so that nothing of hers is left for those after her."""
    async with team(place / "1") as desk, team(place / "2", without_secrets) as other:
        values = await values_of(desk)
        told = {
            "ada": await over_mcp(desk, "ada", values, WRITERS) | await as_laptop(desk, "ada", values),
            "root": await over_mcp(desk, "root", values, WRITERS),
            "eve": await as_laptop(desk, "eve", {**values, "query": ["payment importer"], "topic": ["importer"]}),
        }
        for name, where in (("bob", desk), ("unaware", other)):
            told[name] = await over_mcp(where, "bob", values) | await as_laptop(where, "bob", values)
        await desk.memory.audit.write()
        return told, await desk.store.audit("bob", 10_000)


async def over_mcp(desk: TeamDesk, name: str, values: Values, leaves: Collection[str] = ()) -> Answers:
    async with desk.agent(name) as agent:
        return await Walk(agent, values, leaves).everything()


async def as_laptop(desk: TeamDesk, name: str, values: Values) -> Answers:
    found: Answers = {}
    async with desk.agent(name) as agent:
        schemas = {tool.name: tool.input_schema for tool in (await agent.list_tools()).tools} | _ONLY_ASKED
    async with desk.client(name) as laptop:
        for method, path in HANDLERS.keys() - _SENT:
            found[path] = [(await laptop.request(method, path)).text]
        for tool in TOOLS:
            asked = [(given, None) for given in calls(schemas[tool], values) if "project" not in given]
            projects = ("*", {"remote": REMOTE}, {"name": CLOSED}, {"name": PROJECT})
            for given, project in [*asked, *((asked[0][0], project) for project in projects)]:
                question = {"tool": tool, "arguments": given, "project": project}
                found.setdefault(f"ask {tool}", []).append((await laptop.post("/team/ask", json=question)).text)
    return found


def differing(one: Answers, other: Answers, but: Collection[str] = ()) -> Iterator[tuple[str, str, str]]:
    """The answers of which one has another."""
    names = one.keys() - set(but)
    assert names == other.keys() - set(but)
    for name in sorted(names):
        pairs = [[_PLACE.sub("", text) for text in answers[name]] for answers in (one, other)]
        yield from ((name, *pair) for pair in zip(*pairs, strict=True) if pair[0] != pair[1])


def test_a_member_is_told_nothing_that_would_not_be_told_had_it_never_been_said(answers: dict[str, Answers]) -> None:
    assert list(differing(answers["bob"], answers["unaware"])) == []


def test_an_admin_is_told_no_more_than_any_other_member(answers: dict[str, Answers]) -> None:
    asked = {name: told for name, told in answers["bob"].items() if name in answers["root"]}
    assert list(differing(asked, answers["root"], {"memory://status", "memory://session/{session_id}"})) == []


def test_who_reads_a_project_of_some_is_told_what_is_shared_there_and_nothing_private(
    answers: dict[str, Answers],
) -> None:
    echoed = re.compile(rf"{PROJECT}(-1|'|\"| )")
    eve = {name: echoed.sub("", "\n".join(texts)) for name, texts in answers["eve"].items()}
    assert [(name, word) for name, text in eve.items() for word in OWN if word in text] == []
    assert {name for name, text in eve.items() if CLOSED not in text} == set()


def test_who_said_it_is_told_it_by_everything_that_can_be_asked(answers: dict[str, Answers]) -> None:
    """Else others might be told nothing because no one is."""
    ada = {name: "\n".join(texts) for name, texts in answers["ada"].items()}
    silent = {name for name, text in ada.items() if not any(word in text for word in (*OWN, CLOSED))}
    assert silent == {"memory://status", "recall", "catch_up", "ask news"}  # numbers, and nothing of hers
    for name in ("teleport", "expand_grip", "build_context", "session_context", "ask teleport"):
        assert [word for word in (*OWN, CLOSED) if word not in ada[name]] == [], name
    assert answers["ada"]["memory://status"] != answers["bob"]["memory://status"]


def test_every_question_has_one_row_in_the_audit_which_does_not_say_what_was_asked(
    asked: tuple[dict[str, Answers], list[AuditRow]],
) -> None:
    answers, rows = asked
    assert Counter(row.action for row in rows) == {action(name): len(told) for name, told in answers["bob"].items()}
    assert {row.project for row in rows} <= {"", "*", "shop", CLOSED, PROJECT}
    assert {row.outcome for row in rows} == {"ok", "refused"}
    named = {row.action: row.many for row in rows}
    assert all(named[action(name)] for name in ("toc_root", "teleport", "memory://toc", "ask teleport"))


def action(name: str) -> str:
    """How the audit calls what gave an answer."""
    if name.startswith("memory://"):
        return f"resources/read {name.partition('{')[0]}"
    if name.startswith("/"):
        return f"GET {name}"
    if name == "completion":
        return "completion/complete"
    return name if name.startswith("ask ") else f"{'prompts/get' if name in PROMPTS else 'tools/call'} {name}"
