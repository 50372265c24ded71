"""The audit of a team's server: who did what and how it ended, in words of the server's own; never what was said."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning

from mcp_memory.surfaces.team.laptop_routes import HANDLERS
from tests.surfaces.team_server import TeamDesk, team_server
from tests.surfaces.team_talk import three_people
from tests.surfaces.test_team_incoming import body, line

pytestmark = pytest.mark.anyio
#: In all that is asked here, and in none of the rows.
WORD = "xylograph"


async def rows(desk: TeamDesk, name: str = "ada") -> list[tuple[str, str, int, str]]:
    """The oldest first."""
    await desk.memory.audit.write()
    found = [(row.action, row.project, row.many, row.outcome) for row in await desk.store.audit(name, 99)]
    assert WORD not in str(found)
    return found[::-1]


async def failing(agent: Client) -> None:
    """Calls that name what is not there."""
    assert (await agent.call_tool("teleport", {"query": WORD, "when": WORD})).is_error
    assert (await agent.call_tool("toc_root", {"project": WORD})).is_error
    assert (await agent.call_tool("expand_grip", {WORD: WORD})).is_error
    for call in (
        agent.call_tool(WORD, {}),
        agent.get_prompt(WORD, {}),
        agent.get_prompt("recall", {WORD: WORD}),
        agent.read_resource(f"memory://session/{WORD}"),
        agent.read_resource(f"memory://{WORD}"),
    ):
        with pytest.raises(MCPError):
            await call


async def test_what_is_called_wrongly_is_noted_by_names_of_the_server_alone(tmp_path: Path) -> None:
    async with team_server(tmp_path, three_people) as desk, desk.agent("ada") as agent:
        await failing(agent)
        assert await rows(desk) == [
            ("tools/call teleport", "", 0, "refused"),
            ("tools/call toc_root", "", 0, "refused"),
            ("tools/call expand_grip", "", 0, "refused"),
            ("tools/call ?", "", 0, "refused"),
            ("prompts/get ?", "", 0, "refused"),
            ("prompts/get recall", "", 0, "refused"),
            ("resources/read memory://session/", "", 0, "refused"),
            ("resources/read ?", "", 0, "refused"),
        ]


async def test_who_watches_a_document_is_noted_by_its_kind(tmp_path: Path) -> None:
    async with team_server(tmp_path, three_people) as desk, desk.agent("ada", "legacy") as agent:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await agent.subscribe_resource(f"memory://session/{WORD}")
        assert await rows(desk) == [("resources/subscribe memory://session/", "", 0, "ok")]


async def test_what_laptops_ask_and_send_is_noted_once_however_it_ends(tmp_path: Path) -> None:
    packed = {"content-encoding": "gzip"}
    told = line("1", f"The {WORD} goes to SQLite.", session=WORD)
    sent, back = body([told]), {"event_ids": [told["event_id"]], "forget": True}
    wrong: list[Any] = [{"tool": WORD}, [], {"tool": "teleport", "arguments": {"query": [WORD]}, "project": "*"}]
    lost = {"tool": "toc_root", "project": {"name": WORD}}
    async with team_server(tmp_path) as desk, desk.client("ada") as ada, desk.client("rita") as rita:
        assert (await ada.post("/team/push", content=sent, headers=packed)).json()["new"] == 1
        await ada.post("/team/push", content=gzip.compress(WORD.encode()), headers=packed)
        await ada.post("/team/withdraw", json=back)
        for question in (*wrong, lost):
            await ada.post("/team/ask", json=question)
        await ada.get("/team/me", params={"q": WORD})
        await ada.get(f"/session/{WORD}")
        await ada.get("/search", params={"q": WORD})
        assert await rows(desk) == [
            ("POST /team/push", "shop", 1, "ok"),
            ("POST /team/push", "", 0, "refused"),
            ("POST /team/withdraw", "", 1, "ok"),
            ("ask ?", "", 0, "refused"),
            ("ask ?", "", 0, "refused"),
            ("ask teleport", "*", 0, "refused"),
            ("ask toc_root", "", 0, "refused"),
            ("GET /team/me", "", 0, "ok"),
            ("GET /session", "", 0, "refused"),
            ("GET /search", "", 0, "ok"),
        ]
        for method, path in HANDLERS:
            if method == "POST" and path != "/team/ask":
                assert (await rita.post(path, content=sent, headers=packed)).status_code == 403
        assert await rows(desk, "rita") == [
            ("POST /team/push", "", 0, "refused"),
            ("POST /team/withdraw", "", 0, "refused"),
        ]


async def test_a_token_that_is_no_one_s_is_noted_without_a_name(tmp_path: Path) -> None:
    async with team_server(tmp_path) as desk, desk.client(authorization=f"Bearer {WORD}") as stranger:
        await stranger.get("/team/me")
        await stranger.post("/mcp", json={})
        await stranger.get(f"/session/{WORD}")
        told = [("GET /team/me", "", 0, "refused"), ("POST /mcp", "", 0, "refused"), ("GET /session", "", 0, "refused")]
        assert await rows(desk, "") == told
