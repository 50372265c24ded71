"""The MCP resources and prompts as a client reads them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from mcp_memory.app import open_app
from mcp_memory.config import Settings
from mcp_memory.surfaces.doctor import examine
from tests.support import said as spoken
from tests.support import tell
from tests.surfaces.client import GRIP, connected, read

pytestmark = pytest.mark.anyio


async def test_resources_are_markdown_and_take_ids_plain_or_encoded(settings: Settings) -> None:
    async with connected(settings) as client:
        assert "table of contents" in (await read(client, "memory://toc")).text
        for node_id in ("toc:day:2026-10-26", "toc:year:2026@tidepool-web"):
            plain = await read(client, f"memory://node/{node_id}")
            encoded = await read(client, f"memory://node/{quote(node_id, safe='')}")
            assert node_id in plain.text.splitlines()[0]
            assert plain.text == encoded.text
            assert plain.mime_type == "text/markdown"
        grip = GRIP.search((await read(client, "memory://node/toc:day:2026-10-26")).text)
        assert grip
        assert "tidepool-api-07" in (await read(client, f"memory://grip/{grip[0]}")).text
        assert "tidepool-api-07" in (await read(client, "memory://session/tidepool-api-07")).text


async def test_the_status_resource_is_json(settings: Settings) -> None:
    async with connected(settings) as client:
        document = await read(client, "memory://status")
        assert document.mime_type == "application/json"
        assert json.loads(document.text)["events"] == 239


async def test_the_status_resource_assesses_health_as_doctor_does(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    expected = examine(settings, thorough=False).shape()
    assert (expected["ok"], expected["capture"]) == (True, "imported")
    async with connected(settings) as client:
        assert json.loads((await read(client, "memory://status")).text)["health"] == expected


@pytest.mark.parametrize("uri", ["node/toc:day:1999-01-01", "node/x", "grip/x", "session/none", "nothing"])
async def test_an_unknown_resource_is_reported_as_such(settings: Settings, uri: str) -> None:
    async with connected(settings) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"memory://{uri}")
        assert caught.value.error.code == -32602


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("recall", {"topic": "the booking lock"}, ["the booking lock", "teleport", "expand_grip"]),
        ("catch_up", {"when": "last week"}, ["browse_time", 'when="last week"', "get_node", "expand_grip"]),
        (
            "resummarize",
            {"session": "tidepool-api-07"},
            ["tidepool-api-07", "memory://session/tidepool-api-07", "expand_grip", "call remember"],
        ),
    ],
)
async def test_prompts_name_the_calls_in_their_order(
    settings: Settings, name: str, arguments: dict[str, str], parts: list[str]
) -> None:
    async with connected(settings) as client:
        (message,) = (await client.get_prompt(name, arguments)).messages
        assert message.role == "user"
        assert isinstance(message.content, TextContent)
        places = [message.content.text.find(part) for part in parts]
        assert -1 not in places
        assert places == sorted(places)


async def test_a_prompt_names_a_session_as_its_resource_is_called(settings: Settings) -> None:
    async with open_app(settings) as app:
        await tell(app, [spoken("We keep the old port.", "2026-10-30T09:00:00Z", session="a b:1")])
    async with connected(settings) as client:
        (message,) = (await client.get_prompt("resummarize", {"session": "a b:1"})).messages
        assert isinstance(message.content, TextContent)
        assert "memory://session/a%20b:1" in message.content.text


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("resummarize", {"session": "zzz"}, "There is no session 'zzz'"),
        ("resummarize", {}, "resummarize needs the argument session"),
        ("recall", {"topic": " "}, "recall needs the argument topic"),
        ("catch_up", None, "catch_up needs the argument when"),
        ("recall", {"topic": "x", "about": "y"}, "recall has no argument 'about'. Known: topic"),
        ("nothing", {}, "Known: recall, catch_up, resummarize"),
    ],
)
async def test_a_prompt_that_cannot_be_made_says_why_and_leaves_no_trace_in_the_log(
    settings: Settings,
    name: str,
    arguments: dict[str, str] | None,
    told: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected(settings) as client:
        with pytest.raises(MCPError, match=told) as caught:
            await client.get_prompt(name, arguments)
        assert caught.value.error.code == -32602
    assert not [record for record in caplog.records if record.exc_info]
