"""The viewer without a browser: its pages as an HTTP client gets them, in this process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx2

from mcp_memory.app import App
from mcp_memory.config import Settings
from mcp_memory.surfaces.http import http_app
from mcp_memory.surfaces.process_command import until_idle
from mcp_memory.surfaces.server import Memory
from mcp_memory.surfaces.web.access import LocalAccess, SessionFiles
from tests.support import tell

BASE = "http://127.0.0.1:8765"
TOKEN = "a-token-of-some-length"
HTML = {"accept": "text/html"}


@dataclass(frozen=True, slots=True)
class Reader:
    """Someone with a browser that is logged in."""

    http: httpx2.AsyncClient
    access: LocalAccess
    memory: Memory

    @property
    async def app(self) -> App:
        return await self.memory.app()

    async def learn(self, lines: Iterable[dict[str, Any]]) -> None:
        """Store lines and wait for the tree, which the running server may be building already."""
        app = await self.app
        await tell(app, lines)
        await until_idle(app)

    async def get(self, address: str, status: int = 200) -> str:
        answer = await self.http.get(address)
        assert answer.status_code == status, f"{address}: {answer.status_code} {answer.text[:300]}"
        return answer.text

    async def first(self, address: str, beginning: str) -> str:
        """The first link on a page that begins so."""
        found = links(await self.get(address), beginning)
        assert found, f"{address} has no link to {beginning}"
        return found[0]

    async def send(self, address: str, page: str = "", **fields: str) -> httpx2.Response:
        """Send a form of the page at an address, with what the page hides in it."""
        shown = await self.get(page or address)
        sign = re.search(r'name="sign" value="([^"]+)"', shown)
        seen = re.search(r'name="seen" value="([^"]+)"', shown)
        assert sign
        hidden = {"sign": sign[1]} | ({"seen": seen[1]} if seen else {})
        return await self.http.post(address, data=hidden | fields, headers={"origin": BASE})


def links(html: str, beginning: str) -> list[str]:
    found = (unescape(address) for address in re.findall(r'href="([^"]+)"', html))
    return [address for address in found if address.startswith(beginning)]


def text_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


@asynccontextmanager
async def reading(settings: Settings, *, logged_in: bool = True, **options: Any) -> AsyncIterator[Reader]:
    memory, access = Memory(settings), LocalAccess(TOKEN, SessionFiles(settings.browsers))
    transport = httpx2.ASGITransport(app=http_app(memory, TOKEN, access=access))
    async with memory.running():
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, headers=HTML, timeout=60, **options) as http:
            if logged_in:
                answer = await http.get(f"/enter?code={access.code()}")
                assert answer.status_code == 303
            yield Reader(http, access, memory)
