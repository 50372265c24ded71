"""One memory to the agent: what a laptop's server tells of its own memory and of the team's, over the real protocol."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx2
import pytest
from anyio import to_thread
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_memory.app import App, open_app
from tests.surfaces.client import ask, connected, refused
from tests.surfaces.shell import Shell
from tests.surfaces.team_server import NOW, reachable, team_server
from tests.surfaces.team_talk import OWN, THEN, joined, line, repository, tell, three_people

pytestmark = pytest.mark.anyio
NODE, GRIP = re.compile(r"toc:\w+:[\w:-]+@team/shop"), re.compile(r"grip:\d+:\w{26}")


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Someone works in a clone of the team's repository."""
    place = repository(tmp_path / "clone")
    monkeypatch.chdir(place)
    return place


async def test_what_the_team_decided_who_and_where_it_was_said_is_one_call(tmp_path: Path, at_work: Path) -> None:
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with connected(settings) as agent:
            found = await ask(agent, "teleport", query="what did the team decide about retrying payments last month")
            best = found.splitlines()[1]
            assert re.match(r"1\. 0\.\d\d \w+ · \S+ 09:03 assistant ada s:ada-1 · grip:\d+:\w{26}", best), found
            assert "Decision: payments are retried with an idempotency key" in found
            grip = GRIP.search(best)
            assert grip
            words = await ask(agent, "expand_grip", grip_id=grip[0])
            assert words.startswith("From the team's memory:\n")
            assert "09:03 assistant ada · session ada-1 · exact\n> Decision: payments" in words

            root = await ask(agent, "toc_root", budget_tokens=800)
            assert "The team's memory of this project:" in root
            assert root.index("Set up the repository") < root.index("The team's memory") < root.index("carol: Rule:")
            node = await ask(agent, "get_node", node_id=_day_of(root))
            assert "carol: Rule: Never log card numbers" in node
            short = re.findall(r"grip:\w{8}(?!\w)", node)[-1]
            assert "carol" in await ask(agent, "expand_grip", grip_id=short)
            assert "by carol" in await ask(agent, "session_context", session_id="carol-1")

            time = await ask(agent, "browse_time", when="last month")
            assert "- ada: Decided: Let's go with the idempotency key" in time
            assert "- bob: Fixed:" in time
            context = await ask(agent, "build_context", query="idempotency key", budget_tokens=1_500)
            assert "ada · session ada-1" in context
            for tool, most in (("toc_root", 150), ("toc_root", 300), ("browse_time", 200)):
                told = await ask(agent, tool, budget_tokens=most, **({"when": "last month"} if "time" in tool else {}))
                assert len(told) < most * 6


def _day_of(root: str) -> str:
    return str(next(name for name in NODE.findall(root) if "day" in name))


async def test_pages_are_cuts_of_one_list_and_what_one_shared_oneself_comes_once(tmp_path: Path, at_work: Path) -> None:
    async def fill(app: App) -> None:
        await tell(app, "dan", OWN)
        await three_people(app)

    async with team_server(tmp_path / "server", fill) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with connected(settings) as agent:
            whole = await ask(agent, "teleport", query="payment tests", limit=6, budget_tokens=3_000)
            first = await ask(agent, "teleport", query="payment tests", limit=3, budget_tokens=3_000)
            second = await ask(
                agent, "teleport", query="payment tests", limit=3, budget_tokens=3_000, cursor=_cursor(first)
            )
            assert _targets(first) + _targets(second) == _targets(whole)
            assert whole.count("Set up the repository of the shop") == whole.count("dan-1") == 1
            assert "ada" in whole


def _cursor(page: str) -> str:
    found = re.search(r'cursor="(at:\d+)"', page)
    return found[1] if found else ""


def _targets(page: str) -> list[str]:
    """What the hits tell, without their numbers and ids, which are whole only once on a page."""
    hits = re.split(r"\n\d+\. ", page.rpartition("\n")[0])[1:]
    return [re.sub(r"\W+", " ", hit.rpartition("  ")[0] or hit)[-40:] for hit in hits]


async def test_an_id_of_the_team_goes_on_with_a_cursor(tmp_path: Path, at_work: Path) -> None:
    async def fill(app: App) -> None:
        for number in range(8):
            task = f"Please add the report number {number} to the monthly statistics of the shop."
            await tell(app, "ada", [line(f"{8 + number:02}:00:00", "user", task, f"many-{number}")])
        await three_people(app)

    async with team_server(tmp_path / "server", fill) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"))
        async with connected(settings) as agent:
            day = next(
                name
                for name in NODE.findall(await ask(agent, "browse_time", when=str(THEN), budget_tokens=2_000))
                if "segment" in name
            )
            whole = f"toc:day:{day.split(':')[2]}@team/shop"
            page, seen = await ask(agent, "get_node", node_id=whole, budget_tokens=220), set[str]()
            while cursor := _cursor(page):
                seen |= set(re.findall(r"report number (\d)", page))
                page = await ask(agent, "get_node", node_id=whole, budget_tokens=220, cursor=cursor)
            seen |= set(re.findall(r"report number (\d)", page))
            assert len(seen) == 8


async def test_who_is_new_to_a_project_has_the_teams_memory_of_it_at_once(tmp_path: Path, at_work: Path) -> None:
    other = [one | {"project": "diary"} for one in OWN]
    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        settings = await joined(tmp_path / "laptop", url, await desk.add_user("dan"), [])
        async with open_app(settings, cwd=tmp_path) as app:
            await tell(app, "", other, "", "diary")
        async with connected(settings) as agent:
            found = await ask(agent, "teleport", query="what did the team decide about retrying payments?")
            assert "assistant ada s:ada-1" in found
            root = await ask(agent, "toc_root", budget_tokens=450)
            assert root.startswith("The team's memory of this project:")
            assert "carol: Rule:" in root
            assert "idempotency key" in await ask(agent, "build_context", query="idempotency key", budget_tokens=900)
            assert "Memory knows no project" in await ask(agent, "browse_time", when="1999")
            named = await ask(agent, "browse_time", when="last month", project="team/shop")
            assert "ada: Decided:" in named
            assert "assistant ada" in await ask(agent, "teleport", query="idempotency key", project="team/shop")
            for tool, asked in (("teleport", {"query": "key"}), ("browse_time", {"when": "today"})):
                told = await refused(agent, tool, project="team/nowhere", **asked)
                assert "knows no project 'team/nowhere' that you may read" in told


async def test_an_agent_that_asks_the_teams_server_itself_has_the_same_ids_and_authors(tmp_path: Path) -> None:
    async with (
        team_server(tmp_path / "server", three_people) as desk,
        reachable(desk) as url,
        httpx2.AsyncClient(headers={"authorization": f"Bearer {desk.tokens['bob']}"}) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as agent,
    ):
        root = await ask(agent, "toc_root", project="shop", budget_tokens=600)
        assert "- carol: Rule:" in root
        assert "carol" in await ask(agent, "get_node", node_id=_day_of(root))
        assert "carol" in await ask(agent, "get_node", node_id=_day_of(root).replace("@team/", "@"))
        assert "@team/shop" in await ask(agent, "toc_root", project="team/shop")
        found = await ask(agent, "teleport", query="idempotency key")
        assert "assistant ada s:ada-1" in found


@pytest.mark.slow
async def test_the_command_line_finds_what_others_said_and_follows_their_ids(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.environment["MCP_MEMORY_NOW"] = NOW.isoformat()
    shell.environment["MCP_MEMORY_TEAM_TIMEOUT_MS"] = "10000"
    repository(shell.cwd)

    async def run(*words: str) -> str:
        done = await to_thread.run_sync(lambda: shell.script(*words))
        assert done.returncode == 0, done.stderr
        return done.stdout

    async with team_server(tmp_path / "server", three_people) as desk, reachable(desk) as url:
        await joined(shell.home, url, await desk.add_user("dan"))
        hits = json.loads(await run("search", "payments idempotency key tests", "--json"))["hits"]
        authors = {hit["session_id"]: hit["author"] for hit in hits if hit["session_id"]}
        assert authors["ada-1"] == "ada"
        assert authors["dan-1"] is None
        drawn = await run("search", "idempotency key")
        assert re.search(r"ada · s:ada-1", drawn), drawn
        assert "ada: Decided: Let's go" in await run("node", f"toc:day:{THEN}@team/shop")
        grip = next(hit["grip_id"] for hit in hits if hit["author"] == "ada")
        assert "ada · session ada-1" in await run("grip", grip)
        assert "The team's memory of this project:" in await run("toc", "--budget", "800")
