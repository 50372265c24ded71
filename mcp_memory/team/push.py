"""Sending what is shared to the team's server: in portions, in the order of the log, until it has answered for each.

An event leaves the queue after the server's answer, and is known there by its id: so it does not matter where a process
is killed, or how often something is sent. What is taken back or forgotten goes before what is new.
"""

from __future__ import annotations

import gzip
import json
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
from anyio import to_thread

from mcp_memory.config import Settings
from mcp_memory.domain.events import Event, ulid
from mcp_memory.errors import (
    LeaseLost,
    MemoryFault,
    StoreReplaced,
    TeamFailed,
    TeamFault,
    TeamRefused,
    TeamRejected,
    TeamUnreachable,
    UsageError,
)
from mcp_memory.store.port import Store
from mcp_memory.team.account import FILE, PushState, TeamAccount
from mcp_memory.team.client import TeamClient
from mcp_memory.team.known import drop_outdated_news

logger = logging.getLogger(__name__)

#: How many events, and characters of them, are sent at once, and how many are withdrawn.
PORTION, PORTION_CHARS, WITHDRAWN = 500, 2_000_000, 1_000
#: How many times as long an unpacked push may be; servers refuse more than a hundred times.
_MAX_RATIO = 50
#: How often it is looked for what waits.
LOOK_SECONDS = 5.0
#: How long to wait after a failure, twice as long after each further one, and at most.
_PAUSE_SECONDS, _LONGEST_SECONDS, _DOUBLED = 5.0, 900.0, 10
#: A server that asks to wait for longer is asked again after this time.
_MOST_SECONDS = 6 * 3600.0
#: How long the answer to a portion is waited for; and where someone waits for a command to end.
PATIENCE_SECONDS, BRIEFLY_SECONDS = 120.0, 5.0


@dataclass(slots=True)
class Pushed:
    """What became of what was sent: new there, known there, refused; and what was given back."""

    new: int = 0
    known: int = 0
    declined: int = 0
    withdrawn: int = 0


class Pusher:
    """Sends for one memory. Of several processes that would, one does: the holder of a lease."""

    def __init__(
        self, settings: Settings, store: Store, connect: Callable[[TeamAccount], TeamClient] = TeamClient
    ) -> None:
        self._settings, self._store, self._connect = settings, store, connect
        self._lease = store.lease("push")
        self._many, self._failures, self._told = PORTION, 0, ""

    @property
    def joined(self) -> bool:
        """Whether there is a team. Looks for a file, so that who is in none pays nothing for it."""
        return (self._settings.home / FILE).exists()

    async def round(self) -> float:
        """Send what waits, if anything does; after how many seconds to look again. Raises nothing that may pass."""
        if not self.joined or PushState.load(self._settings).refused or not await self._waits():
            return LOOK_SECONDS
        try:
            await self.push()
        except LeaseLost:  # another process is at it
            return LOOK_SECONDS
        except StoreReplaced:
            raise
        except MemoryFault as error:
            if str(error) != self._told:
                logger.warning("What is shared waits: %s", error)
            self._told, self._failures = str(error), self._failures + 1
            return pause_after(self._failures, error.retry_after if isinstance(error, TeamUnreachable) else None)
        self._told, self._failures = "", 0
        return LOOK_SECONDS

    async def push(self, *, withdraw_only: bool = False, patience: float = PATIENCE_SECONDS) -> Pushed:
        """Send all that waits, or tell the server of what is taken back alone. Raises what is in the way."""
        account = TeamAccount.load(self._settings)
        if account is None:
            raise UsageError("This memory is in no team: `mcp-memory team join URL` joins one.")
        if not await self._lease.acquire():
            raise LeaseLost("Another process is sending what is shared; it goes on with what waits.")
        client, pushed = self._connect(account), Pushed()
        client.heed_erasure = partial(drop_outdated_news, self._settings, account.url)
        try:
            async with self._lease.kept():
                while await self._withdraw(client, pushed, patience) or (
                    not withdraw_only and await self._send(client, pushed, patience)
                ):
                    self._note(error="", failing_ms=0, refused=False, pushed_ms=_now_ms())
                if PushState.load(self._settings).error:  # nothing was sent, so the server has not told that it is over
                    await client.get("/team/me", patience)
        except TeamFault as error:
            since_ms = PushState.load(self._settings).failing_ms or _now_ms()
            self._note(error=str(error), failing_ms=since_ms, refused=isinstance(error, TeamRefused))
            raise
        finally:
            with anyio.move_on_after(2, shield=True):
                await client.close()
                await self._lease.release()
        self._note(error="", failing_ms=0, refused=False)
        return pushed

    async def try_push(self, *, withdraw_only: bool = False, patience: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The same where something else is the point: what was sent, and what is in the way, by their names."""
        if not self.joined:
            return {}
        if PushState.load(self._settings).refused:
            return {"push": PushState.load(self._settings).error}
        try:
            if not await self._waits():
                return {"pushed": 0}
            pushed = await self.push(withdraw_only=withdraw_only, patience=patience)
        except MemoryFault as error:
            return {"push": str(error)}
        return {"pushed": pushed.new}

    async def facts(self) -> dict[str, Any]:
        """How sharing is, as `status` tells it; nothing where nothing is shared and no team joined."""
        waiting = await self._store.waiting()
        if not self.joined:
            return {"joined": False, "waiting": waiting.events} if waiting.anything else {}
        try:
            account = TeamAccount.load(self._settings)
        except MemoryFault as error:
            return {"joined": False, "trouble": str(error)}
        state = PushState.load(self._settings)
        return {
            "joined": True,
            "server": account.url if account else "",
            "name": account.name if account else "",
            "waiting": waiting.events,
            "to_withdraw": waiting.withdrawn,
            "to_forget": waiting.forgotten,
            "pushed": _iso(state.pushed_ms) if state.pushed_ms else None,
            "trouble": state.error or None,
            "declined": state.declined,
            "reason": state.reason or None,
            "set_aside": [{"event_id": event_id, "reason": reason} for event_id, reason in state.set_aside],
        }

    async def _waits(self) -> bool:
        return bool((await self._store.to_withdraw(1))[0] or await self._store.to_push(1, 0))

    async def _withdraw(self, client: TeamClient, pushed: Pushed, patience: float) -> bool:
        """Tell the server of some that it is to give back; whether there were any."""
        keys, forget = await self._store.to_withdraw(WITHDRAWN)
        if keys:
            self._must_hold()
            ids = [ulid(0, key) for key in keys]
            await client.post("/team/withdraw", {"event_ids": ids, "forget": forget}, patience)
            await self._store.withdrawn(keys, forget=forget)
            pushed.withdrawn += len(keys)
        return bool(keys)

    async def _send(self, client: TeamClient, pushed: Pushed, patience: float) -> bool:
        """Send the next portion; whether there was one."""
        portion = await self._store.to_push(self._many, PORTION_CHARS)
        if not portion:
            return False
        events = [event for _, event in portion]
        body = await to_thread.run_sync(packed, events, await self._store.remotes())
        self._must_hold()
        try:
            answer = await client.post("/team/push", body, patience, gzipped=True)
        except (TeamRejected, TeamFailed) as error:
            if len(portion) > 1:  # a part of it may do
                self._many = len(portion) // 2
                return True
            if isinstance(error, TeamFailed) and not await self._takes_next(client, pushed, patience):
                raise
            answer = {"refused": [{"event_id": events[0].event_id, "reason": str(error)}]}
        except TeamUnreachable:
            self._many = max(1, self._many // 2)  # over a slow line a smaller one arrives in time
            raise
        await self._settle(client, pushed, portion, answer)
        self._many = min(PORTION, self._many * 2)
        return True

    async def _takes_next(self, client: TeamClient, pushed: Pushed, patience: float) -> bool:
        """Send the event after the one at which the server failed; whether it takes that.

        If it does, the fault is the first event's, and otherwise the server's.
        """
        portion = (await self._store.to_push(2, 2 * PORTION_CHARS))[1:]
        if not portion:
            return False
        body = await to_thread.run_sync(packed, [event for _, event in portion], await self._store.remotes())
        self._must_hold()
        try:
            answer = await client.post("/team/push", body, patience, gzipped=True)
        except (TeamRejected, TeamFailed) as error:
            return isinstance(error, TeamRejected)
        await self._settle(client, pushed, portion, answer)
        return True

    async def _settle(
        self, client: TeamClient, pushed: Pushed, portion: Sequence[tuple[int, Event]], answer: Mapping[str, Any]
    ) -> None:
        """Take what the server has answered for out of the queue, and set aside what it refused."""
        new, known, refused = _counted(client, answer)
        await self._store.pushed([number for number, _ in portion])
        pushed.new, pushed.known = pushed.new + new, pushed.known + known
        pushed.declined += len(refused)
        if refused and self.joined:
            PushState.load(self._settings).with_set_aside(refused).save(self._settings)

    def _must_hold(self) -> None:
        """Whoever lost the lease must not send what may have been taken back since it was read."""
        if not self._lease.holds():
            raise LeaseLost("Another process is sending what is shared; it goes on with what waits.")

    def _note(self, **facts: Any) -> None:
        state = PushState.load(self._settings)
        if (changed := replace(state, **facts)) != state and self.joined:
            changed.save(self._settings)


def pause_after(failures: int, retry_after: float | None = None) -> float:
    """Seconds to wait: more after each failure, not the same on every laptop, and not less than the server asks for."""
    pause: float = min(_PAUSE_SECONDS * 2 ** min(failures - 1, _DOUBLED), _LONGEST_SECONDS) * random.uniform(0.5, 1.0)
    return max(pause, min(retry_after, _MOST_SECONDS)) if retry_after else pause


def packed(events: Sequence[Event], remotes: Mapping[str, str]) -> bytes:
    """Events as the server reads them: a line that names the format, then each as `export` writes it.

    What repeats itself so much that a server would take it for a bomb is sent at its full length.
    """
    lines = [{"format": 1}, *(line_of(event, remotes.get(event.project, "")) for event in events)]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines).encode("utf-8", "replace")
    body = gzip.compress(text, 5, mtime=0)
    return body if len(text) <= _MAX_RATIO * len(body) else gzip.compress(text, 0, mtime=0)


def line_of(event: Event, remote: str) -> dict[str, Any]:
    names = ("event_id", "source_id", "session_id", "project", "client", "event_type", "role", "text", "truncated")
    told = {name: getattr(event, name) for name in names} | {"timestamp": _iso(event.timestamp_ms)}
    told |= {"source_ids": list(event.source_ids), "metadata": dict(event.metadata)}
    return told | ({"remote": remote} if remote else {})


def _counted(client: TeamClient, answer: Mapping[str, Any]) -> tuple[int, int, list[tuple[str, str]]]:
    """What the server says of a portion: new, known, and the ids of refused events with the reasons."""
    new, known, refused = answer.get("new", 0), answer.get("known", 0), answer.get("refused")
    if not (isinstance(new, int) and isinstance(known, int) and isinstance(refused, list)):
        raise TeamFault(f"{client.account.url} answers a push, but not as a team server does.")
    rows = [row if isinstance(row, dict) else {} for row in refused]
    return new, known, [(str(row.get("event_id", ""))[:40], str(row.get("reason", ""))[:200]) for row in rows]


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
