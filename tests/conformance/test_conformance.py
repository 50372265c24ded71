"""The test build that `make conformance` serves, and how its results are judged; the suite itself needs npm."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import ImageContent

from mcp_memory.config import Settings
from mcp_memory.surfaces.http import http_app
from mcp_memory.surfaces.server import Memory
from tests.conformance.run import EXPECTED, RUNS, read_results, unexpected
from tests.conformance.server import build, with_token
from tests.surfaces.client import ask, read
from tests.surfaces.test_http import call
from tests.surfaces.test_server import TOOLS

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-some-length"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", project="conformance")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_test_build_is_the_shipped_server_with_fixtures(settings: Settings, era: str) -> None:
    async with Client(build(Memory(settings)), mode=era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names > TOOLS
        assert all(name.startswith(("test_", "json_schema_")) for name in names - TOOLS)
        assert await ask(client, "test_simple_text") == "This is a simple text response for testing."
        (picture,) = (await client.call_tool("test_image_content", {})).content
        assert isinstance(picture, ImageContent)
        assert (
            await read(client, "test://template/7/data")
        ).text == '{"id":"7","templateTest":true,"data":"Data for ID: 7"}'
        assert "Nothing is remembered" in await ask(client, "toc_root")


async def test_only_the_token_is_handed_to_the_guard(settings: Settings) -> None:
    app = with_token(http_app(Memory(settings), TOKEN, build=build), TOKEN)
    assert (await call(app, {"host": "evil.example"}))[0] == 421
    assert (await call(app, {"host": "127.0.0.1", "origin": "https://evil.example"}))[0] == 403
    assert (await call(app, {"host": "127.0.0.1", "authorization": "Bearer x"}))[0] == 401


def test_a_failure_and_a_pass_that_are_not_expected_are_both_told(tmp_path: Path) -> None:
    for name, status in (("fine", "SUCCESS"), ("known", "FAILURE"), ("worse", "FAILURE"), ("better", "SUCCESS")):
        folder = tmp_path / f"server-{name}-2026-11-17T23-09-24-852Z"
        folder.mkdir()
        (folder / "checks.json").write_text(json.dumps([{"id": "x", "status": status, "errorMessage": "why"}]))
    failures = read_results(tmp_path)
    assert unexpected(failures, {"known": "so it is", "better": "so it was", "gone": "so it was"}) == [
        "gone was not run; see build/conformance/server.log",
        "better passes: take it out of expected.toml",
        "worse fails: x: why",
    ]


def test_each_expected_failure_has_its_reason() -> None:
    expected = tomllib.loads(EXPECTED.read_text("utf-8"))
    assert expected.keys() == {revision for _, revision in RUNS}
    assert all(reason.endswith(".") for reasons in expected.values() for reason in reasons.values())
