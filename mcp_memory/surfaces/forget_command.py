"""Forgetting, as a command and as an agent's tool: says what would go, asks, and then leaves no trace of it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from mcp_memory.app import App
from mcp_memory.clients import CLIENTS
from mcp_memory.domain.events import parse_ulid
from mcp_memory.domain.forget import PREVIEWED, ForgetCounts, ForgetRequest, ForgetScope
from mcp_memory.domain.matching import match_of
from mcp_memory.domain.people import Viewer
from mcp_memory.domain.text import safe
from mcp_memory.errors import NotAllowed, NotFound, OutOfReach, StoreError, UnknownTimePhrase, UsageError
from mcp_memory.navigate.browse import grip_key, session_name
from mcp_memory.navigate.naming import grip_id_of
from mcp_memory.pipeline.keep_forgotten import keep_forgotten
from mcp_memory.store.port import Store
from mcp_memory.surfaces import output
from mcp_memory.surfaces.clean_transcripts import BACKUPS, clean_transcripts, drop_backups
from mcp_memory.surfaces.forget_copies import Elsewhere, checkouts_named, listed, look_elsewhere
from mcp_memory.surfaces.forget_preview import Preview, near_projects, preview
from mcp_memory.surfaces.forget_proof import Proof, check_place
from mcp_memory.surfaces.forget_transcripts import Progress, TranscriptLines
from mcp_memory.surfaces.forgettings import lift_forgetting, list_forgettings
from mcp_memory.surfaces.output import Answer
from mcp_memory.surfaces.process_command import until_idle

if TYPE_CHECKING:
    from mcp_memory.store.team_port import TeamStore

_TOO_SHORT = (
    "A text to match has at least 3 characters, or 2 in a script without blanks such as Chinese, since whatever holds "
    "it goes."
)
#: How what is to be forgotten can be named.
WAYS = ("session", "event", "project", "before", "match")
#: How long a reader of an earlier state is waited for.
_PATIENCE_MS = 2_000
#: How long the team's server is waited for.
_BRIEFLY_SECONDS = 5.0
_EVERYTHING = 1 << 40


async def run(app: App, options: argparse.Namespace) -> Answer:
    if options.list:
        return await list_forgettings(app, as_json=options.json)
    if options.lift:
        return await lift_forgetting(app, options.lift, as_json=options.json)
    given = {way: getattr(options, way) for way in WAYS}
    request = await request_from(app, part=options.part, **given)
    request = replace(request, only_stored=options.only_stored)
    if options.proof and options.dry_run:
        raise UsageError("--proof reports on a deletion, and --dry-run erases nothing: leave one of them out.")
    with output.progress("Looking for it", enabled=not options.json, unit=output.BYTES) as progress:
        found = await carry_out(app, request, dry_run=True, progress=progress)
        is_previewed = options.dry_run or not (options.yes and found.anything)
        shown = await preview_of(app, request, found) if is_previewed else Preview()
    is_cleaning = options.transcripts and any(not each.fixed for each in found.elsewhere.transcripts)
    if options.dry_run or not (found.anything or is_cleaning or options.proof):
        return _told(options, found, shown, done=False)
    question = "\n".join([*shown.rendered(), *found.remarks(done=False), f"Forget {found} for good?"])
    if found.anything and not options.yes and not output.agreed(question):
        raise UsageError(f"{found} would be forgotten for good. Say so with --yes, or look with --dry-run.")
    proof = await _begin_proof(app, request, options) if options.proof else None
    with output.spinner("Forgetting", enabled=not options.json):
        done = await carry_out(app, request, dry_run=False, known=found.elsewhere)
    if is_cleaning:
        done = replace(done, elsewhere=await _clean(app, done.elsewhere, options))
    return await _finish_proof(app, proof, done, options) if proof else _told(options, done, Preview(), done=True)


async def _begin_proof(app: App, request: ForgetRequest, options: argparse.Namespace) -> Proof:
    check_place(Path(options.proof), app.settings)
    with output.progress("Looking through all files", enabled=not options.json, unit=output.BYTES) as meter:
        return await Proof.begin(app, request, meter)


async def _finish_proof(app: App, proof: Proof, done: Outcome, options: argparse.Namespace) -> int:
    """Look again, write the report and print what it says; return 0 only if nothing is left."""
    path, as_json = Path(options.proof), argparse.Namespace(json=True)
    outcome, remarks = _told(as_json, done, Preview(), done=True), done.remarks(done=True)
    with output.progress("Looking through all files again", enabled=not options.json, unit=output.BYTES) as meter:
        is_clean = await proof.finish(path, cast("dict[str, Any]", outcome), remarks, await _confirmed(app), meter)
    if options.json:
        output.document({**cast("dict[str, Any]", outcome), "proof": proof.report})
    else:
        output.text(f"{_told(options, done, Preview(), done=True)}\n{proof.summary(path)}")
    return 0 if is_clean else 1


async def _confirmed(app: App) -> dict[str, Any]:
    """Return what is refused from now on, and what the team's server answered to what it was to forget."""
    known = await app.store.tombstones()
    refused = {"events": known.events, "ways_to_tell_them": known.words, "runs": len(known.forgettings)}
    return {"refused_from_now_on": refused | {"key_lost": known.key_lost}, "team": await app.pusher.withdrawal()}


async def _clean(app: App, elsewhere: Elsewhere, options: argparse.Namespace) -> Elsewhere:
    """Remove the lines from the transcripts of those clients for which the user agrees."""
    chosen = list[TranscriptLines]()
    for client, title in {each.client: CLIENTS[each.client].title for each in elsewhere.transcripts}.items():
        found = [each for each in elsewhere.transcripts if each.client == client]
        removable = [each for each in found if not each.fixed]
        lines = sum(each.lines for each in removable)
        question = f"Remove {lines:,} lines from {len(removable):,} transcripts of {title}?"
        if not removable:
            chosen += found
            continue
        answer = options.yes or output.agreed(question)
        if answer is None:
            raise UsageError(f"{question} Say so with --yes, or look with --dry-run.")
        chosen += found if answer else []
    if not chosen or elsewhere.scope is None:
        return elsewhere
    home = app.settings.home
    cleaned = await clean_transcripts(app.inbox, elsewhere.scope, chosen, home, is_kept=not options.no_backup)
    await app.inbox.scrub(_PATIENCE_MS)
    backups = [each for each in cleaned if each.backup]
    if backups and not options.yes:
        question = f"Keep the transcripts as they were, words included, in {home / BACKUPS}?"
        if output.agreed(question) is False:
            await to_thread.run_sync(drop_backups, backups)
    return replace(elsewhere, cleaned=tuple(cleaned))


async def request_from(
    app: App,
    session: str | None = None,
    event: str | None = None,
    project: str | None = None,
    before: str | None = None,
    match: str | None = None,
    part: bool = False,
) -> ForgetRequest:
    """What a user wants to be forgotten, named in one of these ways."""
    if part and match is None:
        raise UsageError("--part belongs to --match: it takes the text inside of words, too.")
    if match is not None and not match_of(match).is_specific:
        raise UsageError(_TOO_SHORT)
    return ForgetRequest(
        session_id=await session_name(app.store, session) if session else session,
        event_key=await key_of(app, event) if event else None,
        project=await _project_named(app, project) if project else project,
        before_ms=_beginning_of(app, before),
        match=match,
        part=part,
    )


async def _project_named(app: App, name: str) -> str:
    """Return a project's slug, given in any case; the name itself if there is no such project."""
    slugs = await app.store.slugs()
    return name if name in slugs else next((slug for slug in slugs if slug.lower() == name.lower()), name)


def _beginning_of(app: App, phrase: str | None) -> int | None:
    """Return when a time begins. A mere duration, such as 90 days, lies back from now; "before May" ends in May."""
    try:
        time = app.answers.when(phrase)
    except UnknownTimePhrase:
        try:
            time = app.answers.when(f"{phrase} ago")
        except UnknownTimePhrase:
            time = None
        if time is None:
            raise
    if time is None:
        return None
    return time.start_ms or time.end_ms


async def preview_of(app: App, request: ForgetRequest, outcome: Outcome, part_option: str = "--part") -> Preview:
    """Return the lines that would go, or what is near if nothing would."""
    store, found = own_part(app), outcome.found
    return await preview(app, store, request, found, anything=outcome.anything, part_option=part_option)


async def key_of(app: App, name: str) -> bytes:
    """The key of an event, by its own id or by the id of a grip on it or on a part of it."""
    name = grip_id_of(name)
    if not name.strip().lower().startswith("grip:"):
        return parse_ulid(name.strip())[1]
    key = await grip_key(app.store, name)
    record = await app.store.grip(key, 0, 0)
    return record.cited.key if record and record.cited else key


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request takes, or has taken.

    `removed` are copies of the memory that this program made by itself and that went as well; `copies` are others,
    which it leaves alone. `unscrubbed`: why the words stay in the file for now. `again`: what falls under the request
    after everything was rebuilt. `shared`: how many events the team's server is still to be told to forget.
    `unreached`: where the words may stay that no program of ours reaches.
    """

    found: ForgetCounts
    removed: tuple[Path, ...] = ()
    copies: tuple[Path, ...] = ()
    unscrubbed: str = ""
    again: str = ""
    shared: int = 0
    unreached: str = field(default="", compare=False)
    #: What holds the words outside the memory.
    elsewhere: Elsewhere = field(default=Elsewhere(), compare=False)

    @property
    def anything(self) -> bool:
        found = self.found
        return any((found.events, found.inbox, found.cleared, found.summaries, found.handed))

    def __str__(self) -> str:
        """How much it is, in words."""
        parts = [f"{self.found.events} events of {self.found.sessions} sessions"]
        if self.found.inbox:
            parts.append(f"{self.found.inbox} captured payloads that wait")
        if self.found.cleared:
            parts.append(f"the paths and names of {self.found.cleared} more events")
        if self.found.summaries and not self.found.events:
            parts.append(f"{self.found.summaries} summaries that say it")
        if self.found.handed and not self.found.events:
            parts.append(f"what was noted of {self.found.handed} answers to agents")
        return " and ".join((", ".join(parts[:-1]), parts[-1])) if parts[1:] else parts[0]

    def remarks(self, *, done: bool) -> list[str]:
        """What else the user should know, and do."""
        told = []
        if self.removed:
            verb = "were deleted as well" if done else "would be deleted as well"
            told.append(f"Copies that this program had made {verb}: {', '.join(map(str, self.removed))}.")
        if others := [path for path in self.copies if path not in self.elsewhere.old]:
            copies = listed(others)
            told.append(f"These copies of the memory are not touched; delete them if they may hold it: {copies}.")
        if self.found.names:
            told.append(
                f"The text stays in the name of {', '.join(self.found.names)}, since other events belong there: "
                "`mcp-memory forget --project` or `--session` erases those."
            )
        if self.again:
            told.append(
                f"By now there are {self.again} again: it was said meanwhile, or events say it in a way that this text "
                "does not match. `mcp-memory search` finds these, and `forget --event` erases one."
            )
        if self.shared:
            told.append(
                f"The team's server has not been told yet to forget {self.shared} shared events: that is done as soon "
                "as it can be reached, and `mcp-memory team status` says what waits."
            )
        if self.unscrubbed:
            told.append(
                f"{self.unscrubbed[:1].upper()}{self.unscrubbed[1:]}, so the erased words stay in the file until then. "
                "See to it, or leave it: a running server, or the next command, then removes them by itself."
            )
        if self.unreached and done:
            told.append(self.unreached)
        return [*told, *self.elsewhere.remarks()]


async def carry_out(
    app: App,
    request: ForgetRequest,
    *,
    dry_run: bool,
    progress: Progress | None = None,
    known: Elsewhere | None = None,
) -> Outcome:
    """Forget in database, spool, log and copies, then rebuild what is left. Of a team's memory a member's own alone.

    What is elsewhere is looked for unless it is `known`; a dry run searches transcripts only if there is a `progress`.
    """
    if app.viewer:
        return await _forget_own(app, app.viewer, request, dry_run=dry_run)
    if request.project is not None and await app.store.root_of(request.project) is None:
        near = near_projects(request.project, await app.store.slugs())
        raise NotFound(f"There is no project {request.project!r} in memory; `mcp-memory projects` lists them.{near}")
    found, reach = await app.store.forget(request, dry_run=True)
    spooled = await to_thread.run_sync(_spooled, app.settings.spool, reach)
    made = tuple(app.store.copies())
    checkouts = await checkouts_named(app, request)
    if dry_run and known is None:
        known = await look_elsewhere(app, request, reach, made, checkouts, progress)
    if not dry_run:
        # The way a payload goes, so that none gets past it: whoever is interrupted asks again, and loses nothing else.
        # What was heard of a team may quote the same words, and is heard anew.
        await to_thread.run_sync(_remove, [*spooled, *made, app.settings.team_known], app.settings.home)
    local = await app.inbox.forget(reach, dry_run=dry_run)
    if not dry_run:
        found, _ = await app.store.forget(request, dry_run=False, now_ms=app.clock.now_ms())
        await keep_forgotten(app.store, app.inbox)
        # And again: a backup may have got its name meanwhile. One that gets it later is not kept, and so are texts.
        await to_thread.run_sync(_remove, app.store.copies(), app.settings.home)
        await app.inbox.drop_all()
    if known is None:
        known = await look_elsewhere(app, request, reach, made, checkouts, progress or (lambda done, total: None))
    others = known.copies
    found = replace(found, inbox=local.payloads + len(spooled), handed=local.handed)
    if dry_run:
        outcome = Outcome(found, made, others, elsewhere=known)
        return outcome if outcome.anything else Outcome(found, copies=(*made, *others), elsewhere=known)
    await app.pusher.try_push(withdraw_only=True, patience=_BRIEFLY_SECONDS)
    shared = (await app.store.waiting()).forgotten
    try:
        await until_idle(app)
    except StoreError:  # it is erased all the same; a running server, or the next command, rebuilds the rest
        return Outcome(found, made, others, "nothing can be written just now", shared=shared, elsewhere=known)
    found_again, reach = await app.store.forget(request, dry_run=True)
    local = await app.inbox.forget(reach, dry_run=True)
    again = Outcome(replace(found_again, inbox=local.payloads, handed=local.handed))
    reasons = [await app.store.scrub(_PATIENCE_MS), await app.inbox.scrub(_PATIENCE_MS)]
    left = " and ".join(dict.fromkeys(filter(None, reasons)))
    if not left and await app.index.behind():
        left = "another process is writing the index"
    said_again = str(again) if again.anything else ""
    return Outcome(found, made, others, left, said_again, shared, app.store.unreached(), known)


async def erase_at_once(app: App, request: ForgetRequest) -> None:
    """Forget without waiting until what is left is summarized again, which the pipeline does."""
    _, reach = await app.store.forget(request, dry_run=True)
    await to_thread.run_sync(_remove, [*app.store.copies(), app.settings.team_known], app.settings.home)
    await app.inbox.forget(reach, dry_run=False)
    await app.store.forget(request, dry_run=False, now_ms=app.clock.now_ms())
    await keep_forgotten(app.store, app.inbox)
    await to_thread.run_sync(_remove, app.store.copies(), app.settings.home)
    await app.inbox.drop_all()
    await app.store.scrub()
    await app.inbox.scrub()


def own_part(app: App) -> Store:
    """What of the memory its user may forget: all of it, or on a team's server what a member said himself."""
    return app.seen_by(app.viewer, app.viewer.name).store if app.viewer else app.store


async def _forget_own(app: App, viewer: Viewer, request: ForgetRequest, *, dry_run: bool) -> Outcome:
    """Forget what a member said himself, on a team's server; what is left is rebuilt by its pipeline."""
    viewer.must_write()
    events = await own_part(app).events_to_forget(request, _EVERYTHING)
    if not events and await app.store.events_to_forget(request, 1):
        raise NotAllowed("Others said that: only what you said yourself can be forgotten here. An admin can ask them.")
    if dry_run:
        sessions = {(event.client, event.session_id) for event in events}
        first = tuple(event.key for event in events[:PREVIEWED])
        return Outcome(ForgetCounts(len(events), len(sessions), first=first))
    found = await cast("TeamStore", app.whole.store).forget_events([event.key for event in events], viewer.name)
    app.pipeline.wake.set()
    return Outcome(found)


def _spooled(folder: Path, reach: ForgetScope) -> list[Path]:
    """The spool's files that fall under the request, whole or not."""
    found = []
    for path in sorted(filter(Path.is_file, folder.iterdir())) if folder.is_dir() else ():
        with suppress(OSError):  # another process may have taken it
            text = path.read_text("utf-8", "replace")
            try:
                row = json.loads(text)
                root, label, payload = (str(row[name]) for name in ("root", "label", "payload"))
                remote = str(row.get("remote", ""))
                falls_under = reach.covers(int(row["received_ms"]), root, label, payload, remote)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                falls_under = reach.covers_rest(int(path.stat().st_mtime * 1000), text)
            if falls_under:
                found.append(path)
    return found


def _remove(paths: Sequence[Path], home: Path) -> None:
    """Delete the files, and empty the log, which may name or quote what was forgotten."""
    for path in paths:
        path.unlink(missing_ok=True)
    for path in (home / "logs").glob(f"{output.LOG_NAME}*"):
        with suppress(OSError):
            os.truncate(path, 0)


def _told(options: argparse.Namespace, outcome: Outcome, shown: Preview, *, done: bool) -> Answer:
    if options.json:
        return {
            "forgotten": done,
            **{
                name: getattr(outcome.found, name)
                for name in ("events", "sessions", "inbox", "cleared", "summaries", "handed")
            },
            "names": list(outcome.found.names),
            **shown.as_json(),
            "removed": list(map(str, outcome.removed)),
            "copies": list(map(str, outcome.copies)),
            "again": outcome.again,
            "to_forget": outcome.shared,
            "scrubbed": done and not (outcome.unscrubbed or outcome.elsewhere.unscrubbed),
            "unscrubbed": outcome.unscrubbed or outcome.elsewhere.unscrubbed,
            "unreached": outcome.unreached,
            **outcome.elsewhere.shape(),
        }
    if outcome.anything:
        told = [f"{'Forgot' if done else 'Would forget'} {outcome}.", *shown.rendered()]
    else:
        told = shown.rendered() or ["Nothing to forget."]
    return "\n".join([*told, *outcome.remarks(done=done)])


async def request_of_agent(
    app: App, grip_id: str | None, session_id: str | None, match: str | None, part: bool = False
) -> tuple[ForgetRequest, str]:
    """What is to be forgotten, and what to call it when the user is asked."""
    given = [value for value in (grip_id, session_id, match) if value]
    if len(given) != 1 or (match and not match_of(match).is_specific):
        raise UsageError("Give one of grip_id, session_id or match (at least 3 characters).")
    if part and not match:
        raise UsageError("part belongs to match: it takes the text inside of words, too.")
    view = await app.answers.view()
    if not grip_id:
        if view.alone:
            raise OutOfReach(
                "The user's setting [privacy] isolate is on: over MCP only single events of this project are erased, "
                "by grip_id. The user can erase sessions and texts with `mcp-memory forget` on the command line."
            )
        if match:
            where = " as a word or as a part of one" if part else ""
            return ForgetRequest(match=match, part=part), f"all that holds {safe(match, 100)!r}{where}"
        session = await session_name(app.store, session_id or "")
        return ForgetRequest(session_id=session), f"the session {safe(session, 100)}"
    key = await key_of(app, grip_id)
    record = await app.store.grip(key, 0, 0)
    if record and record.cited:
        view.admit(record.cited.project)
    return ForgetRequest(event_key=key), f"“{safe(record.excerpt, 200)}”" if record else grip_id[:80]
