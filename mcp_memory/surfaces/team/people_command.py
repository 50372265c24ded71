"""People, projects and the audit of a team, on the server's own machine: `team user`, `team project`, `team audit`.

Whoever may read the settings of the server may do this: it works on the database itself, and asks for no token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from mcp_memory.config import Settings
from mcp_memory.domain.people import MEMBER, AuditRow, TeamProject, as_role
from mcp_memory.domain.text import safe
from mcp_memory.errors import SettingsError, UsageError
from mcp_memory.navigate.shapes import iso
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.team.audit import KEPT_MS, KEPT_ROWS

if TYPE_CHECKING:
    from mcp_memory.store.team_port import TeamStore

_DAY_MS = 24 * 3_600_000
#: How long a token lives if nothing is said, and at most.
TOKEN_DAYS, MOST_DAYS = 365, 3_650
#: How many rows of the audit are shown if nothing is said, and at most.
_ROWS, _MOST_ROWS = 50, 10_000
#: Who does what is done here, in the audit. No member can have this name.
SERVER = "(server)"


@asynccontextmanager
async def register(settings: Settings, action: str = "") -> AsyncIterator[TeamStore]:
    """The team's store. With an action, that is noted in the audit once it is done."""
    if not settings.store.url:
        raise SettingsError(
            "People of a team are kept in PostgreSQL, on the team's server: set [store] url there, or "
            "MCP_MEMORY_STORE_URL. On a laptop it is `mcp-memory team join URL`."
        )
    from mcp_memory.app import open_app

    async with open_app(settings, typed=True) as app:
        store = cast("TeamStore", app.store)
        yield store
        if action:
            await store.note_audit([AuditRow(_now_ms(), SERVER, action[:200])], _now_ms() - KEPT_MS, KEPT_ROWS)


async def add_user(settings: Settings, options: argparse.Namespace) -> Answer:
    [name], role, lasts = options.words, options.role or MEMBER, _lasting(options)
    async with register(settings, f"team user add {name} as {role}") as store:
        token = await store.add_user(name, role, _now_ms(), _now_ms() + lasts)
    return _token(options, name, role, token, lasts, f"{name} is {as_role(role)} of the team now.")


async def add_token(settings: Settings, options: argparse.Namespace) -> Answer:
    [name], lasts = options.words, _lasting(options)
    async with register(settings, f"team user token {name}") as store:
        token = await store.add_token(name, _now_ms(), _now_ms() + lasts)
        role = next(user.role for user in await store.users(_now_ms()) if user.name == name)
    return _token(options, name, role, token, lasts, f"A further token of {name}; those there are live on.")


def _token(options: argparse.Namespace, name: str, role: str, token: str, lasts: int, told: str) -> Answer:
    expires = _now_ms() + lasts
    if options.json:
        return {"name": name, "role": role, "token": token, "expires": iso(expires)}
    return "\n".join(
        [
            told,
            "",
            f"    {token}",
            "",
            f"This token is shown now and never again; it is good until {_day(expires)}. Hand it over by a way",
            f"that no one else reads. {name} joins with `mcp-memory team join URL`, URL being the address of this",
            "server, such as https://memory.example.org, and is asked for it then. A browser is asked there, too.",
        ]
    )


async def set_role(settings: Settings, options: argparse.Namespace) -> Answer:
    name, role = options.words
    async with register(settings, f"team user role {name} {role}") as store:
        await store.set_role(name, role)
    return {"name": name, "role": role} if options.json else f"{name} is {as_role(role)} from now on."


async def revoke_user(settings: Settings, options: argparse.Namespace) -> Answer:
    [name] = options.words
    async with register(settings, f"team user revoke {name}") as store:
        dead = await store.revoke_user(name, _now_ms())
    if options.json:
        return {"name": name, "tokens": dead}
    died = "its token is" if dead == 1 else f"its {dead} tokens are"
    return f"{name} is revoked: {died} dead as of now. What {name} shared stays with the projects."


async def list_users(settings: Settings, options: argparse.Namespace) -> Answer:
    async with register(settings) as store:
        users = await store.users(_now_ms())
    if options.json:
        times = ("created", "revoked", "expires")
        return {
            "users": [
                {"name": user.name, "role": user.role, "tokens": user.tokens, "sessions": user.sessions}
                | {name: iso(at) if (at := getattr(user, f"{name}_ms")) else None for name in times}
                for user in users
            ]
        }
    rows = []
    for user in users:
        state = f"until {_day(user.expires_ms)}" if user.tokens and user.expires_ms else "no living token"
        state = f"revoked {_day(user.revoked_ms)}" if user.revoked_ms else state
        shared = f"{user.sessions:,} shared session" + "s" * (user.sessions != 1)
        rows.append([user.name, user.role, state, shared])
    return _columns(rows) or "There is no one yet: `mcp-memory team user add NAME` adds the first."


async def list_projects(settings: Settings, options: argparse.Namespace) -> Answer:
    async with register(settings) as store:
        projects = await store.team_projects()
    if options.json:
        return {"projects": [_project_shape(project) for project in projects]}
    rows = [[project.slug, project.remote or "known by its name", _readers(project)] for project in projects]
    return _columns(rows) or "No project yet: the first that a member shares is the first here."


async def add_member(settings: Settings, options: argparse.Namespace) -> Answer:
    project, name = options.words
    async with register(settings, f"team project add {project} {name}") as store:
        await store.add_member(project, name)
        return await _members(store, project, options)


async def remove_member(settings: Settings, options: argparse.Namespace) -> Answer:
    project, name = options.words
    async with register(settings, f"team project remove {project} {name}") as store:
        await store.remove_member(project, name, opens=options.open)
        return await _members(store, project, options)


async def _members(store: TeamStore, slug: str, options: argparse.Namespace) -> Answer:
    project = next(one for one in await store.team_projects() if one.slug == slug)
    return _project_shape(project) if options.json else f"{slug}: {_readers(project)}."


async def show_audit(settings: Settings, options: argparse.Namespace) -> Answer:
    limit = _ROWS if options.limit is None else options.limit
    if not 1 <= limit <= _MOST_ROWS:
        raise UsageError(f"--limit takes a number from 1 to {_MOST_ROWS:,}.")
    async with register(settings) as store:
        rows = await store.audit(options.user, limit)
    if options.json:
        return {"rows": [_audit_shape(row) for row in rows]}
    shown = [
        [_moment(row.at_ms), safe(row.name) or "?", safe(row.action), safe(row.project), f"{row.many:,}", row.outcome]
        for row in reversed(rows)
    ]
    return _columns(shown) or "Nothing was asked of the team's server yet" + (" by that member." * bool(options.user))


def _audit_shape(row: AuditRow) -> Mapping[str, Any]:
    shape = asdict(row)
    return {"at": iso(shape.pop("at_ms")), **shape}


def _project_shape(project: TeamProject) -> dict[str, Any]:
    shape = asdict(project)
    return {**shape, "members": list(project.members), "open": not project.members}


def _readers(project: TeamProject) -> str:
    return f"read by {', '.join(project.members)}" if project.members else "open to all of the team"


def _lasting(options: argparse.Namespace) -> int:
    days = TOKEN_DAYS if options.expires is None else options.expires
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--expires takes a number of days from 1 to {MOST_DAYS:,}.")
    return int(days) * _DAY_MS


def _columns(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"


def _now_ms() -> int:
    """Real time: tokens expire whatever the memory's clock is set to."""
    return time.time_ns() // 1_000_000
