"""An agent client that talks to the server in process, in either protocol era."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
from mcp import Client
from mcp.client.session import ElicitationFnT, MessageHandlerFnT
from mcp_types import TextContent, TextResourceContents

from mcp_memory.config import Settings
from mcp_memory.surfaces.server import Memory, build_server

Era = Literal["auto", "legacy"]
GRIP = re.compile(r"grip:\d+:\w{26}")


@asynccontextmanager
async def connected(
    settings: Settings,
    era: Era = "auto",
    hears: MessageHandlerFnT | None = None,
    asks: ElicitationFnT | None = None,
) -> AsyncIterator[Client]:
    """A client of a server of its own; `hears` is given what the server sends unasked, `asks` what it asks the user."""
    with anyio.fail_after(60):
        server = build_server(Memory(settings))
        async with Client(server, mode=era, message_handler=hears, elicitation_callback=asks) as client:
            yield client


async def ask(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    text = said(result.content)
    assert not result.is_error, text
    assert result.structured_content is None
    return text


async def refused(client: Client, tool: str, /, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return said(result.content)


def said(content: list[Any]) -> str:
    (block,) = content
    assert isinstance(block, TextContent)
    return block.text


async def read(client: Client, uri: str) -> TextResourceContents:
    (document,) = (await client.read_resource(uri)).contents
    assert isinstance(document, TextResourceContents)
    return document
