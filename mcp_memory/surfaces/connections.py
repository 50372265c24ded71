"""HTTP connections that take no more than their share: idle, slow and too many ones are closed.

uvicorn bounds the pause between two requests. It waits for ever for the first one, for the rest of a head or a body,
and for a reader that takes nothing; a few hundred such connections, which need no token, would keep everyone out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections are kept, and how many seconds each may take for what it owes."""

    connections: int = 100
    #: From the first moment, or from the last answer, until a request's head is complete.
    head: float = 10.0
    #: From there until its body is.
    body: float = 30.0
    #: How long a client may take nothing of an answer that waits for it.
    stalled: float = 30.0


class Connection(H11Protocol):
    """A connection under a clock that runs whenever the client owes something, and that no single byte sets back."""

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._owes = ""
        self._clock: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._since = self.loop.time()
        self._watch()
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        """Close the one that has owed something for longest. If all are being answered, there is room for no more."""
        open_ones = (other for other in self.connections if isinstance(other, Connection))
        owing = [other for other in open_ones if other is not self and other._owes and not other.transport.is_closing()]
        if owing:
            min(owing, key=lambda other: other._since).transport.abort()
        else:
            self.transport.write(_FULL)
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the clock for what the client owes now, if that is something else than before."""
        owes = self._owed()
        if owes == self._owes:
            return
        self._stop(self._clock)
        self._owes, self._since = owes, self.loop.time()
        self._clock = self.loop.call_later(getattr(self.limits, owes), self._give_up) if owes else None

    def _owed(self) -> str:
        """`head`, `body`, or nothing while it waits for its answer."""
        return {h11.IDLE: "head", h11.SEND_BODY: "body"}.get(self.conn.their_state, "")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.stalled, self._give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._clock)
        self._stop(self._stalled)
        super().connection_lost(exc)

    def _give_up(self) -> None:
        # What is still to be sent is not waited for: it may be what the client does not take.
        self.transport.abort()

    @staticmethod
    def _stop(clock: asyncio.TimerHandle | None) -> None:
        if clock is not None:
            clock.cancel()


class _Left(Exception):
    """The client has gone before its request was complete."""


def quiet(app: ASGIApp) -> ASGIApp:
    """The application, in which a client that leaves is no error."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        whole = gone = False

        async def heard() -> Message:
            nonlocal whole, gone
            message = await receive()
            if message["type"] == "http.request":
                whole = not message.get("more_body", False)
            else:
                gone = True
            if gone and not whole:
                # Handed on, it would be taken for the end of the request, and told as a failure to read it.
                raise _Left
            return message

        try:
            await app(scope, heard if scope["type"] == "http" else receive, send)
        except Exception:
            if not gone:
                raise

    return serve
