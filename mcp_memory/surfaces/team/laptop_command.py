"""A laptop's side of a team: joining and leaving, sharing and taking back, what waits, and sending it now.

All of a memory is private that was not shared by name.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_memory.config import Settings
from mcp_memory.domain.events import TIMES
from mcp_memory.domain.people import as_role
from mcp_memory.domain.text import safe
from mcp_memory.errors import MemoryFault, TeamFault, TeamRefused, UsageError
from mcp_memory.navigate.shapes import iso
from mcp_memory.store.sharing_port import Amount, Chosen, SharedPart
from mcp_memory.surfaces import output
from mcp_memory.surfaces.output import Answer
from mcp_memory.team.account import FILE, PushState, TeamAccount, checked_token, checked_url, forget_account

if TYPE_CHECKING:
    from mcp_memory.app import App

#: How long the server is waited for where it is asked in passing.
_BRIEFLY_SECONDS = 3.0
#: Refused events that `team status` names.
_SHOWN_SET_ASIDE = 5
_LONGEST_FILE = 8_192


async def join(settings: Settings, options: argparse.Namespace) -> Answer:
    """Keep the account after the server has said whose token it is; what is shared already goes there from now on."""
    from mcp_memory.app import open_app

    [url] = options.words
    account = TeamAccount(checked_url(url), "", checked_token(_token(options.token_file)))
    with output.spinner("Asking the server", enabled=not options.json):
        account = await _known(account)
    async with open_app(settings, typed=True) as app:
        await app.pusher.try_push(withdraw_only=True, patience=_BRIEFLY_SECONDS)  # where one was until now
        before = await app.store.waiting()
        await app.store.join_team(account.server)
        account.save(settings)
        PushState().save(settings)
        after, rules = await app.store.waiting(), await app.store.shared()
    left = before.withdrawn + before.forgotten - after.withdrawn - after.forgotten
    if options.json:
        shape = {"joined": True, "server": account.url, "name": account.name, "waiting": after.events}
        return shape | ({"left_behind": left} if left else {})
    going_on = [part.project for part in rules if part.since_ms is not None]
    shared = f"Shared already is {listing(going_on)}." if going_on else "Nothing is shared yet."
    if after.events:
        shared += f" {many(after.events, 'event')} will be sent."
    if left:
        shared = (
            f"{many(left, 'event')} that you took back or forgot stay with the team that you were in: its server could "
            f"not be reached, and is not asked any more. {shared}"
        )
    return (
        f"You are {account.name} of the team at {account.url}. {shared} `mcp-memory share PROJECT` shares a project "
        "from now on; all else stays on this machine."
    )


async def _known(account: TeamAccount) -> TeamAccount:
    """The account with the name that the server knows it by."""
    told = await _me(account)
    name, server = told.get("name"), told.get("server")
    if not (isinstance(name, str) and name and isinstance(server, str) and server):
        raise TeamFault(f"{account.url} answers, but not as a team server does. Is this its address?")
    return replace(account, name=name, server=server)


async def _me(account: TeamAccount, timeout: float | None = None) -> Mapping[str, Any]:
    from mcp_memory.team.client import PATIENCE_SECONDS, TeamClient

    client = TeamClient(account)
    try:
        return await client.get("/team/me", timeout or PATIENCE_SECONDS)
    finally:
        await client.close()


def _token(file: str | None) -> str:
    """The token from a file, from the terminal, where it does not show, or from standard input."""
    if file is None or file == "-":
        if file is None and sys.stdin.isatty():
            return getpass.getpass("Token (it does not show): ")
        return sys.stdin.readline(_LONGEST_FILE)
    try:
        with Path(file).open(encoding="utf-8") as opened:
            return opened.read(_LONGEST_FILE)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{file} cannot be read: {why}. It is to hold the token alone.") from None


async def leave(settings: Settings, options: argparse.Namespace) -> Answer:
    """Forget the token. What the team has stays with it; what waits stays here."""
    from mcp_memory.app import open_app

    if not (settings.home / FILE).exists():
        raise UsageError("This memory is in no team.")
    async with open_app(settings, typed=True) as app:
        with output.spinner("Telling the server what was taken back", enabled=not options.json):
            await app.pusher.try_push(withdraw_only=True, patience=_BRIEFLY_SECONDS)
        waiting = await app.store.waiting()
    forget_account(settings)
    if options.json:
        return {"joined": False, "to_withdraw": waiting.withdrawn, "to_forget": waiting.forgotten}
    told = "You have left the team: nothing is sent any more, and the token is removed. What you shared stays with it."
    if left := waiting.withdrawn + waiting.forgotten:
        told += (
            f" {many(left, 'event')} that you took back or forgot could not be withdrawn there: join once more to have "
            "that done, or ask an admin."
        )
    return told


async def status(settings: Settings, options: argparse.Namespace) -> Answer:
    """Who one is in the team, what is shared, and what waits; asks the server whether it is there."""
    from mcp_memory.app import open_app

    async with open_app(settings, typed=True) as app:
        facts = {"joined": False, **await app.pusher.facts()}
        shared, remotes = await app.store.shared(), await app.store.remotes()
    there: Mapping[str, Any] = {}
    if facts["joined"]:
        reached, there = await _reached(settings, facts)
        facts |= reached
    seen = {part.project: _seen_by(there, part.project, remotes.get(part.project, "")) for part in shared}
    facts["shared"] = [part_shape(part) | {"seen_by": seen[part.project]} for part in shared]
    return facts if options.json else "\n".join(_told(facts, shared))


def _seen_by(there: Mapping[str, Any], slug: str, remote: str) -> str | None:
    """Whether all of the team or its members alone see a project there; nothing if that is not known."""
    projects = there.get("projects")
    for one in projects if isinstance(projects, list) else ():
        if isinstance(one, dict) and (one.get("remote") == remote if remote else one.get("slug") == slug):
            return "team" if one.get("open") else "members"
    return None


async def _reached(settings: Settings, facts: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """One's role, or why the server does not tell it, and what else it tells. A token it refused is not sent again."""
    if PushState.load(settings).refused:
        return {"role": None}, {}
    try:
        account = TeamAccount.load(settings)
        told = await _me(account, _BRIEFLY_SECONDS) if account else {}
    except TeamRefused as error:
        replace(PushState.load(settings), error=str(error), refused=True).save(settings)
        return {"role": None, "trouble": str(error)}, {}
    except MemoryFault as error:
        return {"role": None, "trouble": facts["trouble"] or str(error)}, {}
    return {"role": str(told.get("role", ""))}, told


def _told(facts: Mapping[str, Any], shared: Sequence[SharedPart]) -> list[str]:
    lines = ["This memory is in no team: `mcp-memory team join URL` joins one. Nothing is sent."]
    if facts["joined"]:
        role = f", {as_role(facts['role'])}" if facts["role"] else ""
        lines = [f"You are {facts['name']}{role} of the team at {facts['server']}."]
        sent = f"Last sent {facts['pushed']}" if facts["pushed"] else "Nothing was sent yet"
        names = {"waiting": "to be sent", "to_withdraw": "to be taken back there", "to_forget": "to be forgotten there"}
        parts = [f"{many(facts[name], 'event')} {told}" for name, told in names.items() if facts[name]]
        lines.append(f"{sent}; {' and '.join(parts) + ' wait' if parts else 'nothing waits'}.")
    if facts.get("trouble"):
        lines.append(f"In the way: {facts['trouble']}")
    if facts.get("declined"):
        lines.append(f"The server did not take {many(facts['declined'], 'event')}; the last of them: {facts['reason']}")
        rows = facts["set_aside"][-_SHOWN_SET_ASIDE:]
        lines += [f"  {safe(row['event_id'], 40) or '?'}: {safe(row['reason'], 200)}" for row in reversed(rows)]
    if not shared:
        return [*lines, "Nothing is shared: `mcp-memory share PROJECT` shares a project from now on."]
    seers = {"team": "; all of the team sees it", "members": "; its members see it"}
    seen = [seers.get(shape["seen_by"], "") * bool(shape["events"]) for shape in facts["shared"]]
    return [*lines, *(shared_line(part) + by for part, by in zip(shared, seen, strict=True))]


async def push(settings: Settings, options: argparse.Namespace) -> Answer:
    """Send what waits, now; with --again all that is shared, as after the server has lost something."""
    from mcp_memory.app import open_app
    from mcp_memory.surfaces.process_command import until_idle

    async with open_app(settings, typed=True) as app:
        if app.pusher.joined:
            await until_idle(app)  # what was captured a moment ago goes along
            if options.again:
                await app.store.push_again()
                replace(PushState.load(settings), declined=0, reason="", set_aside=[]).save(settings)
        with output.spinner("Sending", enabled=not options.json):
            pushed = await app.pusher.push()
        reason = PushState.load(settings).reason
    if options.json:
        return {name: getattr(pushed, name) for name in ("new", "known", "declined", "withdrawn")}
    told = [f"{many(pushed.new, 'event')} sent" if pushed.new else "Nothing new to send"]
    told += [f"{pushed.known:,} known there already"] * bool(pushed.known)
    told += [f"{pushed.withdrawn:,} taken back"] * bool(pushed.withdrawn)
    told += [f"{pushed.declined:,} not taken: {reason}"] * bool(pushed.declined)
    return f"{', '.join(told)}."


def part_shape(part: SharedPart) -> dict[str, Any]:
    return {
        "project": part.project,
        "session_id": part.session_id or None,
        "since": iso(part.since_ms) if part.since_ms is not None else None,
        "sessions": part.sessions,
        "events": part.events,
        "waiting": part.waiting,
    }


def shared_line(part: SharedPart) -> str:
    """A project or session in one line, for people."""
    name = safe(f"{part.project} · {part.session_id}" if part.session_id else part.project, 100)
    held = f"{many(part.events, 'event')} of {many(part.sessions, 'session')}"
    waits = f", {part.waiting:,} still to be sent" if part.waiting else ""
    if part.since_ms is None:
        return f"{name}: nothing more is shared; {held} are{waits}" if part.events else f"{name}: kept private"
    since = f"since {iso(part.since_ms)[:16].replace('T', ' ')} UTC" if part.since_ms > 0 else "from its beginning on"
    return f"{name}: shared {since}; {held}{waits}"


def listing(projects: Sequence[str]) -> str:
    return ", ".join(safe(name, 100) for name in dict.fromkeys(projects))


def many(count: int, name: str) -> str:
    return f"{count:,} {name}{'s' * (count != 1)}"


async def share(app: App, options: argparse.Namespace) -> Answer:
    """Share a project from now on, or a session as a whole; without either, list what is shared."""
    if not (options.slug or options.session):
        return await _listed(app, options)
    chosen = await _chosen(app, options)
    since_ms = _since(app, options)
    if not options.dry_run:
        from mcp_memory.surfaces.process_command import until_idle

        await until_idle(app)  # what was captured until now is from before now
    amount = await app.store.share(chosen, since_ms, dry_run=True)
    question = _what_is_sent(app, chosen, since_ms, amount)
    shape = _shape(chosen, amount)
    if options.dry_run:
        return shape | {"dry_run": True} if options.json else question
    if not options.yes and not output.agreed(f"{question}\nShare it?"):
        raise UsageError(f"{question} Say so with --yes, or look with --dry-run.")
    amount = await app.store.share(chosen, since_ms, dry_run=False)
    if options.json:
        return _shape(chosen, amount) | {"dry_run": False}
    return f"{_name(chosen)} is shared. {_what_is_sent(app, chosen, since_ms, amount)}"


async def unshare(app: App, options: argparse.Namespace) -> Answer:
    """Make a project or session private again, and withdraw from the server what it has of it."""
    if not (options.slug or options.session):
        raise UsageError("Name a project, or a session with --session. `mcp-memory share` lists what is shared.")
    chosen = await _chosen(app, options)
    amount = await app.store.unshare(chosen, dry_run=True)
    told = f"{many(amount.events, 'event')} of {many(amount.sessions, 'session')} of {_name(chosen)}"
    if options.dry_run:
        return _shape(chosen, amount) | {"dry_run": True} if options.json else f"{told} would be private again."
    amount = await app.store.unshare(chosen, dry_run=False)
    with output.spinner("Telling the server", enabled=not options.json):
        await app.pusher.try_push(withdraw_only=True, patience=_BRIEFLY_SECONDS)
    waiting = await app.store.waiting()
    left = waiting.withdrawn + waiting.forgotten
    if options.json:
        return _shape(chosen, amount) | {"dry_run": False, "to_withdraw": left}
    if not amount.events:
        return f"{_name(chosen)} is private: the team has nothing of it, and gets nothing."
    there = "The team's server has given them back." if app.pusher.joined else "No server had to give anything back."
    if left:
        there = (
            f"The server is told to give {many(left, 'event')} back as soon as it can be reached; `mcp-memory team "
            "status` says what waits."
        )
    are = "is" if amount.events == 1 else "are"
    return f"{told} {are} private again, and so is what comes. {there}"


async def _listed(app: App, options: argparse.Namespace) -> Answer:
    if options.since or options.dry_run:
        raise UsageError("Name the project to share, or a session with --session.")
    parts = await app.store.shared()
    if options.json:
        return {"shared": [part_shape(part) for part in parts]}
    if not parts:
        return (
            "Nothing is shared: all of this memory is private. `mcp-memory share PROJECT` shares a project from now on."
        )
    return "\n".join(map(shared_line, parts))


async def _chosen(app: App, options: argparse.Namespace) -> Chosen:
    if options.slug and options.session:
        raise UsageError("Name a project or a session, not both.")
    if options.session:
        from mcp_memory.navigate.browse import session_name

        return Chosen(session_id=await session_name(app.store, options.session))
    return Chosen(project=options.slug)


def _since(app: App, options: argparse.Namespace) -> int:
    """A project is shared from now on, a session as a whole, unless a time is named."""
    time = app.answers.when(options.since)
    if time is not None:
        return time.start_ms
    return TIMES.start if options.session else app.clock.now_ms()


def _what_is_sent(app: App, chosen: Chosen, since_ms: int, amount: Amount) -> str:
    """In a sentence, what leaves this machine, and to where."""
    account = TeamAccount.load(app.settings)
    where = f"to the team's server {account.url}, where you are {account.name}" if account else "to a team's server"
    before = f"{many(amount.events, 'event')} of {many(amount.sessions, 'session')}"
    if chosen.project:
        at = datetime.fromtimestamp(since_ms / 1000, app.zone).strftime("%Y-%m-%d %H:%M")
        before = f"What is said in it from {at} on, {before} so far,"
    else:
        before = f"{before}, and what is said in it from now on,"
    later = "" if account else " once you have joined one (`mcp-memory team join URL`)"
    return f"{before} goes {where}{later}. Notes and what stands between <private> tags never do."


def _name(chosen: Chosen) -> str:
    return safe(chosen.project or f"session {chosen.session_id}", 100)


def _shape(chosen: Chosen, amount: Amount) -> dict[str, object]:
    return {
        "project": chosen.project or None,
        "session_id": chosen.session_id or None,
        "sessions": amount.sessions,
        "events": amount.events,
    }
