"""The connections to a team's server: how many may be open, how many of one address without a token, how TLS begins.

Who only connects, and neither speaks TLS nor shows a token, holds a file of the server's process. So the limits hold
from the first moment, and the process may have enough files for as many connections as are allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Iterable
from typing import Any

from starlette.types import Scope

from mcp_memory.surfaces.http import Connection, ConnectionLimits

#: The number of files to ask the system for, and how many the server needs besides its connections.
WANTED_FILES, OTHER_FILES = 8_192, 200
MAX_CONNECTIONS, MIN_CONNECTIONS = 2_000, 50
#: Connections of one address that have shown no token. Behind one router there may be many laptops.
MAX_STRANGERS = 200
#: How long a client may take to begin TLS.
HANDSHAKE_SECONDS = 10.0
#: In the scope of a request: it came with a token that is a member's.
AUTHENTICATED = "mcp_memory.authenticated"


def raise_file_limit(wanted: int = WANTED_FILES) -> int:
    """Raise the soft limit of open files to what the system allows, and return the limit."""
    if sys.platform == "win32":  # where sockets are no files
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if more > soft:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
    return soft


def connections_within(files: int) -> int:
    """Return how many connections fit into a limit of open files."""
    return min(MAX_CONNECTIONS, max(MIN_CONNECTIONS, files - OTHER_FILES))


def note_authenticated(scope: Scope) -> None:
    """Let the connection of a request know that a member is at its other end."""
    scope[AUTHENTICATED] = True


class TeamConnection(Connection):
    """One of many: a laptop's loop, an agent and a browser each keep some open."""

    limits = ConnectionLimits(MAX_CONNECTIONS, body=60.0)
    max_strangers: int | None = MAX_STRANGERS
    tls: ssl.SSLContext | None = None
    handshake_seconds = HANDSHAKE_SECONDS

    @classmethod
    def bounded(
        cls, connections: int, tls: ssl.SSLContext | None = None, max_strangers: int | None = MAX_STRANGERS
    ) -> type[TeamConnection]:
        """The connections of one server. Without `max_strangers` an address may have any number, as a proxy's must."""
        limits = ConnectionLimits(connections, body=cls.limits.body)
        return type("BoundedConnection", (cls,), {"limits": limits, "tls": tls, "max_strangers": max_strangers})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._is_member = False
        self._made = False
        self._early = bytearray()
        self._handshake: asyncio.Task[None] | None = None
        # What follows is set once more where the connection is made; until then others look at it.
        self.transport, self._since, self._owes = transport, self.loop.time(), "head"
        self._clock = self._stalled = None
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        self.connections.add(self)
        if self.max_strangers is not None:
            strangers = [other for other in self._others() if other._address == self._address and other.is_stranger]
            if len(strangers) >= self.max_strangers and not self._close_one_of(strangers):
                transport.abort()
                return
        if self.tls is None:
            self._make(transport)
            return
        if len(self.connections) > self.limits.connections:
            self._make_room()
        if transport.is_closing():
            return
        transport.pause_reading()
        self._handshake = self.loop.create_task(self._begin_tls(transport, self.tls))

    def _make(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._made = True
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            self.data_received(early)

    async def _begin_tls(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                transport, self, tls, server_side=True, ssl_handshake_timeout=self.handshake_seconds
            )
        except (OSError, ssl.SSLError):  # it is closed, and anyone can make it so
            self.connections.discard(self)
            transport.abort()
            return
        if secured is None or secured.is_closing():
            self.connections.discard(self)
            return
        self._make(secured)

    def data_received(self, data: bytes) -> None:
        if self._made:
            super().data_received(data)
        else:  # the rest of what came with the end of the handshake
            self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        if self._handshake is not None:
            self._handshake.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._is_member = not self.is_stranger
        super().on_response_complete()

    @property
    def is_stranger(self) -> bool:
        """Whether no request of this connection has shown a member's token yet."""
        return not (self._is_member or AUTHENTICATED in (self.scope or {}))

    def _others(self) -> list[TeamConnection]:
        return [other for other in self.connections if isinstance(other, TeamConnection) and other is not self]

    def _close_one_of(self, connections: Iterable[Any]) -> bool:
        """Close the one that has owed something for longest; whether there was one."""
        owing = [other for other in connections if other._owes and not other.transport.is_closing()]
        if owing:
            oldest = min(owing, key=lambda other: other._since)
            self.connections.discard(oldest)
            oldest.transport.abort()
        return bool(owing)

    def _make_room(self) -> None:
        """Members go last."""
        if not self._close_one_of(other for other in self._others() if other.is_stranger):
            super()._make_room()
