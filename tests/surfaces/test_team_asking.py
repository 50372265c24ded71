"""What a laptop asks of the team's server: the team's answers, as the member who asks may see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_memory.domain.toc import parse_node_id
from tests.surfaces.team_server import TeamDesk, team_server
from tests.surfaces.team_talk import REMOTE, three_people

pytestmark = pytest.mark.anyio
SHOP = {"remote": REMOTE, "name": "elsewhere"}


async def ask(desk: TeamDesk, tool: str, project: object = SHOP, who: str = "ada", **arguments: Any) -> dict[str, Any]:
    async with desk.client(who) as client:
        answer = await client.post("/team/ask", json={"tool": tool, "arguments": arguments, "project": project})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_the_server_answers_with_authors_and_ids_of_the_team(tmp_path: Path) -> None:
    async with team_server(tmp_path, three_people) as desk:
        asked = "what did the team decide about retrying payments last month"
        found = await ask(desk, "teleport", query=asked, limit=5)
        best = next(hit for hit in found["hits"] if hit["role"])
        assert (best["author"], found["note"]) == ("ada", "")
        assert "idempotency key" in best["text"]
        assert parse_node_id(best["node_id"])[1] == "team/shop"

        root = (await ask(desk, "toc_root", budget_tokens=600))["text"]
        assert "@team/shop" in root
        day = next(word for word in root.split() if word.startswith("toc:day:"))
        node = (await ask(desk, "get_node", None, node_id=day, budget_tokens=800))["text"]
        assert "carol" in node
        grip = (await ask(desk, "expand_grip", None, grip_id=best["grip_id"]))["text"]
        assert "ada · session ada-1" in grip
        session = (await ask(desk, "session_context", None, session="ada-1"))["text"]
        assert "by ada" in session
        time = (await ask(desk, "browse_time", when="last month"))["text"]
        assert "ada: " in time
        assert "bob: " in time
        context = (await ask(desk, "build_context", query="idempotency key", budget_tokens=900))["text"]
        assert "ada" in context
        news = await ask(desk, "news", who="bob", since_ms=0)
        assert [line["author"] for line in news["lines"]] == ["ada", "carol"]
        assert not (await ask(desk, "news", {"remote": REMOTE}, who="root", since_ms=1 << 50))["lines"]
        await desk.memory.audit.write()
        rows = [row for row in await desk.store.audit("ada", 50) if row.action == "ask teleport"]
        assert [(row.project, row.many, row.outcome) for row in rows] == [("shop", len(found["hits"]), "ok")]
