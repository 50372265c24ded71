"""Taking lines out of the clients' transcripts: with a backup, at once or not at all, and never while one is written.

All other lines stay byte for byte. Only the client knows what it makes of a transcript with lines missing: a session
that is resumed may begin behind the gap.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from mcp_memory.capture.settings import private_dir
from mcp_memory.clients import CLIENTS
from mcp_memory.domain.forget import ForgetScope
from mcp_memory.pipeline.ingest import checkpoint_name, reached
from mcp_memory.store.inbox_port import Inbox
from mcp_memory.surfaces.forget_transcripts import LineFinder, TranscriptLines, split_lines, without_lines
from mcp_memory.surfaces.open_files import program_with

#: Below the directory of backups.
BACKUPS = Path("backups", "transcripts")
#: A client may be about to write to a transcript that has changed in this time.
QUIET_SECONDS = 60.0


class CleanedTranscript(NamedTuple):
    """What became of one transcript. `left` says why lines of it stay; `backup` holds it as it was."""

    client: str
    path: Path
    removed: int = 0
    left: str = ""
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """A transcript that was written anew, and up to where its old lines reached in the new file."""

    outcome: CleanedTranscript
    told_to: int = 0


async def clean_transcripts(
    inbox: Inbox, scope: ForgetScope, found: Sequence[TranscriptLines], home: Path, *, is_kept: bool
) -> list[CleanedTranscript]:
    """Remove the lines of a request from these transcripts, and let their readers find their places again."""
    finder, outcomes = LineFinder(scope), list[CleanedTranscript]()
    for each in found:
        name = checkpoint_name(each.path)
        position = await inbox.checkpoint(name)
        told_to = reached(position)
        cleaned = await to_thread.run_sync(_clean, finder, each, told_to, home / BACKUPS if is_kept else None)
        outcomes.append(cleaned.outcome)
        if cleaned.outcome.removed and position:
            await inbox.transcripts_rewritten({name: cleaned.told_to})
    return outcomes


def drop_backups(cleaned: Sequence[CleanedTranscript]) -> None:
    """Delete the backups that were made, and the directories that are empty then."""
    for backup in filter(None, (each.backup for each in cleaned)):
        backup.unlink(missing_ok=True)
        for folder in list(backup.parents)[:3]:
            with suppress(OSError):  # it holds others
                folder.rmdir()


def _clean(finder: LineFinder, found: TranscriptLines, told_to: int, backups: Path | None) -> _Cleaned:
    path, outcome = found.path, CleanedTranscript(found.client, found.path, left=found.fixed)
    if found.fixed:
        return _Cleaned(outcome)
    try:
        target = path.resolve(strict=True)
        before = target.stat()
        if reason := _is_in_use(target, before):
            return _Cleaned(outcome._replace(left=reason))
        data = target.read_bytes()
        covered = finder.lines(CLIENTS[found.client], path)
        kept = f"{len(covered.kept)} line stays, by which the client knows the session" if covered.kept else ""
        if not covered.places:
            return _Cleaned(outcome._replace(left=kept))
        # Found and removed in the same bytes: the file must not have changed in between.
        if _identity(target.stat()) != _identity(before):
            return _Cleaned(outcome._replace(left="its client is writing to it"))
        remaining = without_lines(data, target, covered.places)
        backup = _back_up(target, found.client, data, before, backups) if backups else None
        if not _replace(target, remaining, before):
            if backup:
                backup.unlink(missing_ok=True)
            return _Cleaned(outcome._replace(left="its client is writing to it"))
    except OSError as error:
        return _Cleaned(outcome._replace(left=f"it cannot be changed: {error.strerror or error}"))
    done = CleanedTranscript(found.client, path, len(covered.places), kept, backup)
    return _Cleaned(done, _shifted(data, covered.places, told_to))


def _is_in_use(path: Path, found: os.stat_result) -> str:
    """Return why a transcript should be left alone for now; empty if nothing speaks against changing it."""
    age = time.time() - found.st_mtime
    if age < QUIET_SECONDS:
        return "it has changed within the last minute: end the session there, and run this again a minute later"
    if user := program_with([path]):
        return f"{user} has it open: end the session there, and run this again"
    if found.st_nlink > 1:
        return "it has a second name (a hard link), under which the lines would stay"
    return ""


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _back_up(path: Path, client: str, data: bytes, before: os.stat_result, folder: Path) -> Path:
    """Copy a transcript, readable for its user alone. One that is cleaned again gets another name."""
    place = hashlib.blake2b(os.fsencode(path.parent), digest_size=4).hexdigest()
    target = folder / client / f"{path.parent.name[-60:]}-{place}" / f"{path.name}.{time.time_ns() // 1_000_000}"
    private_dir(str(target.parent))
    with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    return target


def _replace(path: Path, data: bytes, before: os.stat_result) -> bool:
    """Put the remaining lines in the place of the file, unless it has changed; one without lines is deleted."""
    if not data.strip():
        if _identity(path.stat()) != _identity(before):
            return False
        path.unlink()
        return True
    partial = path.with_name(f".{path.name}.{os.getpid()}.mcp-memory-tmp")
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, stat.S_IMODE(before.st_mode))
        os.utime(partial, ns=(before.st_atime_ns, before.st_mtime_ns))
        if _identity(path.stat()) != _identity(before):
            return False
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def _shifted(data: bytes, gone: frozenset[int], told_to: int) -> int:
    """Return where the lines before an offset end once some lines are gone."""
    return sum(end - start for index, start, end in _extents(data) if index not in gone and end <= told_to)


def _extents(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Return each line's number with the offsets of its start and its end."""
    start = 0
    for index, raw in enumerate(split_lines(data)):
        yield index, start, start + len(raw)
        start += len(raw)
