"""Completions as a client asks for them at every key stroke: what there is in the project in scope, and no more."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from mcp_memory.app import open_app
from mcp_memory.config import Settings
from tests.support import conversation, learn, said, tell
from tests.surfaces.client import GRIP, Era, connected, read

pytestmark = pytest.mark.anyio


async def completed(client: Client, name: str, typed: str, prompt: str = "") -> Completion:
    """What is offered for an argument of a prompt, or of the address that has it."""
    ref = (
        PromptReference(name=prompt)
        if prompt
        else ResourceTemplateReference(uri=f"memory://{name.removesuffix('_id')}/{{{name}}}")
    )
    return (await client.complete(ref, {"name": name, "value": typed})).completion


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("", "toc:year:2026"),
        ("to", "toc:year:2026"),
        ("toc:m", "toc:month:2026-10"),
        ("toc:week:2026-W4", "toc:week:2026-W44"),
        ("toc:day:2026-10", "toc:day:2026-10-30"),
    ],
)
async def test_node_ids_are_those_that_exist(settings: Settings, era: Era, typed: str, first: str) -> None:
    async with connected(settings, era) as client:
        offered = await completed(client, "node_id", typed)
        assert offered.values[0] == first
        assert offered.total == len(offered.values)
        assert offered.has_more is False
        for node_id in offered.values:
            assert node_id.startswith(typed)
            assert (await read(client, f"memory://node/{node_id}")).text.startswith(node_id)


async def test_the_segments_of_a_day_are_offered_latest_first(settings: Settings) -> None:
    async with connected(settings) as client:
        offered = (await completed(client, "node_id", "toc:segment:2026-10-26")).values
        assert len(offered) > 1
        assert offered == sorted(offered, reverse=True)
        for node_id in offered:
            assert (await read(client, f"memory://node/{node_id}")).text.startswith(node_id)


async def test_after_the_sign_for_another_project_those_that_have_the_node_are_offered(settings: Settings) -> None:
    async with open_app(settings) as app:
        await learn(app, conversation("2026-10-30", project="tidepool-kiosk"))
    async with connected(settings) as client:
        offered = (await completed(client, "node_id", "toc:day:2026-10-30@tide")).values
        assert sorted(offered) == ["toc:day:2026-10-30@tidepool-api", "toc:day:2026-10-30@tidepool-kiosk"]
        assert (await completed(client, "node_id", "toc:day:2019-01-01@")).values == []


async def test_grips_are_offered_latest_first_and_by_the_beginning_of_their_time(settings: Settings) -> None:
    async with connected(settings) as client:
        offered = (await completed(client, "grip_id", "")).values
        latest = GRIP.findall((await read(client, "memory://node/toc:day:2026-10-30")).text)
        assert set(latest) <= set(offered[:10])
        chosen = offered[-1]
        for typed in (chosen[:3], chosen[:10], chosen[:18], chosen[:25]):
            assert chosen in (await completed(client, "grip_id", typed)).values
        assert (await read(client, f"memory://grip/{chosen}")).text


@pytest.mark.parametrize(("name", "prompt"), [("session_id", ""), ("session", "resummarize")])
async def test_sessions_are_those_of_the_project(settings: Settings, name: str, prompt: str) -> None:
    async with connected(settings) as client:
        assert "tidepool-api-07" in (await completed(client, name, "tidepool-a", prompt)).values
        everything = (await completed(client, name, "", prompt)).values
        assert everything
        assert all(session.startswith("tidepool-api") for session in everything)


async def test_times_are_those_in_which_something_was_said(settings: Settings) -> None:
    async with connected(settings) as client:
        assert (await completed(client, "when", "y", "catch_up")).values == ["yesterday"]
        assert "today" not in (await completed(client, "when", "", "catch_up")).values
        assert (await completed(client, "when", "2026-W4", "catch_up")).values[0] == "2026-W44"


async def test_topics_are_what_the_project_speaks_of(settings: Settings) -> None:
    async with connected(settings) as client:
        assert "tide_table.py" in (await completed(client, "topic", "TIDE", "recall")).values
        assert (await completed(client, "topic", "zzz", "recall")).values == []


async def test_no_more_are_offered_than_the_protocol_allows(blank: Settings) -> None:
    lines = [said("Hello.", "2026-10-30T09:00:00Z", session=f"s{n:03}", project="tidepool-api") for n in range(120)]
    async with open_app(blank) as app:
        await tell(app, lines)
    async with connected(blank) as client:
        offered = await completed(client, "session_id", "s")
        assert (len(offered.values), offered.has_more, offered.total) == (100, True, None)


@pytest.mark.parametrize(
    "typed",
    [
        "grip:" + "9" * 5_000,
        "grip:-1",
        "grip:१",
        "grip:1:",
        "toc:day:\x00",
        "toc:day:2026-13-99@",
        "%",
        "'--",
        "@",
        "x" * 9_999,
    ],
)
@pytest.mark.parametrize(
    ("name", "prompt"),
    [("node_id", ""), ("grip_id", ""), ("session_id", ""), ("when", "catch_up"), ("topic", "recall")],
)
async def test_what_nothing_begins_with_is_completed_by_nothing(
    settings: Settings, typed: str, name: str, prompt: str
) -> None:
    async with connected(settings) as client:
        assert (await completed(client, name, typed, prompt)).values == []


@pytest.mark.parametrize("typed", ["", "toc:", "grip:1", "s", "%", "'", "toc:segment:x@", "grip:१", "\x00"])
@pytest.mark.parametrize("name", ["node_id", "grip_id", "session_id"])
async def test_a_server_in_a_project_without_memory_offers_nothing(settings: Settings, name: str, typed: str) -> None:
    async with connected(Settings(home=settings.home, project="elsewhere")) as client:
        assert (await completed(client, name, typed)).values == []


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (ResourceTemplateReference(uri="memory://node/{node_id}"), "session_id"),
        (ResourceTemplateReference(uri="memory://nothing/{id}"), "id"),
        (PromptReference(name="nothing"), "topic"),
    ],
)
async def test_what_has_no_such_argument_is_an_error(
    settings: Settings, ref: ResourceTemplateReference | PromptReference, name: str
) -> None:
    async with connected(settings) as client:
        with pytest.raises(MCPError, match="There is no argument") as caught:
            await client.complete(ref, {"name": name, "value": ""})
        assert caught.value.error.code == -32602


async def test_a_memory_that_cannot_be_read_says_why(blank: Settings) -> None:
    blank.home.mkdir()
    blank.database.write_bytes(b"this is not a database " * 500)
    async with connected(blank) as client:
        with pytest.raises(MCPError, match="is damaged"):
            await completed(client, "node_id", "")
