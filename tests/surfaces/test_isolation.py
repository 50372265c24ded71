"""Who may read what over MCP: with `[privacy] isolate` nothing of another project, and nothing where none is known.

Everything that the server offers is listed by the server itself, so that no tool, resource or prompt can be left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_memory.app import open_app
from mcp_memory.config import Calendar, Privacy, Settings
from mcp_memory.domain.events import Captured, EventType, Intake, Role
from mcp_memory.domain.nodes import NodeQuery
from tests.support import StoppedClock, learn, said
from tests.surfaces.client import Era, ask, connected, read, refused
from tests.surfaces.walk import PLAIN, Walk, agree

pytestmark = pytest.mark.anyio

#: What only the other project says. Questions never hold it, so that it is in an answer only if memory gave it.
SECRET = re.compile(r"platypus|PLATYPUS|den-of-beta|note-of-beta")
NOW = StoppedClock("2026-03-10T12:00:00Z")


def told(project: str, session: str, animal: str) -> list[dict[str, Any]]:
    rows = [
        ("user", f"Please mend the {animal} exporter of zorilla, it fails on login."),
        ("assistant", f"Decided: the {animal} exporter writes to `{animal}.py` because zorilla needs it."),
        ("tool", f"Edit: src/{animal}.py\n+ {animal} = 1"),
        ("assistant", f"The {animal} exporter works now; all 12 tests pass."),
    ]
    return [
        said(
            text, f"2026-03-0{2 if project == 'alpha' else 3}T09:0{at}:00Z", role=role, session=session, project=project
        )
        for at, (role, text) in enumerate(rows)
    ]


async def fill(home: Path) -> dict[str, list[str]]:
    """Two projects in one memory; the ids by which the second could be reached."""
    settings = Settings(home=home, calendar=Calendar("UTC"), project="alpha")
    async with open_app(settings, cwd=home, clock=NOW) as app:
        await learn(app, [*told("alpha", "den-of-alpha", "wombat"), *told("alpha", "shared", "wombat")])
        await learn(app, told("beta", "den-of-beta", "platypus"))
        # A session of another client has the same name, and was heard of last.
        words = ["Decided: the platypus shares its den because it rains.", "The platypus den is dry now.", "Good."]
        twins = [
            Captured("other", "shared", f"k{at}", NOW.now_ms() - 9_000 + at, EventType.USER_MESSAGE, Role.USER, text)
            for at, text in enumerate(words * 3)
        ]
        await app.store.add([Intake(tuple(app.intaker.prepare(twins)), "", "beta")])
        assert (await app.pipeline.compactor.compact("shared", force=True)).record
        failed = {"path": "/x/platypus/1.jsonl", "line": 1, "reason": "its reader failed", "file": "1:1:1"}
        await app.inbox.settle(checkpoints={"transcript:x": {"offset": 0, "line": 0, "memory": {}, "failed": failed}})
        note = await app.remember("note-of-beta: the platypus sleeps", pin=True, project="beta")
        await app.pipeline.compactor.compact("den-of-beta", force=True)
        await app.pipeline.until_idle()
        await app.pipeline.lease.release()
        events = [event for _, event in await app.store.log(0, "beta", 99)]
        segments = [node.node_id for node in await app.store.nodes(NodeQuery.latest("beta", level_of("segment"), 9))]
        own = [node.node_id for node in await app.store.nodes(NodeQuery.latest("alpha", level_of("segment"), 9))]
        day = (await app.store.nodes(NodeQuery.latest("beta", level_of("day"), 1)))[0]
        bullets = [grip for bullet in day.bullets for grip in bullet.grip_ids]
        grips = [f"grip:{event.timestamp_ms}:{event.event_id}" for event in [*events, note]]
        keys = [f"grip:{event.event_id[10:18]}" for event in events]
    return {
        "nodes": [f"{node}{at}" for node in [*segments, "toc:year:2026", "toc:day:2026-03-03"] for at in ("@beta", "")]
        + [segment[:-16] for segment in segments],
        "own": own,
        "grips": [*grips, *bullets, *keys],
        "events": [event.event_id for event in events],
        "sessions": ["den-of-beta", "session:den-of-beta", "shared", "notes:label:beta"],
    }


def level_of(label: str) -> Any:
    from mcp_memory.domain.toc import Level

    return next(level for level in Level if level.label == label)


def values_of(ids: dict[str, list[str]]) -> dict[str, list[Any]]:
    """By the name of an argument, what someone would pass who wants to see the other project."""
    asked = [
        "zorilla",
        "zorila",
        "what did we do in beta last week?",
        "login",
        "what was the latest?",
        "exporter",
        "platypis",
    ]
    return {
        **PLAIN,
        "project": ["beta", "*", "alpha", "alpha,beta"],
        "node_id": ids["nodes"],
        "grip_id": [*ids["grips"], *ids["events"]],
        "session": ids["sessions"],
        "session_id": ids["sessions"],
        "focus": [*ids["own"], *ids["nodes"], *ids["grips"], *ids["events"], *ids["sessions"]],
        "query": asked,
        "topic": asked,
        "when": ["2026-03-03", "last week", "this year"],
        "match": ["zorilla"],
    }


async def beta_lines(home: Path) -> list[tuple[str, str]]:
    async with open_app(Settings(home=home, calendar=Calendar("UTC")), cwd=home, clock=NOW) as app:
        return [(event.event_id, event.text) for _, event in await app.store.log(0, "beta", 99)]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_nothing_that_the_server_offers_reaches_another_project_when_isolated(tmp_path: Path, era: Era) -> None:
    values = values_of(await fill(tmp_path))
    before = await beta_lines(tmp_path)
    settings = Settings(
        home=tmp_path,
        calendar=Calendar("UTC"),
        project="alpha",
        now_ms=NOW.now_ms(),
        privacy=Privacy(isolate=True),
    )
    async with connected(settings, era, asks=agree) as client:
        found = await Walk(client, values).everything()
    # A session's name is echoed by the prompt that was given it, and by the error about it.
    given = re.compile("|".join(re.escape(name) for name in ("session:den-of-beta", "den-of-beta")))
    leaks = {name: [text for text in texts if SECRET.search(given.sub("", text))] for name, texts in found.items()}
    assert {name: texts for name, texts in leaks.items() if texts} == {}
    unasked = [*found["completion"], *found["memory://status"], *found["memory://toc"]]
    assert not [text for text in unasked if "den-of-beta" in text or "@beta" in text]
    assert not [text for text in found["teleport"] if "beta (" in text]
    condensed = [text for text in found["resummarize"] if "den-of-beta" in text]
    assert not [text for text in condensed if "record" in text]
    assert "isolate" in " ".join(found["resummarize"])
    assert "wombat" in " ".join(found["teleport"])
    assert await beta_lines(tmp_path) == before


@pytest.mark.slow
async def test_the_same_walk_reaches_it_when_not_isolated(tmp_path: Path) -> None:
    """Else the walk would prove nothing."""
    values = values_of(await fill(tmp_path))
    values["match"] = ["nothing that anyone said"]
    values["confirm"] = [False]
    settings = Settings(home=tmp_path, calendar=Calendar("UTC"), project="alpha", now_ms=NOW.now_ms())
    async with connected(settings, asks=agree) as client:
        found = await Walk(client, values).everything()
    for name in (
        "toc_root",
        "get_node",
        "expand_grip",
        "teleport",
        "browse_time",
        "build_context",
        "session_context",
        "memory://node/{node_id}",
        "memory://grip/{grip_id}",
        "memory://session/{session_id}",
    ):
        assert any("platypus" in text for text in found[name]), name


async def test_a_refusal_says_why_and_leads_nowhere_else(tmp_path: Path) -> None:
    ids = await fill(tmp_path)
    settings = Settings(
        home=tmp_path, calendar=Calendar("UTC"), project="alpha", now_ms=NOW.now_ms(), privacy=Privacy(isolate=True)
    )
    async with connected(settings) as client:
        for tool, arguments in (
            ("toc_root", {"project": "beta"}),
            ("teleport", {"query": "zorilla", "project": "*"}),
            ("get_node", {"node_id": "toc:year:2026@beta"}),
            ("expand_grip", {"grip_id": ids["grips"][0]}),
            ("session_context", {"session_id": "den-of-beta"}),
            ("build_context", {"focus": ids["grips"][0]}),
            ("remember", {"text": "x", "project": "beta"}),
            ("forget", {"grip_id": ids["grips"][0], "confirm": True}),
            ("forget", {"match": "zorilla"}),
        ):
            message = await refused(client, tool, **arguments)
            assert "[privacy] isolate is on" in message
            assert "toc_root" not in message
    async with connected(replace(settings, project="gamma")) as client:
        await ask(client, "remember", text="The first word of gamma.")
        first = await ask(client, "toc_root")
        assert "Nothing" in first
        assert "alpha" not in first
    async with connected(settings) as client:
        assert "den-of-alpha" in await ask(client, "session_context", session_id="den-of-alpha")
        assert "toc:year:2026" in await ask(client, "toc_root", project="alpha")


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_server_in_no_known_project_answers_from_none_and_says_how_to_widen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolate: bool
) -> None:
    ids = await fill(tmp_path / "home")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = Settings(
        home=tmp_path / "home", calendar=Calendar("UTC"), now_ms=NOW.now_ms(), privacy=Privacy(isolate=isolate)
    )
    async with connected(settings) as client:
        answers = [
            await ask(client, "toc_root"),
            await ask(client, "teleport", query="zorilla exporter"),
            await ask(client, "browse_time", when="2026-03-03"),
            await ask(client, "get_node", node_id="toc:day:2026-03-03"),
            await ask(client, "build_context"),
            await ask(client, "build_context", query="zorilla"),
            await ask(client, "build_context", focus="toc:day:2026-03-03"),
            (await read(client, "memory://toc")).text,
            (await read(client, "memory://node/toc:day:2026-03-03")).text,
        ]
        for answer in answers:
            assert not SECRET.search(answer)
            assert "wombat" not in answer
            assert f"Memory knows no project in {tmp_path / 'elsewhere'}, so nothing was looked up." in answer
            assert "MCP_MEMORY_PROJECT" in answer
            assert ('project="*"' in answer and "alpha, beta" in answer) is not isolate
        assert len(await ask(client, "toc_root", budget_tokens=20)) < 120
        if not isolate:
            assert "platypus" in await ask(client, "teleport", query="zorilla exporter", project="*")
            assert "wombat" in await ask(client, "toc_root", project="alpha")
            assert "platypus" in await ask(client, "get_node", node_id="toc:day:2026-03-03@beta")
            assert "platypus" in await ask(client, "expand_grip", grip_id=ids["grips"][0])
        await ask(client, "remember", text="The quokka is of this place.")
        assert "quokka" in await ask(client, "teleport", query="quokka place")


async def test_the_command_line_in_no_known_project_still_reads_all(tmp_path: Path) -> None:
    await fill(tmp_path / "home")
    isolated = Settings(home=tmp_path / "home", calendar=Calendar("UTC"), privacy=Privacy(isolate=True))
    async with open_app(replace(isolated), cwd=tmp_path, clock=NOW, typed=True) as app:
        assert "beta" in (await app.answers.toc_root("*", None, 2_000)).text
        assert "@alpha" in (await app.answers.toc_root(None, None, 2_000)).text
