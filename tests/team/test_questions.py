"""What is asked of the team's server leaves the laptop without secrets and without what is private."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_memory.config import Settings, Team
from mcp_memory.domain.people import ProjectName
from mcp_memory.team.account import TeamAccount
from mcp_memory.team.asking import AskedTeam
from mcp_memory.team.client import TeamClient

pytestmark = pytest.mark.anyio
SECRET = "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
SHOP = ProjectName("git.example.org/team/shop", "shop")


class Server(httpx2.AsyncBaseTransport):
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/team/me":
            return httpx2.Response(200, json={"projects": [{"slug": "shop", "remote": SHOP.remote}]})
        self.bodies.append((await request.aread()).decode())
        return httpx2.Response(200, json={"text": "An answer."})


async def asked(home: Path, arguments: Mapping[str, Any], tool: str = "teleport") -> tuple[list[Any], str]:
    """What the server was asked, and what stood in the way."""
    server = Server()
    account = TeamAccount("https://memory.example.org", "dan", "mcpm_0123456789abcdef")
    team = AskedTeam(account, Settings(home=home, team=Team(timeout_ms=10_000)), TeamClient(account, server))
    try:
        reply = await team.ask(tool, arguments, SHOP)
    finally:
        await team.close()
    assert reply is not None
    return [json.loads(body)["arguments"] for body in server.bodies], reply.trouble


@pytest.mark.parametrize(
    ("question", "sent"),
    [
        (f"who uses the key {SECRET} here", "who uses the key   here"),
        ("what of <private>the merger with Initech</private> is decided", "what of   is decided"),
        ("what is decided <private>about Initech", "what is decided"),
        ("what is decided", "what is decided"),
    ],
)
async def test_secrets_and_private_parts_of_a_question_stay_here(tmp_path: Path, question: str, sent: str) -> None:
    for tool, name in (("teleport", "query"), ("toc_root", "topic"), ("build_context", "query")):
        told, trouble = await asked(tmp_path, {name: question, "limit": 5}, tool)
        assert [{key: " ".join(str(value).split()) for key, value in one.items()} for one in told] == [
            {name: " ".join(sent.split()), "limit": "5"}
        ]
        assert not trouble


@pytest.mark.parametrize("question", [SECRET, "<private>Initech</private>", f"{SECRET} <private>x</private>?"])
async def test_nothing_is_asked_where_nothing_is_left(tmp_path: Path, question: str) -> None:
    told, trouble = await asked(tmp_path, {"query": question, "limit": 5})
    assert told == []
    assert "was not asked" in trouble


async def test_ids_and_lists_arrive_as_they_were_given(tmp_path: Path) -> None:
    arguments = {
        "grip_id": "grip:1792486920000:01M5C8QKT0F028NFR4P3PFQ2YM",
        "node_id": "toc:day:2026-11-18@team/shop",
        "session": "feedface-0a0a-4b4b-8c8c-0d0d0d0d0d0d",
        "levels": ["day", "segment"],
        "cursor": "",
    }
    assert await asked(tmp_path, arguments, "get_node") == ([arguments], "")
